//! A query that comes and goes beside others, and how late the results of these are meanwhile.
//!
//! Seconds in which it does and seconds in which nothing changes follow each other, so that one run tells both apart. Windows
//! are to end with the second, which is in the middle of each of these; the latencies of what came out are looked at in between.

use std::time::{Duration, Instant};

use anyhow::bail;
use laxity_engine::{Ending, Engine, QueryPlan};
use laxity_graph::QueryId;
use laxity_sql::Script;
use serde::{Deserialize, Serialize};

use crate::percentile;

/// When it comes or goes in its seconds, ms: before the windows end, and while their results come out.
const CHANGES_MS: [i64; 12] = [50, 100, 150, 200, 250, 300, 350, 400, 450, 503, 513, 523];

const PERIOD_MS: i64 = 1_000;

/// What came of the coming and going.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ChangeFigures {
    /// What it took to submit one more query.
    pub adds_ms: Vec<f64>,
    /// What it took to take it away.
    pub removes_ms: Vec<f64>,
    /// The seconds, one by one.
    pub seconds: Vec<SecondFigures>,
}

/// Results of the queries that stay, of one second.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct SecondFigures {
    /// Whether the query came and went in it.
    pub is_changed: bool,
    /// Queries that had results.
    pub queries: usize,
    /// 99 in 100 of these had theirs after so long at most.
    pub p99_ms: f64,
    /// All of them.
    pub latest_ms: f64,
}

/// What changes, and what was seen of it.
pub struct Changing {
    comer: Comer,
    /// Queries that stay.
    others: usize,
    /// When the second began, Unix ms.
    began_ms: i64,
    /// Changes in it so far.
    changes: usize,
    is_changed: bool,
    /// Results and the sum of their latencies, ns, by query; none before the first look.
    seen: Option<Vec<(u64, u64)>>,
    seconds: Vec<SecondFigures>,
}

impl Changing {
    /// A query like the first of these; `None` if there is none.
    pub fn of(script: &Script) -> Option<Changing> {
        Some(Changing {
            comer: Comer::of(script)?,
            others: script.queries.len(),
            began_ms: 0,
            changes: 0,
            is_changed: false,
            seen: None,
            seconds: Vec::new(),
        })
    }

    /// When there is something to do, Unix ms.
    pub fn next_ms(&mut self, now_ms: i64) -> i64 {
        if self.began_ms == 0 {
            // The first look ends a second of which nothing is kept.
            self.began_ms = (now_ms - PERIOD_MS / 2).div_euclid(PERIOD_MS) * PERIOD_MS + PERIOD_MS / 2;
        }
        let change = CHANGES_MS.get(self.changes).filter(|_| self.is_changed);
        self.began_ms + change.copied().unwrap_or(PERIOD_MS)
    }

    /// Does it.
    ///
    /// # Errors
    /// If the query cannot come, or does not go.
    pub fn step(&mut self, engine: &Engine) -> anyhow::Result<()> {
        if self.is_changed && self.changes < CHANGES_MS.len() {
            self.changes += 1;
            return self.comer.come_and_go(engine);
        }
        self.look(engine);
        self.began_ms += PERIOD_MS;
        (self.changes, self.is_changed) = (0, !self.is_changed);
        Ok(())
    }

    fn look(&mut self, engine: &Engine) {
        let snapshot = engine.snapshot();
        let others = snapshot.queries.iter().take(self.others);
        let now: Vec<_> =
            others.map(|of| (of.latency.count, of.latency.count * of.latency.mean_ns)).collect();
        if let Some(before) = &self.seen {
            let latencies = now.iter().zip(before).filter(|(now, before)| now.0 > before.0);
            let latencies: Vec<f64> = latencies
                .map(|(now, before)| now.1.saturating_sub(before.1) as f64 / (now.0 - before.0) as f64 / 1e6)
                .collect();
            self.seconds.push(SecondFigures {
                is_changed: self.is_changed,
                queries: latencies.len(),
                p99_ms: percentile(&latencies, 0.99),
                latest_ms: percentile(&latencies, 1.0),
            });
        }
        self.seen = Some(now);
    }

    /// What was seen.
    pub fn figures(self) -> ChangeFigures {
        let Comer { adds_ms, removes_ms, .. } = self.comer;
        ChangeFigures { adds_ms, removes_ms, seconds: self.seconds }
    }
}

/// A query that comes and goes: one like the first, under a name of its own.
struct Comer {
    plan: QueryPlan,
    is_there: Option<QueryId>,
    adds_ms: Vec<f64>,
    removes_ms: Vec<f64>,
}

impl Comer {
    fn of(script: &Script) -> Option<Comer> {
        let mut dataflow = script.queries.first()?.dataflow.clone();
        dataflow.settings.name = "comes and goes".into();
        let plan = QueryPlan { dataflow, late: None, state: None };
        Some(Comer { plan, is_there: None, adds_ms: Vec::new(), removes_ms: Vec::new() })
    }

    fn come_and_go(&mut self, engine: &Engine) -> anyhow::Result<()> {
        let began = Instant::now();
        match self.is_there.take() {
            None => {
                self.is_there = Some(engine.submit(self.plan.clone())?);
                self.adds_ms.push(began.elapsed().as_secs_f64() * 1e3);
            }
            Some(query) => {
                engine.cancel(query, Ending::Drop);
                if !engine.wait_gone(query, Duration::from_secs(10)) {
                    bail!("a query that was cancelled is still there after ten seconds");
                }
                self.removes_ms.push(began.elapsed().as_secs_f64() * 1e3);
                engine.forget(query);
            }
        }
        Ok(())
    }
}
