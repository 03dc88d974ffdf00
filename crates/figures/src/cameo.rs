//! Xu et al., "Move Fast and Meet Deadlines: Fine-grained Real-time Stream Processing with Cameo", NSDI 2021.
//!
//! The paper gives no cost, load or instance count; the workload's own stand in [`laxity_workload`]'s `ipq`,
//! the load in the notes of each figure. Only ratios between policies should be read out of these.

mod bursts;
mod internal;
mod multi;
mod orleans;
mod overhead;
mod shares;
mod single;
mod tenants;

use crate::Figure;

pub(crate) use orleans::Orleans;

pub(crate) const FIGURES: &[Figure] = &[
    shares::FIGURE_6,
    single::FIGURE_7,
    multi::FIGURE_8A,
    multi::FIGURE_8B,
    multi::FIGURE_8C,
    bursts::FIGURE_9,
    bursts::FIGURE_10,
    internal::FIGURE_11,
    overhead::FIGURE_12,
    internal::FIGURE_13,
    internal::FIGURE_14,
    internal::FIGURE_15,
];

const PAPER: &str = "Xu et al., Cameo, NSDI 2021";
