//! `laxity policies`: the choices of `--policy`.

use laxity_sched::POLICY_NAMES;

/// One line per policy.
pub fn list() -> String {
    let mut text = String::new();
    for name in POLICY_NAMES.iter().copied().chain(["os"]) {
        text.push_str(&format!("{name:<8}  {}\n", describe(name)));
    }
    text.push_str(
        "\nlaxity, llf and edf also take the suffix ':topology-only', which makes them blind to windows.\n",
    );
    text
}

fn describe(name: &str) -> &'static str {
    match name {
        "laxity" => "the default; today the same as llf",
        "llf" => "least laxity first: who must start soonest to be in time (Cameo, Eq. 3)",
        "edf" => "earliest deadline first: llf without an operator's own cost",
        "sjf" => "shortest job first: whose next message costs least",
        "fcfs" => "first come, first served: the oldest message by its arrival in the system",
        "fifo" => "operators in the order in which they became ready",
        "rr" => "round robin: operators in turn, a quantum each",
        "random" => "any ready operator; what every policy should beat",
        "os" => "no scheduler: a thread per operator, as in the engines of today",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_described() {
        for line in list().lines().take(POLICY_NAMES.len() + 1) {
            assert!(line.trim_end().len() > 12, "{line:?}");
        }
    }
}
