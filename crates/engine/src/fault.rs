use laxity_connect::ConnectError;
use laxity_runtime::{Outcome, Query};

use crate::chain_of_causes;

/// Why an output of a query, or its store, did not do what it was asked to.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub why: String,
    /// Who has checkpoints may go on from the last one, a little later.
    pub passes: bool,
}

impl Fault {
    /// Ends the query.
    pub fn end(&self, query: &Query) {
        // What fails once it has ended follows from that.
        if query.outcome() == Outcome::Running {
            tracing::error!(query = query.settings.name, why = self.why, "query stopped");
        }
        if self.passes {
            query.note_that_it_passes();
        }
        query.end(Outcome::Failed(self.why.clone()));
    }
}

impl From<ConnectError> for Fault {
    fn from(error: ConnectError) -> Fault {
        Fault { why: chain_of_causes(&error), passes: error.may_pass() }
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault { why, passes: false }
    }
}
