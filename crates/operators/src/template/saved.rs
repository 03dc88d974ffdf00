//! What the operator of a template holds, as what the operator of each member alone would hold, and back: a checkpoint is
//! of one query, and does not tell whether its work was done with that of others.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array, UInt64Array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};

use crate::state::{Part, Result, bug, named, table};
use crate::window_aggregate::runs_of_groups;
use crate::{OperatorState, StateError, StatePart, Template};

/// The part that says where windows are aggregated.
const AGGREGATE: &str = "window-aggregate";
const SENT: &str = "windows-sent";
const PARTS: &str = "parts";
const GROUPS: &str = "groups";
/// The column of a group's part.
const PART: &str = "part";

/// State of a windowed aggregation, whichever operators are chained around it: none of these holds anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// What stands before the names of its parts.
    pub prefix: String,
    /// Its own parts.
    pub state: OperatorState,
}

impl Windows {
    /// What an operator of a query holds, if that is such an aggregation.
    pub fn of(state: OperatorState) -> Option<Windows> {
        let prefix = state.parts.iter().find_map(|part| part.name.strip_suffix(AGGREGATE))?.to_owned();
        if !state.parts.iter().all(|part| part.name.starts_with(&prefix)) || !state.later.is_empty() {
            return None;
        }
        let len = prefix.len();
        Some(Windows { state: state.renamed(move |name| name[len..].to_owned()), prefix })
    }

    /// What the operator as a whole holds.
    #[must_use]
    pub fn whole(self) -> OperatorState {
        let Windows { prefix, state } = self;
        state.renamed(move |name| format!("{prefix}{name}"))
    }

    /// Whether all windows that end at this watermark have been sent, ms.
    pub fn have_ended_at(&self, watermark_ms: i64) -> bool {
        let wakes_at = self.state.clone().take(SENT).and_then(|sent| sent.only::<Int64Type>("wakes-at"));
        wakes_at.is_ok_and(|wakes_at| wakes_at > watermark_ms)
    }
}

/// What the operator of a template held at one moment. Whose each part of it is, is looked for when somebody asks.
#[derive(Clone, Debug)]
pub struct SavedTemplate {
    state: Arc<OperatorState>,
    sorted: Arc<OnceLock<std::result::Result<Sorted, String>>>,
}

/// Groups by member.
#[derive(Debug)]
struct Sorted {
    own: Vec<StatePart>,
    first: Int64Array,
    second: Int64Array,
    is_filled: BooleanArray,
    /// Of all members one behind the other, without the column that says whose they are.
    groups: Option<RecordBatch>,
    of: HashMap<u32, Range<usize>>,
}

