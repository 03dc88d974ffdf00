//! Trains and times by name.

use std::time::Duration;

use super::Fault;
use crate::Train;

pub(super) fn parse_train(text: &str) -> Result<Train, Fault> {
    let (name, parameter) = split(text);
    let count = || {
        let text = parameter.unwrap_or_default();
        let count = text.parse().ok().filter(|&count| count > 0);
        count
            .ok_or_else(|| Fault::value(format!("train={name}"), text, format!("a number, as in {name}:200")))
    };
    let time = || {
        let text = parameter.unwrap_or_default();
        parse_duration_ns(text)
            .filter(|&ns| ns > 0)
            .ok_or_else(|| Fault::value(format!("train={name}"), text, format!("a time, as in {name}:5ms")))
    };
    match (name, parameter) {
        ("one", None) => Ok(Train::Message),
        ("all", None) => Ok(Train::Fraction(1.0)),
        ("quantum", None) => Ok(Train::Quantum),
        ("messages", _) => Ok(Train::Messages(count()?)),
        ("rows", _) => Ok(Train::Rows(count()?)),
        ("time", _) => Ok(Train::TimeNs(time()?)),
        ("cost", _) => Ok(Train::CostNs(time()?)),
        ("fraction", _) => {
            let text = parameter.unwrap_or_default();
            let fraction = text.parse().ok().filter(|&fraction| fraction > 0.0 && fraction <= 1.0);
            let expected = "a fraction above 0 and at most 1, as in fraction:0.5";
            fraction.map(Train::Fraction).ok_or_else(|| Fault::value("train=fraction", text, expected))
        }
        _ => {
            // A bare time is how long.
            if let Some(ns) = parse_duration_ns(text).filter(|&ns| ns > 0) {
                return Ok(Train::TimeNs(ns));
            }
            let known = ["one", "messages:N", "rows:N", "fraction:F", "all", "quantum", "time:T", "cost:T"];
            Err(Fault::unknown("train", text, &known))
        }
    }
}

pub(super) fn format_train(train: Train) -> String {
    match train {
        Train::Message => "one".into(),
        Train::Messages(messages) => format!("messages:{messages}"),
        Train::Quantum => "quantum".into(),
        Train::TimeNs(ns) => format!("time:{}", format_duration(ns)),
        Train::Rows(rows) => format!("rows:{rows}"),
        Train::Fraction(1.0) => "all".into(),
        Train::Fraction(fraction) => format!("fraction:{fraction}"),
        Train::CostNs(ns) => format!("cost:{}", format_duration(ns)),
    }
}

/// `50ms`, `50 ms`, `1.5 min`: a number and a unit.
pub(super) fn parse_duration_ns(text: &str) -> Option<u64> {
    u64::try_from(laxity_text::parse_duration(text).ok()?.as_nanos()).ok()
}

/// In the largest unit in which it is whole.
pub fn format_duration(ns: u64) -> String {
    laxity_text::duration_word(Duration::from_nanos(ns))
}

/// `a, b or c`.
pub(super) fn list(choices: &[&str]) -> String {
    match choices {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(name, parameter)| (name, Some(parameter)))
}
