//! What an engine is besides threads: operator instances and how rows travel between them, credit and admission, the
//! sharing of tables, the rule for memory, the accounts and the life of a query.
//!
//! Events in, effects out. Time, and what has passed of it, is an argument; no thread, clock, file or socket is known
//! here. Two drivers share it: `engine`, on threads, with Arrow rows; `sim`, in virtual time. What decides who runs next
//! is `laxity_sched`, what an operator does is the driver's [`Content`].
//!
//! Read [`Instance`] first: take a message, run, resume, stage what comes of it. Then [`Intake`], which is the same for a
//! table, and [`Query`].

mod agenda;
#[cfg(feature = "operators")]
mod arrow_rows;
mod asked;
mod content;
mod expand;
mod front;
mod frontier;
mod hold;
mod instance;
mod intake;
mod load;
mod look_costs;
mod memory;
mod merge;
mod offered;
mod outlet;
mod pace;
mod payload;
mod process;
mod query;
mod registry;
mod results;
mod rhythm;
mod route;
mod template;

pub use agenda::{Agenda, Look};
#[cfg(feature = "operators")]
pub use arrow_rows::{ArrowRows, LateShape, batch_bytes};
pub use content::{Clock, Content};
pub use expand::{Blueprint, Expanded, LateWay, Role, Source, expand};
pub use front::{EVERY_ROW, Filled, Front, Unshared};
pub use frontier::{Frontier, FrontierState};
pub use instance::{Instance, InstanceState, RecordedArrival, Run, RunContext, Totals, panic_text};
pub use intake::{
    Feed, FeedEvent, Given, Intake, IntakeContext, Position, Reader, Relieves, SHARED_BY_MIN, SharedMember,
    SharedRecords, SharedWork, Split, Step, Taken, TemplateWork, Visited, Work,
};
pub use load::Load;
pub use look_costs::LookCosts;
pub use memory::Memory;
pub use merge::{MERGED_MESSAGES_MAX, MERGED_ROWS_MAX, fits};
pub use outlet::{Outlet, Write, Written};
pub use payload::{Parcel, Payload};
pub use process::Process;
pub use query::{Counts, InFlight, LastCheckpoint, Outcome, Promise, Query};
pub use registry::{Entry, Held, Registry, Reserved, Retiring, Stage};
pub use results::{LatencySummary, MinuteFigures, ResultFigures, ResultSummary};
pub use rhythm::Rhythm;
pub use route::{Route, Spread};
pub use template::{NoTemplate, Slicer, Template};
