//! `laxity explain`: how each query would run.

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
    let plans = script.queries.iter().map(|query| query.explain.trim_end());
    let mut paragraphs: Vec<&str> =
        script.explanations.iter().map(|text| text.trim_end()).chain(plans).collect();
    if paragraphs.is_empty() {
        paragraphs.push("nothing to explain: the files have no INSERT and no SELECT");
    }
    Ok((paragraphs.join("\n\n") + "\n", compilation.refused))
}
