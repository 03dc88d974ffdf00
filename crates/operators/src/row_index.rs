//! Which of many filters may keep a row, without asking each.
//!
//! Filters that compare one expression with constants meet in one index of that expression: equality and IN by hash,
//! ranges by a tree of intervals, prefixes by their length. The expression is computed once a batch, whoever filters by
//! it. What a filter gets is more than it keeps, never less: it still looks at the rows itself (NiagaraCQ's expression
//! signatures, without the join).

mod access;
mod conjunction;
mod intervals;
mod key;

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_physical_expr::PhysicalExpr;
use hashbrown::HashMap;

use crate::SharedSource;
pub use access::Access;
use access::{Part, Test};
use conjunction::{Conjunction, Values};
use intervals::Intervals;
use key::{Key, Keys};

/// The filters of all who share a source, by the number that each joined with.
#[derive(Default)]
pub struct RowIndex {
    by_key: Vec<ByKey>,
    /// Members without filters.
    unfiltered: Vec<u32>,
    /// Members whose filters have several parts.
    conjunctions: HashMap<u32, Conjunction>,
    /// Rows so far.
    rows: u64,
}

/// Filters by one expression.
struct ByKey {
    expression: Arc<dyn PhysicalExpr>,
    /// Who joined, once for each test.
    members: Vec<u32>,
    equal: HashMap<Key, Vec<u32>>,
    ranges: Intervals,
    /// By length in bytes.
    prefixes: Vec<(usize, ByPrefix)>,
    null: Vec<u32>,
}

/// Who asks for each.
type ByPrefix = HashMap<Box<[u8]>, Vec<u32>>;

impl RowIndex {
    /// Rows that this access lets through are this member's from now on.
    pub fn join(&mut self, member: u32, access: &Access) {
        if let Some(conjunction) = Conjunction::of(access, self.rows) {
            self.conjunctions.insert(member, conjunction);
        }
        match access.parts().first() {
            Some(part) => self.add(member, part),
            None => self.unfiltered.push(member),
        }
    }

    /// The member takes no more rows. `access` is what it joined with.
    pub fn leave(&mut self, member: u32, access: &Access) {
        match (self.conjunctions.remove(&member), access.parts().first()) {
            (Some(conjunction), _) => self.remove(member, conjunction.part()),
            (None, Some(part)) => self.remove(member, part),
            (None, None) => self.unfiltered.retain(|&of| of != member),
        }
    }

    fn add(&mut self, member: u32, part: &Part) {
        for (expression, test) in &part.tests {
            let known = self.by_key.iter().position(|by_key| by_key.is_by(expression));
            let place = known.unwrap_or_else(|| {
                self.by_key.push(ByKey::new(expression));
                self.by_key.len() - 1
            });
            self.by_key[place].add(member, test);
        }
    }

    fn remove(&mut self, member: u32, part: &Part) {
        for (expression, test) in &part.tests {
            if let Some(by_key) = self.by_key.iter_mut().find(|by_key| by_key.is_by(expression)) {
                by_key.remove(member, test);
            }
        }
        self.by_key.retain(|by_key| !by_key.members.is_empty());
    }

    /// Pairs of a member and a row that it may keep, in that order, each once; of one without a filter a single pair with
    /// [`EVERY_ROW`](SharedSource::EVERY_ROW).
    pub fn choose(&mut self, rows: &RecordBatch, chosen: &mut Vec<(u32, u32)>) {
        chosen.clear();
        if rows.num_rows() > 0 {
            chosen.extend(self.unfiltered.iter().map(|&member| (member, SharedSource::EVERY_ROW)));
        }
        for by_key in &mut self.by_key {
            by_key.choose(rows, chosen);
        }
        chosen.sort_unstable();
        chosen.dedup();
        self.rows += rows.num_rows() as u64;
        if !self.conjunctions.is_empty() {
            self.keep(rows, chosen);
        }
    }

