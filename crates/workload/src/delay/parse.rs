//! Delays as people write them. What is printed parses to the same delay.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use laxity_text::{duration_text, parse_ns};

use super::{Delay, DelayError};

/// How delays are written. A recorded trace has no text.
pub(super) const FORMS: [&str; 8] = [
    "none",
    "constant(150 ms)",
    "uniform(0 ms, 99 ms)",
    "zipf(0.99, 100, 1 ms) with exponent, ranks and step",
    "exponential(240 ms)",
    "gamma(60, 4 ms) with shape and scale",
    "normal(100 ms, 20 ms) with mean and deviation",
    "poisson(100, 1 ms) with mean count and step",
];

impl FromStr for Delay {
    type Err = DelayError;

    fn from_str(text: &str) -> Result<Delay, DelayError> {
        let refuse = |problem: String| DelayError::Text { text: text.into(), problem };
        let (law, rest) = match text.trim().split_once('(') {
            Some((law, rest)) => {
                let inner =
                    rest.strip_suffix(')').ok_or_else(|| refuse("it has no closing parenthesis".into()))?;
                (law.trim(), inner.split(',').map(str::trim).collect())
            }
            None => (text.trim(), vec![]),
        };
        let number = |index: usize| -> Result<f64, DelayError> {
            let word: &str = rest.get(index).copied().unwrap_or_default();
            word.parse().map_err(|_| refuse(format!("{word:?} is no number")))
        };
        let time_ns = |index: usize| -> Result<f64, DelayError> {
            let word: &str = rest.get(index).copied().unwrap_or_default();
            parse_ns(word).map_err(|_| refuse(format!("{word:?} is no time such as 10 ms")))
        };
        let counts = |expected: usize| {
            let problem = format!("{law} takes {expected} values, not {}", rest.len());
            if rest.len() == expected { Ok(()) } else { Err(refuse(problem)) }
        };
        let delay = match law {
            "none" => {
                counts(0)?;
                Delay::NONE
            }
            "constant" => {
                counts(1)?;
                Delay::Constant { ns: time_ns(0)?.round() as u64 }
            }
            "uniform" => {
                counts(2)?;
                Delay::Uniform { low_ns: time_ns(0)?.round() as u64, high_ns: time_ns(1)?.round() as u64 }
            }
            "zipf" => {
                counts(3)?;
                let ranks = number(1)?;
                if ranks.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&ranks) {
                    return Err(refuse(format!("{ranks} is no number of ranks")));
                }
                let step_ns = time_ns(2)?.round() as u64;
                Delay::Zipf { exponent: number(0)?, ranks: ranks as u32, step_ns }
            }
            "exponential" => {
                counts(1)?;
                Delay::Exponential { mean_ns: time_ns(0)? }
            }
            "gamma" => {
                counts(2)?;
                Delay::Gamma { shape: number(0)?, scale_ns: time_ns(1)? }
            }
            "normal" => {
                counts(2)?;
                Delay::Normal { mean_ns: time_ns(0)?, deviation_ns: time_ns(1)? }
            }
            "poisson" => {
                counts(2)?;
                Delay::Poisson { mean: number(0)?, step_ns: time_ns(1)?.round() as u64 }
            }
            _ => return Err(refuse(format!("there is no law {law:?}"))),
        };
        // What cannot be sampled is refused here, where the text is still known to whoever wrote it.
        delay.sampler(0)?;
        Ok(delay)
    }
}

/// The text that parses to the delay, but for a recorded one.
impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Constant { ns: 0 } => f.write_str("none"),
            Delay::Constant { ns } => write!(f, "constant({})", Time(*ns as f64)),
            Delay::Uniform { low_ns, high_ns } => {
                write!(f, "uniform({}, {})", Time(*low_ns as f64), Time(*high_ns as f64))
            }
            Delay::Zipf { exponent, ranks, step_ns } => {
                write!(f, "zipf({exponent}, {ranks}, {})", Time(*step_ns as f64))
            }
            Delay::Exponential { mean_ns } => write!(f, "exponential({})", Time(*mean_ns)),
            Delay::Gamma { shape, scale_ns } => write!(f, "gamma({shape}, {})", Time(*scale_ns)),
            Delay::Normal { mean_ns, deviation_ns } => {
                write!(f, "normal({}, {})", Time(*mean_ns), Time(*deviation_ns))
            }
            Delay::Poisson { mean, step_ns } => write!(f, "poisson({mean}, {})", Time(*step_ns as f64)),
            Delay::Recorded { ns } => write!(f, "recorded({} delays)", ns.len()),
        }
    }
}

/// In the largest unit that needs no fraction; parts of a nanosecond stay what they are.
struct Time(f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as u64;
        if ns as f64 == self.0 {
            f.write_str(&duration_text(Duration::from_nanos(ns)))
        } else {
            write!(f, "{} ns", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_printed_back() {
        let examples = FORMS.map(|form| form.split(" with ").next().unwrap_or(form));
        for example in examples {
            let delay: Delay = example.parse().unwrap();
            assert_eq!(delay.to_string(), example);
        }
        assert_eq!("zipf(0.99, 100, 1 ms)".parse(), Ok(Delay::KLINK_ZIPF));
        assert_eq!(" uniform( 0ms,99 ms )".parse(), Ok(Delay::KLINK_UNIFORM));
        assert_eq!("gamma(2, 0.5 ms)".parse(), Ok(Delay::AION_GAMMA_GAP));
        assert_eq!(Delay::AION_GAMMA_GAP.to_string(), "gamma(2, 500 us)");
        assert_eq!("constant(2 min)".parse(), Ok(Delay::Constant { ns: 120_000_000_000 }));
        // Neither is a whole number of nanoseconds that fits 64 bits.
        for mean_ns in [0.3, 1e20] {
            let delay = Delay::Exponential { mean_ns };
            assert_eq!(delay.to_string().parse(), Ok(delay));
        }
    }

    #[test]
    fn what_is_no_delay_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Delay>().unwrap_err().to_string();
        for (text, problem) in [
            ("", "there is no law \"\""),
            ("pareto(1)", "there is no law \"pareto\""),
            ("uniform(1 ms)", "uniform takes 2 values, not 1"),
            ("uniform(1 ms, 2 ms", "it has no closing parenthesis"),
            ("constant(5)", "\"5\" is no time such as 10 ms"),
            ("constant(-5 ms)", "\"-5 ms\" is no time such as 10 ms"),
            ("gamma(x, 1 ms)", "\"x\" is no number"),
            ("zipf(1, 0.5, 1 ms)", "0.5 is no number of ranks"),
        ] {
            let message = refused(text);
            let expected =
                format!("{text:?} is no delay: {problem}; expected one of none, constant(150 ms), ");
            assert!(message.starts_with(&expected), "{message}");
        }
        assert_eq!(
            refused("uniform(2 ms, 1 ms)"),
            "a uniform delay from 2000000 ns to 1000000 ns: the greatest must not be below the least"
        );
    }
}
