//! `SET 'laxity.approximate.…'`: windows that answer from a part of their rows, within an error.

use laxity_operators::approximate::{Aggregate, Estimator, Promise, Rule, Shows};

use arrow::datatypes::DataType;
use datafusion_expr::AggregateUDF;
use std::sync::Arc;

/// What was SET.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approximate {
    /// `laxity.approximate.error`: half the width of the interval, relative to the result. `None`: results are exact.
    pub error: Option<f64>,
    /// `laxity.approximate.confidence`, default 95 %: in how many windows at least the error is kept.
    pub confidence: f64,
    /// `laxity.approximate.when` is 'overload' and not 'always': rows are left out only while the query is behind.
    pub only_behind: bool,
    /// `laxity.approximate.method`, default `aion`.
    pub rule: Rule,
}

impl Default for Approximate {
    fn default() -> Approximate {
        Approximate { error: None, confidence: 0.95, only_behind: false, rule: Rule::Aion }
    }
}

/// What is wrong with a value, and what to write.
type Wrong = (String, &'static str);

impl Approximate {
    /// Error and confidence, where results are approximate.
    pub fn promise(&self) -> Option<Promise> {
        self.error.map(|error| Promise { error, confidence: self.confidence })
    }

    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        let wrong = |what: &str| format!("'{key}' takes {what}, not '{value}'");
        match key {
            "laxity.approximate.error" => {
                let error = share(value).filter(|error| *error > 0.0 && *error < 1.0);
                let hint = "write '5%' or '0.05'; RESET the key for exact results";
                self.error = Some(error.ok_or_else(|| (wrong("a share between 0 and 1"), hint))?);
            }
            "laxity.approximate.confidence" => {
                let confidence = share(value).filter(|confidence| (0.5..1.0).contains(confidence));
                let hint = "write '95%' or '0.95'";
                self.confidence = confidence.ok_or_else(|| (wrong("a share from 0.5 to below 1"), hint))?;
            }
            "laxity.approximate.when" => {
                self.only_behind = match value.trim().to_ascii_lowercase().as_str() {
                    "always" => false,
                    "overload" => true,
                    _ => return Err((wrong("'always' or 'overload'"), "leave it out for 'always'")),
                }
            }
            _ => {
                self.rule = match value.trim().to_ascii_lowercase().as_str() {
                    "aion" => Rule::Aion,
                    "aion-minus" => Rule::AionMinus,
                    "k-slack" => Rule::KSlack,
                    "aq-k-slack" => Rule::AqKSlack,
                    _ => {
                        let known = "'aion', 'aion-minus', 'k-slack' or 'aq-k-slack'";
                        return Err((
                            wrong(known),
                            "leave it out for 'aion'; the others are there to compare with",
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn reset(&mut self, key: &str) {
        let fresh = Approximate::default();
        match key {
            "laxity.approximate.error" => self.error = None,
            "laxity.approximate.confidence" => self.confidence = fresh.confidence,
            "laxity.approximate.when" => self.only_behind = false,
            _ => self.rule = fresh.rule,
        }
    }
}

/// `5%`, `5 %` or `0.05`.
fn share(text: &str) -> Option<f64> {
    let text = text.trim();
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

/// Functions that show how good a result is; they become aggregates of their own.
pub(crate) const NAMES: &[&str] = &["approx_error", "approx_rows", "approx_seen"];

/// What begins the name that `APPROX_ERROR(f(x))` becomes.
pub(crate) const ERROR_OF: &str = "approx_error_of_";

/// What `APPROX_ERROR(APPROX_COUNT_DISTINCT(x))` becomes.
pub(crate) const ERROR_OF_DISTINCT: &str = "approx_error_of_approx_count_distinct";

/// What `APPROX_ERROR(f(x) / g(y))` becomes, of two numbers that are 0 where there is none.
pub(crate) const RATIO: &str = "approx_error_of_ratio";

/// The aggregate of that lower-case name, over rows that nobody has left any out of.
pub(crate) fn by_name(name: &str) -> Option<Arc<AggregateUDF>> {
    estimator(name).map(Estimator::function)
}

/// The same, as what it estimates.
pub(crate) fn estimator(name: &str) -> Option<Estimator> {
    let promise = Promise { error: 0.05, confidence: 0.95 };
    let (aggregate, is_sample, shows, data_type) = match name {
        "approx_rows" => (Aggregate::Rows, false, Shows::Taken, DataType::Int64),
        "approx_seen" => (Aggregate::Rows, false, Shows::Seen, DataType::Int64),
        RATIO => {
            let ratio = Aggregate::Ratio { over: 0, under: 1, product: 2 };
            (ratio, false, Shows::Error, DataType::Float64)
        }
        _ => {
            let (aggregate, is_sample) = aggregate(name.strip_prefix(ERROR_OF)?)?;
            (aggregate, is_sample, Shows::Error, DataType::Float64)
        }
    };
    Some(Estimator { aggregate, is_sample, shows, of_sample: false, promise, data_type })
}

/// What an aggregate function of that name computes, of value 0, and whether n - 1 divides.
pub(crate) fn aggregate(name: &str) -> Option<(Aggregate, bool)> {
    Some(match name {
        "count" => (Aggregate::Count(0), false),
        "sum" => (Aggregate::Sum(0), false),
        "avg" => (Aggregate::Average(0), false),
        "var_pop" => (Aggregate::Variance(0), false),
        "var_samp" | "variance" | "var" => (Aggregate::Variance(0), true),
        "stddev_pop" => (Aggregate::Deviation(0), false),
        "stddev_samp" | "stddev" => (Aggregate::Deviation(0), true),
        // Which one its second argument says.
        "percentile" => (Aggregate::Percentile { value: 0, share: 0.5 }, false),
        "approx_count_distinct" | "approx_distinct" => (Aggregate::Distinct(0), false),
        _ => return None,
    })
}

/// The same of another value.
pub(crate) fn of_value(aggregate: Aggregate, value: Option<usize>) -> Aggregate {
    match (aggregate, value) {
        (Aggregate::Rows | Aggregate::Whole | Aggregate::Ratio { .. } | Aggregate::Distinct(_), _) => {
            aggregate
        }
        (_, None) => Aggregate::Rows,
        (Aggregate::Percentile { share, .. }, Some(value)) => Aggregate::Percentile { value, share },
        (Aggregate::Count(_), Some(value)) => Aggregate::Count(value),
        (Aggregate::Sum(_), Some(value)) => Aggregate::Sum(value),
        (Aggregate::Average(_), Some(value)) => Aggregate::Average(value),
        (Aggregate::Variance(_), Some(value)) => Aggregate::Variance(value),
        (Aggregate::Deviation(_), Some(value)) => Aggregate::Deviation(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_both_forms() {
        assert_eq!(
            [share("5%"), share(" 2.5 % "), share("0.05"), share("five")],
            [Some(0.05), Some(0.025), Some(0.05), None]
        );
        let mut set = Approximate::default();
        set.set("laxity.approximate.error", "5%").unwrap();
        set.set("laxity.approximate.when", "overload").unwrap();
        assert_eq!(set.promise(), Some(Promise { error: 0.05, confidence: 0.95 }));
        assert!(set.only_behind);
        let (message, _) = set.set("laxity.approximate.error", "120%").unwrap_err();
        assert_eq!(message, "'laxity.approximate.error' takes a share between 0 and 1, not '120%'");
        assert!(set.set("laxity.approximate.confidence", "1").is_err());
        assert!(set.set("laxity.approximate.method", "guess").is_err());
        set.reset("laxity.approximate.error");
        assert_eq!(set.promise(), None);
    }
}