    /// Looks at what the other parts of conjunctions say of rows that one part has found.
    fn keep(&mut self, rows: &RecordBatch, chosen: &mut Vec<(u32, u32)>) {
        let found = std::mem::replace(chosen, Vec::with_capacity(chosen.len()));
        let mut values = Values::of_batch(rows);
        let mut changed = Vec::new();
        for of_member in found.chunk_by(|one, next| one.0 == next.0) {
            let (member, from) = (of_member[0].0, chosen.len());
            chosen.extend_from_slice(of_member);
            let Some(conjunction) = self.conjunctions.get_mut(&member) else { continue };
            conjunction.keep(chosen, from, &mut values);
            if let Some(before) = conjunction.reconsider(self.rows) {
                changed.push((member, before, conjunction.part().clone()));
            }
        }
        for (member, before, after) in changed {
            self.remove(member, &before);
            self.add(member, &after);
        }
    }
}

impl ByKey {
    fn new(expression: &Arc<dyn PhysicalExpr>) -> ByKey {
        ByKey {
            expression: Arc::clone(expression),
            members: Vec::new(),
            equal: HashMap::new(),
            ranges: Intervals::default(),
            prefixes: Vec::new(),
            null: Vec::new(),
        }
    }

    fn is_by(&self, expression: &Arc<dyn PhysicalExpr>) -> bool {
        self.expression.as_ref() == expression.as_ref()
    }

    fn add(&mut self, member: u32, test: &Test) {
        self.members.push(member);
        match test {
            Test::In(keys) => {
                keys.iter().for_each(|key| self.equal.entry(key.clone()).or_default().push(member));
            }
            Test::Between(low, high) => self.ranges.add(low.clone(), high.clone(), member),
            Test::StartsWith(prefix) => {
                let of_length = self.prefixes.iter().position(|(length, _)| *length == prefix.len());
                let of_length = of_length.unwrap_or_else(|| {
                    self.prefixes.push((prefix.len(), HashMap::new()));
                    self.prefixes.len() - 1
                });
                self.prefixes[of_length].1.entry(prefix.clone()).or_default().push(member);
            }
            Test::IsNull => self.null.push(member),
        }
    }

    fn remove(&mut self, member: u32, test: &Test) {
        fn take(members: &mut Vec<u32>, member: u32) -> bool {
            if let Some(place) = members.iter().position(|&of| of == member) {
                members.swap_remove(place);
            }
            members.is_empty()
        }
        take(&mut self.members, member);
        match test {
            Test::In(keys) => {
                for key in keys {
                    if self.equal.get_mut(key).is_some_and(|members| take(members, member)) {
                        self.equal.remove(key);
                    }
                }
            }
            Test::Between(..) => self.ranges.remove(member),
            Test::StartsWith(prefix) => {
                for (_, of_length) in self.prefixes.iter_mut().filter(|(length, _)| *length == prefix.len()) {
                    if of_length.get_mut(prefix).is_some_and(|members| take(members, member)) {
                        of_length.remove(prefix);
                    }
                }
                self.prefixes.retain(|(_, of_length)| !of_length.is_empty());
            }
            Test::IsNull => {
                take(&mut self.null, member);
            }
        }
    }

    fn choose(&mut self, rows: &RecordBatch, chosen: &mut Vec<(u32, u32)>) {
        let count = rows.num_rows();
        let values = self.expression.evaluate(rows).and_then(|value| value.into_array(count)).ok();
        let Some(keys) = values.as_ref().and_then(Keys::of) else {
            // A row makes the expression fail: each of them is to meet it, and to fail or not on its own.
            let all = |row| self.members.iter().map(move |&member| (member, row));
            chosen.extend((0..count as u32).flat_map(all));
            return;
        };
        self.ranges.arrange();
        for row in 0..count {
            let number = row as u32;
            let mut choose = |members: &[u32]| chosen.extend(members.iter().map(|&member| (member, number)));
            let Some(key) = keys.get(row) else {
                choose(&self.null);
                continue;
            };
            if let Some(members) = self.equal.get(&key) {
                choose(members);
            }
            if let Some(text) = key.text() {
                for (length, of_length) in &self.prefixes {
                    if let Some(members) = text.get(..*length).and_then(|prefix| of_length.get(prefix)) {
                        choose(members);
                    }
                }
            }
            self.ranges.containing(&key, |member| choose(&[member]));
        }
    }
}

#[cfg(test)]
mod tests;
