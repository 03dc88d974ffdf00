//! What `laxity simulate` says of the same cells, beside what threads did.
//!
//! The p99 that is compared is the worst of an urgent query. Where a query has fewer than a hundred results that is its
//! single worst one, a percentile of nothing; then it is the p99 over all results of all urgent queries.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use laxity_text::parse_ns;

use super::DensityArgs;
use super::launch::Launcher;
use super::rounds::{Planned, Rounds};
use super::sql::{self, URGENT};
use crate::Findings;

/// Met may differ by so many points, and p99 by this factor, before the two disagree.
const MET_POINTS: f64 = 5.0;
const P99_FACTOR: f64 = 2.0;
/// With fewer results a query has no p99 of its own.
const RESULTS_MIN: f64 = 100.0;
/// Share of the cells in which they may not disagree.
const AGREEING: f64 = 0.9;

/// What the simulator says of the urgent queries of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Answer {
    met: f64,
    worst_p99_ms: f64,
    /// Over all results; `None` where there is but one query.
    p99_ms: Option<f64>,
}

/// Asks about every cell and policy that has run.
///
/// # Errors
/// If the `laxity` program is missing. A cell about which it fails counts as disagreement.
pub fn run(args: &DensityArgs, rounds: &Rounds, launcher: &Launcher) -> anyhow::Result<Findings> {
    ensure!(launcher.laxity.exists(), "--simulate needs {}: build it first", launcher.laxity.display());
    let mut findings = Findings {
        columns: vec![
            "cell",
            "policy",
            "met",
            "simulated_met",
            "p99_of",
            "p99_ms",
            "simulated_p99_ms",
            "agree",
            "error",
        ],
        ..Findings::default()
    };
    let (mut asked, mut agreeing) = (0, 0);
    for (index, planned) in rounds.cells().iter().enumerate() {
        let text = sql::text(&planned.cell, &launcher.scratch);
        sql::write_input(&planned.cell, &launcher.scratch, planned.measured.as_secs_f64() + 2.0)?;
        let file = launcher.scratch.join("simulated.sql");
        std::fs::write(&file, text).context("cannot write the SQL")?;
        // Measured once, for all policies.
        let costs = launcher.scratch.join("costs.json");
        let _ = std::fs::remove_file(&costs);
        for (place, policy) in args.policies.iter().enumerate() {
            let Some(seen) = rounds.median(index, place) else { continue };
            let answer = ask(launcher, &file, &costs, policy, planned);
            asked += 1;
            let has_few = seen.due < RESULTS_MIN * planned.cell.urgent.queries as f64;
            let (p99_of, seen_p99_ms) =
                if has_few { ("all results", seen.p99_ms) } else { ("the worst query", seen.worst_p99_ms) };
            let p99_ms = |answer: &Answer| answer.p99_ms.filter(|_| has_few).unwrap_or(answer.worst_p99_ms);
            let (agree, told) = match &answer {
                Ok(answer) => {
                    let ratio = p99_ms(answer) / seen_p99_ms.max(1e-3);
                    let agree = 100.0 * (answer.met - seen.met).abs() <= MET_POINTS
                        && (1.0 / P99_FACTOR..=P99_FACTOR).contains(&ratio);
                    (agree, [answer.met.to_string(), p99_ms(answer).to_string()])
                }
                Err(_) => (false, [String::new(), String::new()]),
            };
            agreeing += usize::from(agree);
            let [met, told_p99_ms] = told;
            if !agree {
                findings.summary.push(format!(
                    "{}, {policy}: threads met {:.1} %, p99 of {p99_of} {seen_p99_ms:.1} ms; simulated {}",
                    planned.cell.name,
                    100.0 * seen.met,
                    match &answer {
                        Ok(answer) => format!("{:.1} %, {:.1} ms", 100.0 * answer.met, p99_ms(answer)),
                        Err(error) => format!("not: {error:#}"),
                    }
                ));
            }
            findings.rows.push(vec![
                planned.cell.name.clone(),
                policy.clone(),
                format!("{:.5}", seen.met),
                met,
                p99_of.to_string(),
                format!("{seen_p99_ms:.3}"),
                told_p99_ms,
                agree.to_string(),
                answer.err().map_or(String::new(), |error| format!("{error:#}").replace([',', '\n'], ";")),
            ]);
        }
    }
    let share = f64::from(agreeing as u32) / f64::from(asked.max(1) as u32);
    findings.summary.push(format!(
        "simulated and seen agree (met within {MET_POINTS} points, p99 within a factor of {P99_FACTOR}) in \
         {agreeing} of {asked}, target nine of ten: {}",
        if share >= AGREEING { "met" } else { "MISSED" }
    ));
    Ok(findings)
}

