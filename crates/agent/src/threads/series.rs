//! From named samples, of Prometheus or Graphite, to one number for each metric and operator.

use std::collections::HashMap;

use super::SeriesSpec;
use crate::metric::Metric;

/// Sums by metric and (query, operator); an empty query where the series names none.
pub(super) type Sums = HashMap<Metric, HashMap<(String, String), f64>>;

/// Adds the samples up that the specifications match. A sample counts for the first one of each metric only.
pub(super) fn sum<'a>(specs: &[SeriesSpec], samples: impl Iterator<Item = (&'a str, f64)>) -> Sums {
    let mut sums = Sums::new();
    for (series, value) in samples.filter(|(_, value)| value.is_finite()) {
        let mut counted = Vec::new();
        for spec in specs {
            if counted.contains(&spec.metric) {
                continue;
            }
            let Some(groups) = spec.series.captures(series) else { continue };
            let group = |name: &str| groups.name(name).map_or("", |found| found.as_str()).to_owned();
            let sums = sums.entry(spec.metric).or_default();
            *sums.entry((group("query"), group("operator"))).or_default() += value * spec.scale;
            counted.push(spec.metric);
        }
    }
    sums
}

/// The samples in Prometheus' text format, each named `name{label="value",…}` with labels in order of name.
pub(super) fn parse_prometheus(text: &str) -> Vec<(String, f64)> {
    text.lines().filter_map(parse_sample).collect()
}

fn parse_sample(line: &str) -> Option<(String, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (series, rest) = match line.find('{') {
        // Only outside quotes does a bracket end the labels.
        Some(open) if !line[..open].contains(' ') => {
            let close = open + end_of_labels(&line[open..])?;
            let mut labels = split_labels(&line[open + 1..close]);
            labels.sort_unstable();
            (format!("{}{{{}}}", &line[..open], labels.join(",")), &line[close + 1..])
        }
        _ => {
            let (name, rest) = line.split_once(char::is_whitespace)?;
            (name.to_owned(), rest)
        }
    };
    let value = rest.split_ascii_whitespace().next()?;
    Some((series, value.parse().ok()?))
}

/// Where the bracket closes that the text begins with.
fn end_of_labels(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (place, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(place),
            _ => {}
        }
    }
    None
}

fn split_labels(text: &str) -> Vec<&str> {
    let (mut quoted, mut escaped, mut from, mut labels) = (false, false, 0, Vec::new());
    for (place, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                labels.push(text[from..place].trim());
                from = place + 1;
            }
            _ => {}
        }
    }
    labels.push(text[from..].trim());
    labels.retain(|label| !label.is_empty());
    labels
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn prometheus_text_is_read() {
        let text = "# HELP a b\n# TYPE a gauge\na 1\nb{z=\"1\", a=\"x,} \\\" y\"} 2.5 1700000000\nc{} NaN\n broken{\n";
        let samples = parse_prometheus(text);
        assert_eq!(samples[0], ("a".to_owned(), 1.0));
        assert_eq!(samples[1], ("b{a=\"x,} \\\" y\",z=\"1\"}".to_owned(), 2.5));
        assert!(samples[2].1.is_nan());
        assert_eq!(samples.len(), 3);
    }

    #[test]
    fn series_of_an_operator_are_added() {
        let specs = [SeriesSpec {
            metric: Metric::QueueRows,
            series: Regex::new("^q\\{op=\"(?P<operator>[^\"]+)\"").unwrap(),
            scale: 100.0,
        }];
        let samples =
            [("q{op=\"a\",task=\"1\"}", 2.0), ("q{op=\"a\",task=\"2\"}", 3.0), ("r{op=\"a\"}", 9.0)];
        let sums = sum(&specs, samples.into_iter());
        assert_eq!(sums[&Metric::QueueRows][&(String::new(), "a".to_owned())], 500.0);
    }
}