impl SavedTemplate {
    /// What an operator of that member alone would hold: to be given to [`Windows`] with the prefix that it has there.
    ///
    /// # Errors
    /// If it is not the state of a template.
    pub fn of_member(&self, member: u32) -> Result<OperatorState> {
        let sorted = self.sorted.get_or_init(|| sort(&self.state).map_err(|error| error.to_string()));
        let sorted = sorted.as_ref().map_err(|error| bug("template", error))?;
        let mut state = OperatorState::of(sorted.own.clone());
        let (mut first, mut second, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        let (mut fills, mut numbers, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        if let (Some(all), Some(range)) = (&sorted.groups, sorted.of.get(&member)) {
            let own = all.slice(range.start, range.len());
            let parts = own.column(0).as_primitive::<UInt32Type>();
            for run in parts.values().chunk_by(|a, b| a == b) {
                let part = run[0] as usize;
                numbers.extend(std::iter::repeat_n(first.len() as u32, run.len()));
                first.push(sorted.first.value(part));
                second.push(sorted.second.value(part));
                fills.push(sorted.is_filled.value(part));
                groups.push(run.len() as u64);
            }
            let mut columns = own.columns().to_vec();
            columns[0] = Arc::new(UInt32Array::from(numbers));
            let rows = RecordBatch::try_new(own.schema(), columns);
            pieces.push(rows.map_err(|error| bug("template", error))?);
        }
        state = state.with(PARTS, parts_of(first, second, groups, fills))?;
        state.with_pieces(GROUPS, pieces)
    }
}

impl Template {
    /// What its operator holds.
    ///
    /// # Errors
    /// If that is not windows alone, or cannot be saved.
    pub fn saved(operator: &mut dyn crate::Operator) -> Result<SavedTemplate> {
        let Windows { state, .. } = windows_of(operator)?;
        Ok(SavedTemplate { state: Arc::new(state), sorted: Arc::default() })
    }

    /// The operator with what it holds, and with what each of these members held alone, who have come to the same place: no
    /// window that has ended is left to be sent, of it or of them.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn with_members(
        &self,
        operator: &mut dyn crate::Operator,
        held: Vec<(u32, OperatorState)>,
    ) -> Result<Box<dyn crate::Operator>> {
        let Windows { prefix, state } = windows_of(operator)?;
        let state = merged(state, held, self.member_key)?;
        let mut fresh = self.operator().map_err(|error| bug("template", error))?;
        fresh.restore(Windows { prefix, state }.whole())?;
        Ok(fresh)
    }
}

fn windows_of(operator: &mut dyn crate::Operator) -> Result<Windows> {
    Windows::of(operator.save()?.whole()?).ok_or_else(|| bug("template", "more is held than windows"))
}

fn parts_of(
    first: Vec<i64>,
    second: Vec<i64>,
    groups: Vec<u64>,
    fills: Vec<bool>,
) -> Vec<(String, ArrayRef)> {
    vec![
        named("first", Int64Array::from(first)),
        named("second", Int64Array::from(second)),
        named("groups", UInt64Array::from(groups)),
        named("is-filled", BooleanArray::from(fills)),
    ]
}

fn sort(state: &OperatorState) -> Result<Sorted> {
    let mut state = state.clone();
    let own: Vec<StatePart> =
        state.parts.iter().filter(|part| [AGGREGATE, SENT].contains(&part.name.as_str())).cloned().collect();
    let parts = state.take(PARTS)?;
    let (first, second) = (parts.values::<Int64Type>("first")?, parts.values::<Int64Type>("second")?);
    let (groups, is_filled) = (parts.values::<UInt64Type>("groups")?, parts.flags("is-filled")?);
    let pieces: Vec<RecordBatch> =
        runs_of_groups(&mut state, &groups)?.into_iter().map(Part::into_rows).collect();
    let (first, second) = (Int64Array::new(first, None), Int64Array::new(second, None));
    let mut of = HashMap::new();
    let Some(piece) = pieces.first() else {
        return Ok(Sorted { own, first, second, is_filled, groups: None, of });
    };
    let mut rows = concat_batches(&piece.schema(), &pieces).map_err(|error| bug("template", error))?;
    let place = rows.schema().index_of(Template::MEMBER).map_err(|error| bug("template", error))?;
    let members = rows.remove_column(place);
    let members = members.as_primitive::<UInt32Type>().values();
    let mut order: Vec<u32> = (0..members.len() as u32).collect();
    // Stable: a member's groups stay in the order of their parts, and in that in which they came.
    order.sort_by_key(|&row| members[row as usize]);
    let mut start = 0;
    for run in order.chunk_by(|&a, &b| members[a as usize] == members[b as usize]) {
        of.insert(members[run[0] as usize], start..start + run.len());
        start += run.len();
    }
    if !order.is_sorted() {
        rows = take_record_batch(&rows, &UInt32Array::from(order)).map_err(|error| bug("template", error))?;
    }
    Ok(Sorted { own, first, second, is_filled, groups: Some(rows), of })
}

/// By the part's key and whether it is still filled: what is in it, one behind the other.
type Runs = BTreeMap<(i64, i64, bool), Vec<Vec<ArrayRef>>>;

/// Groups of both in each part. They are of different members, so that none is in two of them.
fn merged(own: OperatorState, held: Vec<(u32, OperatorState)>, member_key: usize) -> Result<OperatorState> {
    let (mut watermark, mut sent) = (i64::MIN, (i64::MIN, i64::MIN));
    let (mut wakes_at, mut runs, mut names) = (i64::MAX, Runs::new(), Vec::new());
    let members = held.into_iter().map(|(member, state)| (Some(member), state));
    for (member, mut state) in std::iter::once((None, own)).chain(members) {
        watermark = watermark.max(state.take(AGGREGATE)?.only::<Int64Type>("watermark")?);
        let windows = state.take(SENT)?;
        sent = sent.max((windows.only::<Int64Type>("end")?, windows.only::<Int64Type>("start")?));
        wakes_at = wakes_at.min(windows.only::<Int64Type>("wakes-at")?);
        add_runs(&mut state, member, member_key, &mut runs, &mut names)?;
        state.finish()?;
    }
    let (mut first, mut second, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fills, mut pieces) = (Vec::new(), Vec::new());
    for ((of_first, of_second, is_filled), run) in runs {
        let internal = |error| bug("template", error);
        let column = |at: usize| {
            let arrays: Vec<&dyn Array> = run.iter().map(|columns| columns[at].as_ref()).collect();
            arrow::compute::concat(&arrays).map_err(internal)
        };
        let columns = (0..names.len()).map(column).collect::<Result<Vec<ArrayRef>>>()?;
        let rows = columns.first().map_or(0, |column| column.len());
        let number = UInt32Array::from_value(first.len() as u32, rows);
        let named_columns = names.iter().cloned().zip(columns);
        pieces.push(table(std::iter::once(named(PART, number)).chain(named_columns).collect())?);
        first.push(of_first);
        second.push(of_second);
        groups.push(rows as u64);
        fills.push(is_filled);
    }
    let sent = vec![
        named("end", Int64Array::from(vec![sent.0])),
        named("start", Int64Array::from(vec![sent.1])),
        named("wakes-at", Int64Array::from(vec![wakes_at])),
    ];
    OperatorState::default()
        .with(AGGREGATE, vec![named("watermark", Int64Array::from(vec![watermark]))])?
        .with(SENT, sent)?
        .with(PARTS, parts_of(first, second, groups, fills))?
        .with_pieces(GROUPS, pieces)
}

/// Takes the parts of one out. `member`: whose they are, if no column says so.
fn add_runs(
    state: &mut OperatorState,
    member: Option<u32>,
    member_key: usize,
    runs: &mut Runs,
    names: &mut Vec<String>,
) -> Result<()> {
    let parts = state.take(PARTS)?;
    let (first, second) = (parts.values::<Int64Type>("first")?, parts.values::<Int64Type>("second")?);
    let (lengths, fills) = (parts.values::<UInt64Type>("groups")?, parts.flags("is-filled")?);
    let mut seen = vec![0; first.len()];
    for piece in runs_of_groups(state, &lengths)? {
        let numbers = piece.values::<UInt32Type>(PART)?;
        let rows = piece.into_rows();
        let fields = rows.schema();
        let mut columns: Vec<ArrayRef> = rows.columns()[1..].to_vec();
        let mut of: Vec<String> = fields.fields()[1..].iter().map(|field| field.name().clone()).collect();
        if let Some(member) = member {
            let place = member_key.min(columns.len());
            columns.insert(place, Arc::new(UInt32Array::from_value(member, rows.num_rows())));
            of.insert(place, Template::MEMBER.into());
        }
        if names.is_empty() {
            *names = of;
        } else if names.len() != of.len() {
            return Err(misfit(names.len(), of.len()));
        }
        let mut offset = 0;
        for run in numbers.chunk_by(|a, b| a == b) {
            let part = run[0] as usize;
            let Some(seen) = seen.get_mut(part) else { return Err(misfit(first.len(), part)) };
            *seen += run.len() as u64;
            let own = columns.iter().map(|column| column.slice(offset, run.len())).collect();
            runs.entry((first[part], second[part], fills.value(part))).or_default().push(own);
            offset += run.len();
        }
    }
    match seen.iter().eq(lengths.iter()) {
        true => Ok(()),
        false => Err(StateError::Mismatch {
            part: GROUPS.into(),
            expected: format!("groups of {} parts", lengths.len()),
            found: "others".into(),
        }),
    }
}

fn misfit(expected: usize, found: usize) -> StateError {
    StateError::Mismatch { part: GROUPS.into(), expected: expected.to_string(), found: found.to_string() }
}

#[cfg(test)]
mod tests;
