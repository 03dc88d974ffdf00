//! `laxity explain`: how each query would run.

use laxity_engine::SHARED_BY_MIN;
use laxity_sql::shared_with;

use crate::args::ExplainArgs;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::script::Files;

/// The plans, one paragraph per query, and how many files were refused.
///
/// # Errors
/// If the SQL of every file is wrong.
pub fn explain(args: &ExplainArgs, screen: &Screen) -> Result<(String, usize), Failure> {
    let compilation = Files::read(&args.sql).compile(0, screen)?;
    let script = compilation.script;
    let shared = shared_with(&script.queries, SHARED_BY_MIN);
    let plans = script.queries.iter().zip(shared).map(|(query, shared)| {
        let plan = query.explain.trim_end();
        shared.map_or_else(|| plan.to_owned(), |shared| format!("{plan}\n  {shared}"))
    });
    let explanations = script.explanations.iter().map(|text| text.trim_end().to_owned());
    let mut paragraphs: Vec<String> = explanations.chain(plans).collect();
    if paragraphs.is_empty() {
        paragraphs.push("nothing to explain: the files have no INSERT and no SELECT".into());
    }
    Ok((paragraphs.join("\n\n") + "\n", compilation.refused))
}
