//! The figures of the papers, as we see them: a named experiment each, run in the simulator at the paper's
//! size or in seconds, with its raw numbers as csv, a plot in the paper's axes, and one row "paper says /
//! we see / same direction?" in one table.
//!
//! Start with [`list`] and [`run`]; a new figure starts at [`Figure`].
//!
//! Not here: numbers measured on threads (the `bench` crate), and tuning. A figure takes its workload from
//! the paper's text; where the text leaves something open, the choice stands in the figure's notes, and a
//! number that does not come out is reported as such.
//!
//! Every run is seeded: the same name, scale and version give the same files, byte for byte.

mod aion;
mod aurora;
mod cameo;
mod csv;
mod data;
mod experiment;
mod figure;
mod klink;
mod lachesis;
mod laxity;
mod pipeline;
mod plot;
mod registry;
mod results;
mod thesis;

pub use data::{Axis, Chart, Data, Marks, Series, Table};
pub use experiment::ExperimentError;
pub use figure::{Figure, Run, Scale, Verdict, Way};
pub use registry::{FigureError, Options, Report, find, list, run};
