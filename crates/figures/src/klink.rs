//! Farhat et al., "Klink: Progress-Aware Scheduling for Streaming Data Systems", SIGMOD 2021.
//!
//! The paper gives no CPU time per event and no size of one. Ours, from what it prints of its *baselines*:
//! 40 queries fill the 24 cores ("past 40 deployed queries the offered load outstrips the capacity"), and the
//! memory bound holds what the cores work off in ten seconds (Default's 15 s less the 5 s by which its
//! generator holds watermarks back). Sources are generators inside the engine, as there: held back by a full
//! memory, they make their events later, so that latency does not count that wait.
//!
//! What order alone can do under such load is bounded. All policies keep the cores busy, so memory full of
//! queued events is worked off at the same rate, and by Little's law events wait as long on average under any
//! of them. A window can only be finished before the events that arrived before its deadline and belong to
//! later windows: those of half a window period on average, 1.5 s for YSB. `klink-6a` shows the effect over the
//! backlog.

mod bench;
mod distributed;
mod estimate;
mod fleet;
mod memory;

use crate::Figure;

pub(crate) const FIGURES: &[Figure] = &[
    bench::FIGURE_1,
    fleet::FIGURE_6A,
    fleet::FIGURE_6B,
    fleet::FIGURE_6C,
    fleet::FIGURE_6D,
    distributed::FIGURE_6E,
    bench::FIGURE_7,
    memory::FIGURE_8,
    memory::FIGURE_9A,
    memory::FIGURE_9B,
    estimate::FIGURE_9C,
    estimate::FIGURE_9D,
];

const PAPER: &str = "Farhat et al., Klink, SIGMOD 2021";
