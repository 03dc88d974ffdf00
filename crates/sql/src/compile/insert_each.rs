//! The queries of a statement. A STATEMENT SET is as many as it has INSERTs: each has its own target and its own checkpoints,
//! and does with others of its table what it has in common with them.

use super::Place;
use crate::statement::{Statement, StatementKind};
use crate::words::words_within;

/// One query of a statement.
pub(super) struct Part<'a> {
    pub statement: Statement,
    pub place: Place<'a>,
    /// What it is called if nobody is called so.
    pub name: String,
    /// What the STATEMENT SET is called of which it is one of several.
    pub set: Option<String>,
}

/// In their order. `named`: what the script calls queries.
pub(super) fn parts<'a>(statement: Statement, place: Place<'a>, named: Option<&str>) -> Vec<Part<'a>> {
    let by_itself = |statement: Statement, place: Place<'a>| {
        let name = match (named, &statement.kind) {
            (Some(named), _) => named.to_owned(),
            (None, StatementKind::Insert(insert)) => inserts_into(&insert.table.value),
            (None, _) => "select".to_owned(),
        };
        Part { statement, place, name, set: None }
    };
    let StatementKind::StatementSet(inserts) = statement.kind else {
        return vec![by_itself(statement, place)];
    };
    let tables: Vec<&str> = inserts.iter().map(|insert| insert.table.value.as_str()).collect();
    let set =
        (tables.len() > 1).then(|| named.map_or_else(|| inserts_into(&tables.join("_")), str::to_owned));
    let part = |insert: crate::statement::Insert| {
        let span = insert.span;
        let within = named.filter(|_| set.is_some()).map(|named| format!("{named}/{}", insert.table.value));
        let place = Place { tokens: words_within(place.tokens, span), span, ..place };
        let part = by_itself(Statement { kind: StatementKind::Insert(insert), span }, place);
        Part { name: within.unwrap_or(part.name), set: set.clone(), ..part }
    };
    inserts.into_iter().map(part).collect()
}

/// What an INSERT is called that was given no name, as in Flink.
fn inserts_into(table: &str) -> String {
    format!("insert-into_{table}")
}
