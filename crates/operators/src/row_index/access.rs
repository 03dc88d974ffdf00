//! What an index can use of a filter: it is taken apart into comparisons with constants, and what cannot be looked up
//! is left to the filter itself.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::new_empty_array;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion_physical_expr::utils::split_conjunction;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::intervals::{is_above, is_below};
use super::key::{Key, KeyRef, Keys};
use crate::FloatComparison;

/// Rows that a filter may keep: all that pass each part. Equal ones keep the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Any of them leads to the rows. The first is the one that is thought to let the fewest through. None where there is no
    /// filter.
    parts: Vec<Part>,
    /// The filter keeps all rows that pass them.
    is_exact: bool,
}

/// A part of a conjunction: rows that pass one of these tests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub tests: Vec<(Arc<dyn PhysicalExpr>, Test)>,
    /// How many rows that is, as far as its form tells: less is fewer.
    breadth: u32,
    /// What it keeps are all rows that pass, and its tests have an answer for every row.
    pub is_exact: bool,
}

/// What is asked of an expression's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Test {
    /// In their order.
    In(Vec<Key>),
    Between(Bound<Key>, Bound<Key>),
    StartsWith(Box<[u8]>),
    IsNull,
}

/// More alternatives than that cost more to look up than the filter itself.
const ALTERNATIVES_MAX: usize = 64;

impl Access {
    /// That of who has no filter.
    pub fn to_every_row() -> Access {
        Access { parts: Vec::new(), is_exact: true }
    }

    /// Whether there is no filter.
    pub fn is_to_every_row(&self) -> bool {
        self.parts.is_empty()
    }

    /// The parts of a filter by which its rows are found; `None` where it has to look at every row. Of a conjunction
    /// those come first that are thought to keep the fewest: an equality before a prefix, a closed range, an open one.
    ///
    /// `never_fails`: whether an expression that is more than a column has a value for every row, also for one that another
    /// part of the filter drops.
    pub fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        input: &Schema,
        never_fails: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
    ) -> Option<Access> {
        let input = &Input { schema: input, never_fails };
        let mut parts = Vec::new();
        let mut others = false;
        for conjunct in split_conjunction(predicate) {
            let Some(part) = Part::of(conjunct, input) else {
                others = true;
                continue;
            };
            let merged = parts.iter_mut().any(|known: &mut Part| known.narrow(&part));
            if !merged {
                parts.push(part);
            }
        }
        let is_computed = |(expression, _): &(Arc<dyn PhysicalExpr>, Test)| !expression.is::<Column>();
        let cost = |part: &Part| {
            (part.breadth, part.tests.iter().filter(|test| is_computed(test)).count(), part.tests.len())
        };
        // Stable: of equals the first in the text.
        parts.sort_by_key(cost);
        let is_exact = !others && parts.iter().all(|part| part.is_exact);
        // About half of all rows would be handed out one by one, which is dearer than to look at all of them at once.
        let is_worth_it = parts.first().is_some_and(|best| best.breadth < Test::IsNull.breadth());
        is_worth_it.then_some(Access { parts, is_exact })
    }

    /// Whether the filter keeps every row that passes, so that nobody has to look at them again.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The expressions that are looked at, as `explain` has them: first those of the part that is thought to be the best.
    pub fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let looked_at = self.parts.iter().enumerate().filter(|(place, part)| *place == 0 || part.is_exact);
        looked_at.flat_map(|(_, part)| part.tests.iter().map(|(expression, _)| expression))
    }
}

/// What filters are over.
struct Input<'a> {
    schema: &'a Schema,
    never_fails: &'a dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
}

impl Part {
    fn one(expression: &Arc<dyn PhysicalExpr>, test: Test, input: &Input<'_>) -> Option<Part> {
        let mut is_fit = !expression.is::<Literal>();
        // The closure never fails. What is another value each time is each filter's own to compute.
        let _ = expression.apply(|node| {
            is_fit &= !node.is_volatile_node();
            Ok(TreeNodeRecursion::Continue)
        });
        let breadth = test.breadth();
        // What may fail is looked at again. Two floats may be one key, and some types have none.
        let has_keys = |of: &DataType| !of.is_floating() && Keys::of(&new_empty_array(of)).is_some();
        let has_value = expression.is::<Column>() || (input.never_fails)(expression);
        let is_exact = has_value && expression.data_type(input.schema).is_ok_and(|of| has_keys(&of));
        is_fit.then(|| Part { tests: vec![(Arc::clone(expression), test)], breadth, is_exact })
    }

