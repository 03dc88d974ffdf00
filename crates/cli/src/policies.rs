//! `laxity policies`: the choices of `--policy`.

use laxity_policies::CATALOGUE;
use laxity_sched::{PolicyDescription, WaitBound};

use crate::quantity::short_duration;

/// One line per policy, then how to put one together from parts.
pub fn list() -> String {
    let policies = CATALOGUE.policies();
    let width = policies.iter().map(|policy| policy.name.len()).max().unwrap_or(0).max("os".len());
    let mut text = String::new();
    for policy in &policies {
        text.push_str(&format!("{:<width$}  {} [{}]\n", policy.name, policy.line, policy.paper));
    }
    text.push_str(&format!(
        "{:<width$}  no scheduler: a thread per operator, as in the engines of today\n\n",
        "os"
    ));
    text.push_str("Spelled out, with when each ranks and how long a ready operator waits at most:\n");
    for policy in &policies {
        text.push_str(&format!(
            "  {:<width$}  {} ({}; {})\n",
            policy.name,
            policy.recipe,
            when(policy),
            bound(policy)
        ));
    }
    text.push_str(
        "\nA policy of your own is any of its parts, the others staying as they are, as in\n  \
         --policy unit=query,rank=llf,train=4ms\n\
         What a part can be is said when it is something else: try --policy unit=?\n",
    );
    text
}

fn when(policy: &PolicyDescription) -> String {
    match policy.needs.cycle_ns() {
        Some(period_ns) => format!("every {}", short_duration(period_ns)),
        None if policy.needs.is_by_turn() => "by turn".into(),
        None => "per message".into(),
    }
}

fn bound(policy: &PolicyDescription) -> &'static str {
    match policy.bound() {
        WaitBound::Turns => "everyone else has one turn",
        WaitBound::Deadline => "until its deadline has passed",
        WaitBound::Ageing => "until it has aged",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_described_on_one_line_of_its_own() {
        let text = list();
        let described: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(described.len(), CATALOGUE.policies().len() + 1);
        for (line, policy) in described.iter().zip(CATALOGUE.policies()) {
            assert!(line.starts_with(policy.name) && line.contains(policy.line), "{line:?}");
        }
        assert!(described.last().unwrap().starts_with("os "), "{text}");
    }
}
