//! SQL text to engine, as the program does it.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use laxity_engine::{Engine, EngineConfig, LatePlan, QueryPlan};
use laxity_sql::{Script, SqlFile};

/// Compiles a text.
///
/// # Errors
/// If the SQL is wrong.
pub fn compile(sql: &str) -> anyhow::Result<Script> {
    let file = SqlFile { path: PathBuf::from("bench.sql"), text: sql.to_string() };
    laxity_sql::compile(&[file]).map_err(|error| anyhow!("{error}"))
}

/// Compiles a text and submits its queries.
///
/// # Errors
/// If the SQL is wrong or a table cannot be opened.
pub fn submit(engine: &Engine, sql: &str) -> anyhow::Result<()> {
    submit_all(engine, compile(sql)?)
}

/// Submits the queries of a script.
///
/// # Errors
/// If a table cannot be opened.
pub fn submit_all(engine: &Engine, script: Script) -> anyhow::Result<()> {
    for query in script.queries {
        let late =
            query.late.map(|late| LatePlan { sink: late.sink, node: late.node, columns: late.columns });
        engine
            .submit(QueryPlan { dataflow: query.dataflow, late, state: None })
            .context("cannot submit a query")?;
    }
    Ok(())
}

/// An engine with one worker, as the per-core numbers want it.
pub fn one_worker() -> Engine {
    Engine::new(EngineConfig { workers: 1, ..EngineConfig::default() })
}
