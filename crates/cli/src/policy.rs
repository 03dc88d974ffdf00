//! Which policy a run has, and which it changes to.

use std::str::FromStr;
use std::time::Duration;

use laxity_engine::{CannotSwitch, Policy};
use laxity_sql::PolicySetting;

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::quantity::HumaneDuration;

/// `--switch 10s=klink`: another policy after so long.
#[derive(Clone, Debug)]
pub struct Switch {
    /// After the start.
    pub after: Duration,
    /// From then on.
    pub policy: Policy,
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Switch, String> {
        let (after, policy) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' should be a duration and a policy, as in '10s=klink'"))?;
        let HumaneDuration(after) = after.parse().map_err(|error| format!("{error}"))?;
        Ok(Switch { after, policy: parse(policy.trim())? })
    }
}

/// The policy of `--policy`, else that of the files, else the default.
///
/// # Errors
/// If there is none of that name, or the run has to change it and cannot.
pub fn of_run(args: &RunArgs, in_files: Option<&PolicySetting>) -> Result<Policy, Failure> {
    let policy = of(args.policy.as_deref(), in_files)?;
    let is_threads = |policy: &Policy| matches!(policy, Policy::ThreadPerOperator);
    if !args.switches.is_empty()
        && (is_threads(&policy) || args.switches.iter().any(|switch| is_threads(&switch.policy)))
    {
        return Err(Failure::User(format!("--switch: {CannotSwitch}")));
    }
    Ok(policy)
}

/// The policy named by the option, else by the files, else the default.
///
/// # Errors
/// If there is none of that name.
pub fn of(option: Option<&str>, in_files: Option<&PolicySetting>) -> Result<Policy, Failure> {
    match (option, in_files) {
        (Some(text), _) => parse(text).map_err(|unknown| Failure::User(format!("--policy: {unknown}"))),
        (None, Some(setting)) => parse(&setting.policy).map_err(|unknown| {
            let hint = Some("`laxity policies` lists them all".to_string());
            Failure::User(setting.refuse(format!("'laxity.policy': {unknown}"), hint).to_string())
        }),
        (None, None) => Ok(Policy::default()),
    }
}

fn parse(text: &str) -> Result<Policy, String> {
    text.parse::<Policy>().map_err(|unknown| format!("{unknown}; or os"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn run_args(args: &[&str]) -> RunArgs {
        let cli = Cli::try_parse_from(["laxity", "run", "a.sql"].iter().chain(args)).unwrap();
        let Command::Run(run) = cli.command else { panic!("it is run") };
        run
    }

    #[test]
    fn a_switch_is_a_time_and_a_policy() {
        let run = run_args(&["--switch", "10 s=rr", "--switch", "20s = unit=query,rank=llf"]);
        let read: Vec<(u64, &str)> =
            run.switches.iter().map(|switch| (switch.after.as_secs(), switch.policy.name())).collect();
        assert_eq!(read, [(10, "rr"), (20, "unit=query,rank=llf")]);
        for (wrong, says) in [("rr", "'10s=klink'"), ("10=rr", "no unit"), ("10 s=rrr", "rrr")] {
            let said = wrong.parse::<Switch>().unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn threads_per_operator_are_for_a_whole_run() {
        for args in [&["--policy", "os", "--switch", "1 s=rr"][..], &["--switch", "1 s=os"]] {
            let Err(Failure::User(said)) = of_run(&run_args(args), None) else { panic!("{args:?} accepted") };
            assert!(said.contains("--switch: policy os cannot be switched"), "{said}");
        }
        assert!(of_run(&run_args(&["--policy", "os"]), None).is_ok());
    }
}