fn ask(
    launcher: &Launcher,
    file: &Path,
    costs: &Path,
    policy: &str,
    planned: &Planned,
) -> anyhow::Result<Answer> {
    let cores = std::thread::available_parallelism().context("the number of cores is not known")?;
    // The first fifth of the simulated time is not counted.
    let simulated = planned.measured.mul_f64(1.25).max(Duration::from_millis(500));
    let mut command = Command::new(&launcher.laxity);
    command.arg("simulate").arg(file).arg("--costs").arg(costs);
    command.args(["--policy", policy, "--cores", &cores.to_string(), "--up-to", "1"]);
    // Longer than what is simulated: where the recorded input begins anew, the rows since the last look are missing.
    command.arg("--measure").arg(format!("{} ms", simulated.mul_f64(1.1).as_millis()));
    command.arg("--for").arg(format!("{} ms", simulated.as_millis()));
    let output = command.stdin(Stdio::null()).output().context("cannot start the laxity program")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", told.trim().lines().last().unwrap_or("it failed"));
    answer(&String::from_utf8_lossy(&output.stdout)).context("the answer has no table of the urgent queries")
}

/// Reads the table: columns are parted by two spaces or more.
fn answer(text: &str) -> Option<Answer> {
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(String::from).collect()
    };
    let mut lines = text.lines().skip_while(|line| !line.starts_with("query"));
    let titles = cells(lines.next()?);
    let place = |title: &str| titles.iter().position(|cell| cell == title);
    let (target, p99, met) = (place("target")?, place("p99")?, place("met")?);
    let (mut queries, mut met_sum, mut worst_p99_ms) = (0, 0.0, 0.0_f64);
    let mut p99_ms = None;
    for line in lines.take_while(|line| !line.is_empty()).filter(|line| line.starts_with(URGENT)) {
        let cells = cells(line);
        queries += 1;
        // All have as many results. Without one, '-', nothing was in time.
        met_sum += cells.get(met)?.strip_suffix(" %").map_or(Some(0.0), |share| share.parse().ok())?;
        worst_p99_ms = worst_p99_ms.max(milliseconds(cells.get(p99)?)?);
        if queries == 1 {
            p99_ms = p99_of_all(text, cells.get(target)?);
        }
    }
    (queries > 0).then(|| Answer { met: met_sum / 100.0 / f64::from(queries), worst_p99_ms, p99_ms })
}

/// Of all results of the queries of this target, where the program tells of them together.
fn p99_of_all(text: &str, target: &str) -> Option<f64> {
    let of_target = format!(" queries of {target}: ");
    let told = text.lines().filter(|line| line.starts_with("All results of ")).find_map(|line| {
        let (_, figures) = line.split_once(&of_target)?;
        Some(figures)
    })?;
    milliseconds(told.split_once("p99 ")?.1.split_once(',')?.0)
}

/// A duration as the program shows it; '-' is none.
fn milliseconds(text: &str) -> Option<f64> {
    if text == "-" { Some(0.0) } else { parse_ns(text).ok().map(|ns| ns / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_program_is_read() {
        let text = "\
Simulated, not run: 1 tenant on 2 cores, policy laxity, 1 times the input that was measured, 5 s of virtual time.
Costs and arrivals measured here for 5.0 s with 2 workers.

query     target     p50     p99     met  cores each  late because of
urgent 0   50 ms  1.2 ms   12 ms   100 %       0.010  -
urgent 1   50 ms  850 µs  1.5 s   98.5 %       0.010  queue 90 %
heavy 0     10 s  700 ms   9 s     100 %       0.400  -

All results of the 2 queries of 50 ms: p50 1 ms, p99 1.4 s, met 99.2 %.
urgent 1 would miss its 50 ms target: p99 1.5 s.
";
        let answer = answer(text).unwrap();
        assert!((answer.met - 0.9925).abs() < 1e-9, "{answer:?}");
        assert_eq!((answer.worst_p99_ms, answer.p99_ms), (1_500.0, Some(1_400.0)));
        assert_eq!(super::answer("Every target would be kept.\n"), None);
    }

    #[test]
    fn durations_are_read_as_they_are_shown() {
        for (text, ms) in [("850 ns", 0.00085), ("3.1 ms", 3.1), ("12 s", 12_000.0), ("-", 0.0)] {
            assert_eq!(milliseconds(text), Some(ms), "{text}");
        }
        assert_eq!(milliseconds("soon"), None);
    }
}
