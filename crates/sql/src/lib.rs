//! Flink SQL to a dataflow of operators.
//!
//! A script is parsed statement by statement ([`compile()`]), each query is planned by DataFusion's SQL planner
//! with Flink's meaning put in where it differs, optimised by a chosen list of rules, and lowered to the
//! operators of `laxity-operators`; queries that are alike but for the name of their table are planned once (`alike.rs`).
//! Every mistake is a [`SqlError`] with file, line and column.
//!
//! Not here: running anything, reading any table (`engine`, `connect`). DataFusion's own execution is not used.

mod aggregates;
mod alike;
mod apart;
mod approximate;
mod catalog;
mod compare;
mod compile;
mod data_type;
mod dialect;
mod error;
mod explain;
mod flink_script;
mod group_window;
mod interval;
mod lookup;
mod lower;
mod named_cast;
mod operands;
mod origin;
mod parse;
mod planning;
mod policy;
mod proctime;
mod refuse;
mod reserved;
mod rewrite;
mod row_fields;
mod settings;
mod shared_with;
mod side_by_side;
mod slips;
mod statement;
mod template;
mod unnest;
mod window_function;
mod words;
mod written_out;

use laxity_functions as functions;

pub use compile::{
    CompileOptions, Compiled, LateSink, PathPlace, PlannedQuery, Script, SqlFile, compile, compile_each,
    compile_with,
};
pub use error::{SqlError, SqlErrorKind};
pub use flink_script::{FlinkJob, FlinkScript, FlinkStatement, flink_script};
pub use lower::LookupSource;
pub use policy::PolicySetting;
pub use settings::{SessionSettings, qos_curve};
pub use shared_with::shared_with;
