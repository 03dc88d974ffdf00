//! VoipStream (Bianchi et al., "On-demand time-decaying Bloom filters for telemarketer detection", 2011) with the 15
//! operators that DSPBench and Lachesis run: telemarketers among callers, found by decaying rates per number.
//!
//! Only as costs: its state is time-decaying Bloom filters with a map that waits for the parts of a score, which no SQL
//! of ours expresses. Selectivities follow from the public operators and their generator: a call is established with
//! p = 0.95, and a pair of numbers is new but for the false positives of the dispatcher's filter, p = 0.95 again.

use laxity_graph::{Dataflow, NodeId, QuerySettings};

use crate::flow::{Flow, by_key, gather, in_turn};
use crate::lachesis::Testbed;
use crate::{Cost, Stage, Workload, WorkloadError};

/// The workload as costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VoipStream {
    /// How many queries, and how they are fed.
    pub testbed: Testbed,
}

/// Rows per second that Lachesis sustains (on Storm).
pub const ROWS_PER_S: f64 = 3_500.0;

impl VoipStream {
    /// The workload.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        self.testbed.build("VoipStream", seed, ROWS_PER_S, 80, draft)
    }
}

const ESTABLISHED: f64 = 0.95;
const NEW: f64 = 0.95;

/// Relative costs: an update of a decaying filter hashes seven times and is the unit of three.
fn draft(settings: QuerySettings) -> Result<(Dataflow<Stage>, NodeId), WorkloadError> {
    let mut flow = Flow::new(settings, 80);
    let filter = Cost::per_row(3.0);
    let source = flow.source("source", 1, Cost::per_row(1.0))?;
    let parser = flow.step("parser", &[source], 4.0, 1.0)?;
    let calls = flow.rows("dispatcher", 1, vec![by_key(parser)], Cost::per_row(5.0), 1.0)?;
    let ct24 = flow.rows("ct24", 1, vec![by_key(calls)], filter, NEW)?;
    let global_acd = flow.rows("global_acd", 1, vec![gather(calls)], Cost::per_row(1.0), 1.0)?;
    let ecr24 = flow.rows("ecr24", 1, vec![by_key(calls)], filter, ESTABLISHED)?;
    let pre_rcr = flow.rows("pre_rcr", 1, vec![in_turn(calls)], Cost::per_row(1.0), 2.0)?;
    // The first copy of a call is stored, the second asks.
    let rcr = flow.rows("rcr", 1, vec![by_key(pre_rcr)], filter, 0.5)?;
    let ecr = flow.rows("ecr", 1, vec![by_key(calls)], filter, ESTABLISHED)?;
    let encr = flow.rows("encr", 1, vec![by_key(calls)], filter, ESTABLISHED * NEW)?;
    // Joins answer once all of their parts are there: as often as the rarest set of parts is complete.
    let acd_in = vec![by_key(ct24), by_key(global_acd), by_key(ecr24)];
    let both = ESTABLISHED * NEW;
    let acd = flow.rows("acd", 1, acd_in, Cost::per_row(1.5), both / (NEW + 1.0 + ESTABLISHED))?;
    let fofir_in = vec![by_key(rcr), by_key(ecr)];
    let fofir = flow.rows("fofir", 1, fofir_in, Cost::per_row(1.5), ESTABLISHED / (1.0 + ESTABLISHED))?;
    let url_in = vec![by_key(ecr), by_key(encr)];
    let url = flow.rows("url", 1, url_in, Cost::per_row(1.5), both / (ESTABLISHED + both))?;
    let score_in = vec![by_key(acd), by_key(fofir), by_key(url)];
    let score = flow.rows("score", 1, score_in, Cost::per_row(1.5), 1.0)?;
    flow.sink("sink", vec![gather(score)], Cost::per_row(0.5))?;
    Ok((flow.finish(), source))
}
