use laxity_sql::compile;

use crate::errors::files;
use crate::golden;

#[test]
fn plans_read_from_sink_to_source() {
    golden::check("explain.txt", |sql| match compile(&files(sql)) {
        Ok(script) => {
            let run = script.queries.into_iter().map(|query| query.explain);
            run.chain(script.explanations).collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    });
}
