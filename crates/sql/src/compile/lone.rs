//! Queries that are alone with their tables so far. What lets queries be done as one is work to plan and memory to keep, and
//! gains one alone nothing: it is planned again with that once a second one comes. So is one that reads fields of ROWs alone.

use super::{Done, Place, PlannedQuery, Scope, Session};
use crate::parse::StatementParser;
use crate::settings::SessionSettings;
use crate::side_by_side::side_by_side;
use crate::statement::Statement;

/// One that may have to be planned again. Its statement is not kept: a parsed one takes as much as a planned one.
pub(super) struct Lone<'a> {
    /// Among the queries of the script.
    pub number: usize,
    pub place: Place<'a>,
    pub settings: SessionSettings,
    /// See [`Waiting`](super::Waiting).
    pub declared: usize,
}

impl<'a> Session<'a> {
    /// Those whose tables others have come to read since this was done last can do it with them from here on.
    pub(super) fn plan_joined(&mut self) -> Done<()> {
        let joined = self.templates.take_joined();
        let mut lone: Vec<Lone> = joined.iter().filter_map(|table| self.lone.remove(table)).collect();
        let joined = self.templates.take_joined_rows();
        lone.extend(joined.iter().filter_map(|table| self.lone_rows.remove(table)));
        self.plan_again(lone)
    }

    /// Plans them as if others were there.
    pub(super) fn plan_again(&mut self, mut lone: Vec<Lone<'a>>) -> Done<()> {
        lone.sort_unstable_by_key(|one| one.number);
        lone.dedup_by_key(|one| one.number);
        let plan = |one: &Lone| {
            let catalog = self.catalog.at(one.declared);
            let scope = Scope { settings: &one.settings, catalog, awaits_others: false, ..self.scope() };
            let statement = StatementParser::new(one.place.tokens).next_statement()?;
            let PlannedQuery { plain_name: name, set, .. } = &self.queries[one.number];
            let plan = |statement: Statement| scope.plan(&statement, &one.place, name.clone(), set.clone());
            let planned = statement.map(plan).transpose();
            planned.map_err(|fault| fault.or_at(one.place.span.start))
        };
        let planned = side_by_side(&lone, self.threads, plan)?;
        for (one, query) in lone.iter().zip(planned) {
            if let Some(query) = query {
                self.queries[one.number] = query;
            }
        }
        Ok(())
    }
}
