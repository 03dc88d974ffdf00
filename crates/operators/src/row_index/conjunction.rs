//! Filters joined by AND: which part is indexed is learnt from the stream, since the form of a filter does not say how
//! many rows it keeps.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_physical_expr::PhysicalExpr;

use super::Access;
use super::access::{Part, Test};
use super::key::Keys;

/// A filter of several parts: one of them finds its rows, the others are looked at in what that lets through. Which of them
/// finds, is seen from the rows: the one that lets the fewest through.
pub(super) struct Conjunction {
    access: Access,
    /// The part that finds.
    by: usize,
    /// Rows that it has found since it was asked last whether another one would find fewer, and by part, how many of these
    /// passed it.
    found: u64,
    passed: Vec<u64>,
    /// Rows of all by then.
    rows_then: u64,
    /// By part: which share of all rows it let through when it was the one that finds.
    seen: Vec<Option<f64>>,
    /// How often that was asked.
    asked: u32,
}

/// What expressions are in the rows of a batch, as keys: each is computed when it is first asked for.
pub(super) struct Values<'a> {
    rows: &'a RecordBatch,
    /// As many as filters have parts: few.
    known: Vec<(Arc<dyn PhysicalExpr>, Computed)>,
}

/// `None` where a row makes it fail, or its type has no keys.
type Computed = Option<Arc<Keys>>;

/// Rows found before it is worth while to ask whether there is a better part.
const FOUND_MIN: u64 = 256;

/// Another part has to let through less than this share of what the present one does: to change sides costs something, and
/// how two parts depend on each other is not known.
const BETTER_BY: f64 = 0.5;

/// What was seen of a part is believed for so many questions; streams change.
const BELIEVED_FOR: u32 = 64;

impl Conjunction {
    /// `None` where one part is all there is to look at.
    pub fn of(access: &Access, rows_then: u64) -> Option<Conjunction> {
        let parts = access.parts().len();
        (parts > 1).then(|| Conjunction {
            access: access.clone(),
            by: 0,
            found: 0,
            passed: vec![0; parts],
            rows_then,
            seen: vec![None; parts],
            asked: 0,
        })
    }

    /// The part that finds the rows.
    pub fn part(&self) -> &Part {
        &self.access.parts()[self.by]
    }

    /// Keeps those of the rows found that pass the other parts too, as far as these can be looked at here.
    pub fn keep(&mut self, found: &mut Vec<(u32, u32)>, from: usize, values: &mut Values<'_>) {
        self.found += (found.len() - from) as u64;
        let parts = self.access.parts().iter().enumerate();
        let looked_at = parts.filter(|&(number, part)| number != self.by && part.is_exact);
        let tests: Vec<(usize, Vec<(Computed, &Test)>)> = looked_at
            .map(|(number, part)| {
                let tests = part.tests.iter().map(|(of, test)| (values.of(of), test));
                (number, tests.collect())
            })
            .collect();
        let mut to = from;
        for place in from..found.len() {
            let pair = found[place];
            let mut passes_all = true;
            for (number, tests) in &tests {
                // What has no keys is left to the filter itself, which then is not exact.
                let passes = tests.iter().any(|(keys, test)| {
                    keys.as_ref().is_none_or(|keys| test.passes(keys.get(pair.1 as usize)))
                });
                self.passed[*number] += u64::from(passes);
                passes_all &= passes;
            }
            if passes_all {
                found[to] = pair;
                to += 1;
            }
        }
        found.truncate(to);
    }

    /// Lets another part find the rows from now on if that would find fewer; the one that did before. `rows` is how many
    /// rows there have been.
    pub fn reconsider(&mut self, rows: u64) -> Option<Part> {
        if self.found < FOUND_MIN {
            return None;
        }
        let share = self.found as f64 / (rows - self.rows_then).max(1) as f64;
        self.asked += 1;
        if self.asked.is_multiple_of(BELIEVED_FOR) {
            self.seen.fill(None);
        }
        self.seen[self.by] = Some(share);
        // Of one that has found rows before, its share is known; of another, that among the rows found.
        let others = self.access.parts().iter().enumerate();
        let others =
            others.filter(|&(number, part)| part.is_exact && number != self.by).map(|(number, _)| {
                let among_found = self.passed[number] as f64 / self.found as f64;
                (self.seen[number].unwrap_or(among_found), number)
            });
        let best = others.min_by(|one, other| one.0.total_cmp(&other.0));
        (self.found, self.rows_then) = (0, rows);
        self.passed.fill(0);
        let (_, best) = best.filter(|&(expected, _)| expected < share * BETTER_BY)?;
        let before = self.part().clone();
        self.by = best;
        Some(before)
    }
}

impl<'a> Values<'a> {
    pub fn of_batch(rows: &'a RecordBatch) -> Values<'a> {
        Values { rows, known: Vec::new() }
    }

    fn of(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Computed {
        let is_it = |known: &&(Arc<dyn PhysicalExpr>, Computed)| known.0.as_ref() == expression.as_ref();
        if let Some((_, keys)) = self.known.iter().find(is_it) {
            return keys.clone();
        }
        let rows = self.rows;
        let values = expression.evaluate(rows).and_then(|value| value.into_array(rows.num_rows())).ok();
        let keys = values.as_ref().and_then(Keys::of).map(Arc::new);
        self.known.push((Arc::clone(expression), keys.clone()));
        keys
    }
}
