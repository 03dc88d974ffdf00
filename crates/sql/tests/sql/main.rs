//! SQL text in, plans, errors and rows out.
//!
//! `errors.txt` and `explain.txt` hold what a script is answered; `LAXITY_UPDATE_GOLDEN=1` writes them anew, to be
//! read before they are committed. Values of functions and rows of windows are written by hand from Flink's
//! rules. The driver runs operators one after the other on one thread: it cannot catch what depends on timing.

mod apart;
mod approximate;
mod driver;
mod errors;
mod explain;
mod flink;
mod function_table;
mod functions;
mod golden;
mod lookups;
mod metadata;
mod mutations;
mod never_panics;
mod nexmark;
mod queries;
mod row_fields;
mod templates;
mod unnest;
mod values;
