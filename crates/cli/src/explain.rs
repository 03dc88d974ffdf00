//! `laxity explain`: how each query would run.

use crate::args::ExplainArgs;
use crate::failure::Failure;
use crate::script;

/// The plans, one paragraph per query.
///
/// # Errors
/// If the SQL is wrong.
pub fn explain(args: &ExplainArgs) -> Result<String, Failure> {
    let script = script::compile(&script::read(&args.files)?, 0)?;
    let plans = script.queries.iter().map(|query| query.explain.trim_end());
    let mut paragraphs: Vec<&str> =
        script.explanations.iter().map(|text| text.trim_end()).chain(plans).collect();
    if paragraphs.is_empty() {
        paragraphs.push("nothing to explain: the files have no INSERT and no SELECT");
    }
    Ok(paragraphs.join("\n\n") + "\n")
}