    /// Of what is no conjunction.
    fn of(part: &Arc<dyn PhysicalExpr>, input: &Input<'_>) -> Option<Part> {
        if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
            if *binary.op() == Operator::Or {
                let mut part = Part::alternative(binary.left(), input)?;
                let other = Part::alternative(binary.right(), input)?;
                part.tests.extend(other.tests);
                part.breadth = part.breadth.max(other.breadth);
                part.is_exact &= other.is_exact;
                return (part.tests.len() <= ALTERNATIVES_MAX).then_some(part);
            }
            return comparison(binary.left(), *binary.op(), binary.right(), input);
        }
        if let Some(list) = part.downcast_ref::<InListExpr>() {
            let keys = list.list().iter().map(|value| constant(value, list.expr(), input));
            let mut keys = keys.collect::<Option<Vec<Key>>>().filter(|_| !list.negated())?;
            keys.sort_unstable();
            keys.dedup();
            return Part::one(list.expr(), Test::In(keys), input);
        }
        if let Some(is_null) = part.downcast_ref::<IsNullExpr>() {
            return Part::one(is_null.arg(), Test::IsNull, input);
        }
        if let Some(like) = part.downcast_ref::<LikeExpr>() {
            let Key::Text(pattern) = constant(like.pattern(), like.expr(), input)? else { return None };
            let length = pattern.iter().position(|byte| b"%_\\".contains(byte)).unwrap_or(pattern.len());
            let is_prefix = length > 0 && !like.negated() && !like.case_insensitive();
            let part = Part::one(like.expr(), Test::StartsWith(pattern[..length].into()), input)?;
            let is_all = &pattern[length..] == b"%";
            return is_prefix.then_some(Part { is_exact: part.is_exact && is_all, ..part });
        }
        if let Some(function) = part.downcast_ref::<ScalarFunctionExpr>() {
            let comparison_of = function.fun().inner().downcast_ref::<FloatComparison>()?;
            let [left, right] = function.args() else { return None };
            return comparison(left, comparison_of.op(), right, input);
        }
        let (of, value) = match part.downcast_ref::<NotExpr>() {
            Some(not) => (not.arg(), 0),
            None => (part, 1),
        };
        let is_boolean = of.is::<Column>() && of.data_type(input.schema).ok()? == DataType::Boolean;
        let part = Part::one(of, Test::In(vec![Key::Number(value)]), input).filter(|_| is_boolean)?;
        Some(Part { breadth: Test::IsNull.breadth(), ..part })
    }

    /// One side of an OR: the best part of it, which is all of it or not.
    fn alternative(side: &Arc<dyn PhysicalExpr>, input: &Input<'_>) -> Option<Part> {
        let Access { mut parts, is_exact } = Access::of(side, input.schema, input.never_fails)?;
        let is_exact = is_exact && parts.len() == 1;
        Some(Part { is_exact, ..parts.swap_remove(0) })
    }

    /// Takes another range of the same expression into this one. False where there is nothing to take.
    fn narrow(&mut self, other: &Part) -> bool {
        let ([(own, Test::Between(low, high))], [(others, Test::Between(other_low, other_high))]) =
            (&mut self.tests[..], &other.tests[..])
        else {
            return false;
        };
        if own.as_ref() != others.as_ref() {
            return false;
        }
        // Which of two lows is the higher is not asked for: either is right.
        let both = |one: &Bound<Key>, other: &Bound<Key>| {
            !matches!(one, Bound::Unbounded) && !matches!(other, Bound::Unbounded)
        };
        self.is_exact &= other.is_exact && !both(low, other_low) && !both(high, other_high);
        if matches!(low, Bound::Unbounded) {
            *low = other_low.clone();
        }
        if matches!(high, Bound::Unbounded) {
            *high = other_high.clone();
        }
        self.breadth = self.tests[0].1.breadth();
        true
    }
}

impl Test {
    /// Whether a value passes; `None` is NULL.
    pub(super) fn passes(&self, value: Option<KeyRef<'_>>) -> bool {
        let Some(value) = value else { return *self == Test::IsNull };
        match self {
            Test::In(keys) => keys.binary_search_by(|key| key.as_ref().cmp(&value)).is_ok(),
            Test::Between(low, high) => is_above(&value, low) && is_below(&value, high),
            Test::StartsWith(prefix) => value.text().is_some_and(|text| text.starts_with(prefix)),
            Test::IsNull => false,
        }
    }

    fn breadth(&self) -> u32 {
        match self {
            Test::In(_) => 0,
            Test::StartsWith(_) => 1,
            Test::Between(Bound::Unbounded, _) | Test::Between(_, Bound::Unbounded) => 3,
            Test::Between(..) => 2,
            Test::IsNull => 4,
        }
    }
}

/// An expression compared with a constant, whichever side that is on.
fn comparison(
    left: &Arc<dyn PhysicalExpr>,
    op: Operator,
    right: &Arc<dyn PhysicalExpr>,
    input: &Input<'_>,
) -> Option<Part> {
    let (of, op, key) = match constant(right, left, input) {
        Some(key) => (left, op, key),
        None => (right, op.swap()?, constant(left, right, input)?),
    };
    // Arrow tells -0 from 0, Flink does so in some comparisons: keys do not.
    let is_float = matches!(of.data_type(input.schema).ok()?, DataType::Float32 | DataType::Float64);
    let beyond = |key| if is_float { Bound::Included(key) } else { Bound::Excluded(key) };
    let test = match op {
        Operator::Eq => Test::In(vec![key]),
        Operator::Lt => Test::Between(Bound::Unbounded, beyond(key)),
        Operator::LtEq => Test::Between(Bound::Unbounded, Bound::Included(key)),
        Operator::Gt => Test::Between(beyond(key), Bound::Unbounded),
        Operator::GtEq => Test::Between(Bound::Included(key), Bound::Unbounded),
        _ => return None,
    };
    Part::one(of, test, input)
}

/// A constant that is compared with an expression, as the key that the expression's value has where they are equal.
fn constant(value: &Arc<dyn PhysicalExpr>, of: &Arc<dyn PhysicalExpr>, input: &Input<'_>) -> Option<Key> {
    let value = value.downcast_ref::<Literal>()?.value();
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let (own, other) = (value.data_type(), of.data_type(input.schema).ok()?);
    (own == other || is_text(&own) && is_text(&other)).then(|| Key::of(value))?
}
