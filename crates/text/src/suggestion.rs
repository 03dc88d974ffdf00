/// The choice that is nearest to what was written, whatever the case, if it is near enough to have been meant: no more
/// than a third of the letters of either are wrong. Of several as near, the first.
pub fn closest<'a>(written: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = written.to_lowercase();
    choices
        .into_iter()
        .map(|choice| (distance(&folded, &choice.to_lowercase()), choice))
        .filter(|(distance, choice)| *distance <= choice.chars().count().min(written.chars().count()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, choice)| choice)
}

/// How many slips of the finger make the one of the other: letters left out, put in, taken for another, or swapped
/// with the one beside.
pub fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        for (written, choices, expected) in [
            ("carier", &["carrier", "delay"][..], Some("carrier")),
            ("Delay", &["carrier", "delay"], Some("delay")),
            ("airport", &["carrier", "delay"], None),
            ("jsno", &["csv", "json"], Some("json")),
            // One of two letters is no slip.
            ("as", &["at", "by"], None),
            ("colour", &["colours", "color"], Some("colours")),
            ("x", &[], None),
        ] {
            assert_eq!(closest(written, choices.iter().copied()), expected, "{written}");
        }
    }

    #[test]
    fn slips_are_counted() {
        for (a, b, slips) in
            [("kitten", "sitting", 3), ("", "abc", 3), ("path", "path", 0), ("form", "from", 1)]
        {
            assert_eq!(distance(a, b), slips, "{a} {b}");
        }
    }
}
