//! Where a simulation begins, and what is said of one that cannot.

use laxity_sched::Recipe;
use laxity_workload::{DelayError, Workload};

use crate::world::{Plans, World};
use crate::{Outcome, Setup};

/// A workload, a policy, and everything else.
///
/// ```
/// use std::time::Duration;
/// use laxity_sim::{Setup, Simulation};
/// use laxity_workload::Workload;
///
/// let workload = Workload { name: "nothing".into(), queries: vec![] };
/// let setup = Setup { duration: Duration::from_secs(1), ..Setup::default() };
/// let outcome = Simulation::new(workload, laxity_policies::recipe("llf").expect("it is listed"), setup).run()?;
/// assert_eq!(outcome.idle_ns, 1_000_000_000);
/// # Ok::<(), laxity_sim::SimulationError>(())
/// ```
pub struct Simulation {
    /// What arrives and what it costs.
    pub workload: Workload,
    /// The policy, made once per node. Under [`crate::Driver::OsThreads`] only its name is used.
    pub policy: Recipe,
    /// Everything else.
    pub setup: Setup,
}

/// A simulation that cannot run. Whoever set it up can fix it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The network's delay is no delay.
    #[error("the network between nodes has no valid delay")]
    Network(#[from] DelayError),
    /// A feed for an instance that is none, or is no source.
    #[error(
        "query {query:?} has a feed for instance {instance} of node {node}, which is no instance of a source"
    )]
    Feed {
        /// The query.
        query: String,
        /// The node of its dataflow.
        node: usize,
        /// The instance.
        instance: usize,
    },
    /// An operator cannot be made or refuses a row.
    #[error("query {query:?}: {message}")]
    Operator {
        /// The query.
        query: String,
        /// What the operator says.
        message: String,
    },
    /// An operator sleeps for a time that is none.
    #[error("operator {operator:?} has no valid length of its sleeps")]
    Sleep {
        /// The operator.
        operator: String,
        /// Why.
        source: DelayError,
    },
}

impl Simulation {
    /// A simulation of this workload under this policy.
    pub fn new(workload: Workload, policy: Recipe, setup: Setup) -> Simulation {
        Simulation { workload, policy, setup }
    }

    /// Lets the time pass.
    ///
    /// # Errors
    /// If the delay of the network or the length of a sleep is none, or a feed has no source.
    pub fn run(self) -> Result<Outcome, SimulationError> {
        Ok(World::new(self, Plans::counted())?.run()?.0)
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("workload", &self.workload.name)
            .field("policy", &self.policy.name())
            .field("setup", &self.setup)
            .finish()
    }
}
