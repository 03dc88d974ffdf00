use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion_physical_expr::utils::split_conjunction;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::key::Key;
use crate::FloatComparison;

/// Rows that a filter may keep: all that pass one of these tests.
#[derive(Clone, Debug)]
pub struct Access {
    tests: Vec<(Arc<dyn PhysicalExpr>, Test)>,
    /// How many rows that is, as far as its form tells: less is fewer.
    breadth: u32,
    /// The filter keeps all of them.
    is_exact: bool,
}

/// What is asked of an expression's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    In(Vec<Key>),
    Between(Bound<Key>, Bound<Key>),
    StartsWith(Box<[u8]>),
    IsNull,
}

/// More alternatives than that cost more to look up than the filter itself.
const ALTERNATIVES_MAX: usize = 64;

impl Access {
    /// The part of a filter by which its rows are found; `None` where it has to look at every row. Of a conjunction
    /// that is the part that is thought to keep the fewest: an equality before a prefix, a closed range, an open one.
    pub fn of(predicate: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<Access> {
        let mut conjuncts = Vec::new();
        let mut others = false;
        for part in split_conjunction(predicate) {
            let Some(access) = Access::of_part(part, input) else {
                others = true;
                continue;
            };
            let merged = conjuncts.iter_mut().any(|known: &mut Access| known.narrow(&access));
            if !merged {
                conjuncts.push(access);
            }
        }
        others |= conjuncts.len() > 1;
        let is_computed = |(expression, _): &(Arc<dyn PhysicalExpr>, Test)| !expression.is::<Column>();
        let cost = |access: &Access| {
            (access.breadth, access.tests.iter().filter(|test| is_computed(test)).count(), access.tests.len())
        };
        let best = conjuncts.into_iter().min_by_key(cost)?;
        let best = Access { is_exact: best.is_exact && !others, ..best };
        // About half of all rows would be handed out one by one, which is dearer than to look at all of them at once.
        (best.breadth < Test::IsNull.breadth()).then_some(best)
    }

    /// Whether the filter keeps every row that passes, so that nobody has to look at them again.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    pub(super) fn tests(&self) -> &[(Arc<dyn PhysicalExpr>, Test)] {
        &self.tests
    }

    /// The expressions that are looked at, as `explain` has them.
    pub fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.tests.iter().map(|(expression, _)| expression)
    }

    fn one(expression: &Arc<dyn PhysicalExpr>, test: Test, input: &Schema) -> Option<Access> {
        let mut is_fit = !expression.is::<Literal>();
        // The closure never fails. What is another value each time is each filter's own to compute.
        let _ = expression.apply(|node| {
            is_fit &= !node.is_volatile_node();
            Ok(TreeNodeRecursion::Continue)
        });
        let breadth = test.breadth();
        // What is computed may fail, and is then looked at again. Two floats may be one key.
        let is_float = |column: &Column| {
            let of_type = input.field(column.index()).data_type();
            matches!(of_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
        };
        let is_exact = expression.downcast_ref::<Column>().is_some_and(|column| !is_float(column));
        is_fit.then(|| Access { tests: vec![(Arc::clone(expression), test)], breadth, is_exact })
    }

    /// Of what is no conjunction.
    fn of_part(part: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<Access> {
        if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
            if *binary.op() == Operator::Or {
                let mut access = Access::of(binary.left(), input)?;
                let other = Access::of(binary.right(), input)?;
                access.tests.extend(other.tests);
                access.breadth = access.breadth.max(other.breadth);
                access.is_exact &= other.is_exact;
                return (access.tests.len() <= ALTERNATIVES_MAX).then_some(access);
            }
            return comparison(binary.left(), *binary.op(), binary.right(), input);
        }
        if let Some(list) = part.downcast_ref::<InListExpr>() {
            let keys = list.list().iter().map(|value| constant(value, list.expr(), input));
            let keys = keys.collect::<Option<Vec<Key>>>().filter(|_| !list.negated())?;
            return Access::one(list.expr(), Test::In(keys), input);
        }
        if let Some(is_null) = part.downcast_ref::<IsNullExpr>() {
            return Access::one(is_null.arg(), Test::IsNull, input);
        }
        if let Some(like) = part.downcast_ref::<LikeExpr>() {
            let Key::Text(pattern) = constant(like.pattern(), like.expr(), input)? else { return None };
            let length = pattern.iter().position(|byte| b"%_\\".contains(byte)).unwrap_or(pattern.len());
            let is_prefix = length > 0 && !like.negated() && !like.case_insensitive();
            let access = Access::one(like.expr(), Test::StartsWith(pattern[..length].into()), input)?;
            let is_all = &pattern[length..] == b"%";
            return is_prefix.then_some(Access { is_exact: access.is_exact && is_all, ..access });
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
        let is_boolean = of.is::<Column>() && of.data_type(input).ok()? == DataType::Boolean;
        let access = Access::one(of, Test::In(vec![Key::Number(value)]), input).filter(|_| is_boolean)?;
        Some(Access { breadth: Test::IsNull.breadth(), ..access })
    }

    /// Takes another range of the same expression into this one. False where there is nothing to take.
    fn narrow(&mut self, other: &Access) -> bool {
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
    input: &Schema,
) -> Option<Access> {
    let (of, op, key) = match constant(right, left, input) {
        Some(key) => (left, op, key),
        None => (right, op.swap()?, constant(left, right, input)?),
    };
    // Arrow tells -0 from 0, Flink does so in some comparisons: keys do not.
    let is_float = matches!(of.data_type(input).ok()?, DataType::Float32 | DataType::Float64);
    let beyond = |key| if is_float { Bound::Included(key) } else { Bound::Excluded(key) };
    let test = match op {
        Operator::Eq => Test::In(vec![key]),
        Operator::Lt => Test::Between(Bound::Unbounded, beyond(key)),
        Operator::LtEq => Test::Between(Bound::Unbounded, Bound::Included(key)),
        Operator::Gt => Test::Between(beyond(key), Bound::Unbounded),
        Operator::GtEq => Test::Between(Bound::Included(key), Bound::Unbounded),
        _ => return None,
    };
    Access::one(of, test, input)
}

/// A constant that is compared with an expression, as the key that the expression's value has where they are equal.
fn constant(value: &Arc<dyn PhysicalExpr>, of: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<Key> {
    let value = value.downcast_ref::<Literal>()?.value();
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let (own, other) = (value.data_type(), of.data_type(input).ok()?);
    (own == other || is_text(&own) && is_text(&other)).then(|| Key::of(value))?
}
