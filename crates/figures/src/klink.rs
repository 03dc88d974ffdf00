//! Farhat et al., "Klink: Progress-Aware Scheduling for Streaming Data Systems", SIGMOD 2021.
//!
//! The paper gives no CPU time per event and no size of one. Ours, from what it prints of its *baselines*:
//! 40 queries fill the 24 cores ("past 40 deployed queries the offered load outstrips the capacity"), and the
//! memory bound holds what the cores work off in ten seconds (Default's 15 s less the 5 s by which its
//! generator holds watermarks back). Sources are generators inside the engine, as there: held back by a full
//! memory, they make their events later, so that latency does not count that wait.
//!
//! With memory full, order alone moves little: every byte that comes free is filled again, so memory stays at its bound,
//! and as much waiting work is worked off at the same rate under any order (Little's law). What Klink's memory management
//! does is to hold less: while memory is short, sources are held until half of what waited is gone, and events wait for
//! half as much. So its latency falls with its memory at equal throughput, as the paper's Figs. 6 and 9 have it. Held
//! sources make their events later, so fewer windows fall due; that is the closed loop's doing, as in Flink.
//!
//! Means are over queries, not over results: a policy that lets a query starve has few results of it and a low mean over
//! all. A query without results counts with the time that was measured.

mod bench;
mod distributed;
mod epoch_delays;
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
