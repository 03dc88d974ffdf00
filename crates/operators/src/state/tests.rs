//! Every operator, stopped and restored again and again, against the same one left alone: rows, their order, late and dead
//! rows and watermarks are equal. State goes through Arrow IPC. What does not fit is refused by name.
//!
//! Does not cover the functions and plans that only SQL makes: the golden files do that (`crates/cli/tests`).

mod crashes;
mod kinds;

use std::collections::BTreeSet;
use std::io::Cursor;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use laxity_graph::{EventTime, ProcessingTime};
use proptest::prelude::*;

use super::*;
use crate::drive::texts;
use crate::{Emitted, Flow, InstanceContext, Operator, OperatorFactory, Outbox, StreamBatch};
use kinds::{Kind, Row, kinds};

/// What an operator is told.
#[derive(Clone, Debug)]
enum Message {
    Batch(usize, StreamBatch),
    Watermark(i64),
}

/// Each part as a file, and read again.
pub(crate) fn carried(state: OperatorState) -> OperatorState {
    let carried = state.whole().unwrap().parts.into_iter().map(|part| {
        let (name, pieces) = part.into_pieces();
        let read = pieces_of(&file_of(&pieces));
        assert_eq!(read, pieces);
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(is_plain), "{name}");
        StatePart::new(name, concat_batches(&pieces[0].schema(), &read).unwrap())
    });
    let parts: Vec<StatePart> = carried.collect();
    let names: BTreeSet<&String> = parts.iter().map(|part| &part.name).collect();
    assert_eq!(names.len(), parts.len(), "names are unique");
    OperatorState::of(parts)
}

fn file_of(pieces: &[RecordBatch]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = FileWriter::try_new(&mut file, &pieces[0].schema()).unwrap();
    pieces.iter().for_each(|rows| writer.write(rows).unwrap());
    writer.finish().unwrap();
    file
}

fn pieces_of(file: &[u8]) -> Vec<RecordBatch> {
    FileReader::try_new(Cursor::new(file), None).unwrap().map(|rows| rows.unwrap()).collect()
}

/// Rows in runs of one input, with the watermark of all before each, `delay` behind the latest time.
fn messages(kind: &Kind, rows: &[Row], delay: i64, lengths: &[usize]) -> Vec<Message> {
    let mut messages = Vec::new();
    let (mut watermark, mut sent) = (i64::MIN, i64::MIN);
    let mut lengths = lengths.iter().copied().cycle();
    let mut rest = rows;
    while !rest.is_empty() {
        let of_one = rest.iter().take_while(|row| kind.input_of(row) == kind.input_of(&rest[0])).count();
        let (now, later) = rest.split_at(lengths.next().unwrap_or(1).min(of_one));
        rest = later;
        let before = now.iter().map(|row| {
            let before = watermark;
            watermark = watermark.max(row.time.unwrap_or(i64::MIN).saturating_sub(delay));
            before
        });
        let before: Vec<i64> = before.collect();
        let rows = kinds::batch(now);
        let batch = match kind.is_source {
            true => StreamBatch::on_time(rows),
            false => StreamBatch { rows, watermark_before: Some(before.into()) },
        };
        messages.push(Message::Batch(kind.input_of(&now[0]), batch));
        if watermark > sent && !kind.is_source {
            sent = watermark;
            messages.push(Message::Watermark(sent));
        }
    }
    messages.push(Message::Watermark(i64::MAX));
    messages
}

/// What came out: results and watermarks, late rows, dead rows, each in order. How rows are cut into batches is not told.
type Answer = [Vec<String>; 3];

/// After message `i` it is saved, and goes on all the same, wherever bit `i mod 64` of `saved_after` is set.
fn answer(factory: &OperatorFactory, messages: &[Message], batch_rows: usize, saved_after: u64) -> Answer {
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows };
    let mut operator = factory.make(&context).unwrap();
    let mut answer = Answer::default();
    for (number, message) in messages.iter().enumerate() {
        tell(operator.as_mut(), message, number, &mut answer);
        if saved_after >> (number % 64) & 1 == 1 {
            operator.save().unwrap();
        }
    }
    answer
}

/// What a message makes it send, resumed so often at most.
fn work(operator: &mut dyn Operator, message: &Message, number: usize, resumes_max: u32) -> Outbox {
    let mut out = Outbox::default();
    let mut flow = match message {
        Message::Batch(input, batch) => {
            operator.on_batch(*input, batch.clone(), ProcessingTime(number as u64), &mut out).unwrap()
        }
        Message::Watermark(watermark) => operator.on_watermark(EventTime(*watermark), &mut out).unwrap(),
    };
    let mut resumes = 0;
    while flow == Flow::More && resumes < resumes_max {
        flow = operator.resume(&mut out).unwrap();
        resumes += 1;
    }
    out
}

fn tell(operator: &mut dyn Operator, message: &Message, number: usize, answer: &mut Answer) {
    let out = work(operator, message, number, u32::MAX);
    for emitted in out.emitted {
        match emitted {
            Emitted::Watermark(EventTime(watermark)) => answer[0].push(format!("watermark {watermark}")),
            Emitted::Batch { batch, window_end, .. } => {
                let end = window_end.map_or(String::new(), |end| format!(" until {}", end.0));
                let before = |row: usize| match batch.watermark_before.as_ref().map(|before| before[row]) {
                    None | Some(i64::MIN) => String::new(),
                    Some(before) => format!(" behind {before}"),
                };
                let rows = texts(&batch.rows).into_iter().enumerate();
                answer[0].extend(rows.map(|(at, row)| format!("{row}{end}{}", before(at))));
            }
        }
    }
    for late in out.late {
        let rows = texts(&late.rows).into_iter().zip(late.window_end.values());
        answer[1].extend(rows.map(|(row, end)| format!("{row} missed {end}")));
    }
    for dead in out.dead {
        answer[2].extend(texts(&dead.rows).into_iter().map(|row| format!("{row}: {}", dead.reason)));
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (0..3i64, 0..6i64, 0..30i64, 0..40u32, 0..2usize);
    proptest::collection::vec(row, 0..70).prop_map(|drawn| {
        let row =
            |(at, (key, value, behind, odd, side)): (usize, _)| Row::new(at, key, value, behind, odd, side);
        drawn.into_iter().enumerate().map(row).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_restored_operator_goes_on_as_the_other_would(
        rows in rows(),
        delay in 0i64..25,
        lengths in proptest::collection::vec(1usize..40, 1..6),
        batch_rows in 1usize..40,
        after in any::<u64>(),
    ) {
        for kind in kinds() {
            let messages = messages(&kind, &rows, delay, &lengths);
            let alone = answer(&kind.factory, &messages, batch_rows, 0);
            let saved = answer(&kind.factory, &messages, batch_rows, after);
            prop_assert_eq!(saved, alone.clone(), "{}, saved", kind.name);
            let restarted = kind.factory.clone().restarted(after, carried);
            let restarted = answer(&restarted, &messages, batch_rows, after.rotate_left(7));
            prop_assert_eq!(restarted, alone, "{}, restarted", kind.name);
        }
    }
}

#[test]
fn sessions_of_a_key_meet_in_the_order_in_which_they_were_made() {
    // At 0, 9, 18 and, between them, at 5 and 14; by 5 ms.
    let row = |(at, behind)| Row::new(at, 1, at as i64, behind, 10, 0);
    let rows: Vec<Row> = [(0, 0), (5, 1), (9, 0), (3, 1), (7, 0)].map(row).to_vec();
    for kind in kinds().into_iter().filter(|kind| kind.name.contains("session")) {
        let messages = messages(&kind, &rows, 1_000, &[1]);
        let alone = answer(&kind.factory, &messages, 16, 0);
        for after in [u64::MAX, 0b100, 0b110] {
            let restarted = kind.factory.clone().restarted(after, carried);
            assert_eq!(answer(&restarted, &messages, 16, 0), alone, "{} after {after:b}", kind.name);
        }
    }
}

/// Rows that reach every corner: disorder, NULLs, rows that are late.
fn sample() -> Vec<Row> {
    let row = |at: usize| {
        Row::new(at, at as i64 % 3, at as i64 * 7 % 5, at as i64 * 11 % 29, at as u32 * 13 % 40, at % 2)
    };
    (0..60).map(row).collect()
}

/// What an operator of that kind holds in the middle of things.
fn held(kind: &Kind) -> OperatorState {
    let messages = messages(kind, &sample(), 12, &[3, 7]);
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 16 };
    let mut operator = kind.factory.make(&context).unwrap();
    let mut unused = Answer::default();
    let half = messages.len() * 2 / 3;
    messages[..half].iter().for_each(|message| tell(operator.as_mut(), message, 0, &mut unused));
    operator.save().unwrap().whole().unwrap()
}

fn restored(kind: &Kind, state: OperatorState) -> Result<()> {
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 16 };
    kind.factory.make(&context).unwrap().restore(state)
}

#[test]
fn state_of_another_stage_is_refused_by_name() {
    let kinds = kinds();
    for one in &kinds {
        let state = held(one);
        restored(one, state.clone()).unwrap();
        for other in kinds.iter().filter(|other| other.shape != one.shape) {
            if state.parts.is_empty() && held(other).parts.is_empty() {
                continue;
            }
            let refused = restored(other, state.clone());
            let Err(StateError::Mismatch { part, expected, found }) = &refused else {
                panic!("{} takes the state of {}: {refused:?}", other.name, one.name);
            };
            assert!(!part.is_empty() && !expected.is_empty() && !found.is_empty(), "{refused:?}");
        }
    }
}

#[test]
fn damaged_state_is_refused() {
    for kind in kinds() {
        let state = held(&kind);
        let damage = |at: usize, how: &dyn Fn(&RecordBatch) -> Option<RecordBatch>| {
            let mut parts = state.parts.clone();
            match how(&parts[at].rows) {
                Some(rows) => parts[at].rows = rows,
                None => drop(parts.remove(at)),
            }
            OperatorState::of(parts)
        };
        for (at, part) in state.parts.iter().enumerate() {
            let is_refused = |how: &str, state: OperatorState| match restored(&kind, state) {
                Err(StateError::Mismatch { .. }) => {}
                other => panic!("{}: {} {how}: {other:?}", kind.name, part.name),
            };
            is_refused("is missing", damage(at, &|_| None));
            is_refused("lacks a column", damage(at, &|rows| Some(without_last_column(rows))));
            if part.rows.num_rows() > 0 {
                is_refused("lacks a row", damage(at, &|rows| Some(rows.slice(0, rows.num_rows() - 1))));
            }
            if part.rows.num_columns() > 0 {
                is_refused("has a column of another type", damage(at, &|rows| Some(with_text_first(rows))));
            }
        }
        let mut more = state.clone();
        more.parts.push(StatePart::new("unheard-of", RecordBatch::new_empty(Arc::new(Schema::empty()))));
        let refused = restored(&kind, more).unwrap_err().to_string();
        assert!(refused.contains("\"unheard-of\" does not fit the query"), "{refused}");
    }
}

fn without_last_column(rows: &RecordBatch) -> RecordBatch {
    let kept: Vec<usize> = (0..rows.num_columns() - 1).collect();
    rows.project(&kept).unwrap()
}

fn with_text_first(rows: &RecordBatch) -> RecordBatch {
    let text: ArrayRef = Arc::new(arrow::array::LargeStringArray::from(vec!["x"; rows.num_rows()]));
    let names = rows.schema();
    let columns = rows.columns().iter().enumerate().map(|(at, column)| {
        (names.field(at).name().clone(), if at == 0 { Arc::clone(&text) } else { Arc::clone(column) })
    });
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

#[test]
fn what_was_ingested_before_says_so() {
    let kind = kinds().into_iter().find(|kind| kind.name == "tumble").unwrap();
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 16 };
    let mut operator = kind.factory.make(&context).unwrap();
    let batch = StreamBatch::on_time(kinds::batch(&sample()[..1]));
    let _done = operator.on_batch(0, batch.clone(), ProcessingTime(5), &mut Outbox::default()).unwrap();
    let state = carried(operator.save().unwrap());
    let ingested = |operator: &mut dyn Operator| {
        let mut out = Outbox::default();
        let _done = operator.on_watermark(EventTime::MAX, &mut out).unwrap();
        out.emitted.iter().find_map(|emitted| match emitted {
            Emitted::Batch { ingested, .. } => *ingested,
            Emitted::Watermark(_) => None,
        })
    };
    assert_eq!(ingested(operator.as_mut()), Some(ProcessingTime(5)));
    let restore = || {
        let mut operator = kind.factory.make(&context).unwrap();
        operator.restore(state.clone()).unwrap();
        operator
    };
    assert_eq!(ingested(restore().as_mut()), Some(ProcessingTime::ZERO));
    let mut operator = restore();
    let _done = operator.on_batch(0, batch, ProcessingTime(3), &mut Outbox::default()).unwrap();
    assert_eq!(ingested(operator.as_mut()), Some(ProcessingTime(3)));
}

#[test]
fn small_pieces_alone_are_copied() {
    let piece = |rows: usize| {
        let column: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(0..rows as i64));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    };
    let (tiny, small, large) = (piece(COPIED_ROWS - 1), piece(COPIED_ROWS), piece(CHUNK_ROWS));
    let pieces = vec![tiny.clone(), tiny.clone(), small.clone(), tiny.clone(), large.clone(), small.clone()];
    let expected: usize = pieces.iter().map(RecordBatch::num_rows).sum();
    let mut state = OperatorState::default().with_pieces("rows", pieces).unwrap();
    let parts = state.parts.iter().map(|part| part.clone().into_pieces().1);
    let parts: Vec<Vec<RecordBatch>> = parts.collect();
    let two = concat_batches(&tiny.schema(), [&tiny, &tiny]).unwrap();
    assert_eq!(parts, [vec![two, small.clone(), tiny], vec![large.clone()], vec![small.clone()]]);
    let address = |rows: &RecordBatch| rows.column(0).to_data().buffers()[0].as_ptr();
    assert_eq!([&parts[0][1], &parts[1][0]].map(address), [&small, &large].map(address));
    assert_eq!(state.take_pieces("rows").iter().map(Part::len).sum::<usize>(), expected);
    state.finish().unwrap();
}

#[test]
fn parts_that_are_made_later_are_the_same_each_time_and_from_anywhere() {
    let rows = |at: usize| {
        let column: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![at as i64; at + 1]));
        RecordBatch::try_from_iter([("n", column)]).map_err(|e| bug("test", e))
    };
    let state =
        OperatorState::default().with_parts_later("rows", 3, rows).renamed(|name| format!("0-{name}"));
    let parts = state.clone().whole().unwrap().parts;
    assert_eq!(
        parts.iter().map(|part| &*part.name).collect::<Vec<_>>(),
        ["0-rows-0", "0-rows-1", "0-rows-2"]
    );
    for from in 0..=3 {
        let rest = state.later[0].from(from).collect::<Result<Vec<_>>>().unwrap();
        assert_eq!(rest, parts[from..]);
    }
    let failing = OperatorState::default().with_parts_later("rows", 2, move |at| match at {
        0 => rows(0),
        _ => Err(bug("test", "no more")),
    });
    assert!(failing.whole().unwrap_err().to_string().contains("no more"));
}

#[test]
fn parts_of_large_groups_do_not_depend_on_what_was_before_them() {
    let piece = |first: i64| {
        let column: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(first..first + 3));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    };
    let group = |first: i64, pieces: i64| (0..pieces).map(|at| piece(first + 3 * at)).collect::<Vec<_>>();
    let groups = [group(0, 1), group(100, 1), group(200, 7), group(300, 1), group(400, 5), group(500, 1)];
    let parts = |groups: &[Vec<RecordBatch>]| {
        let state = OperatorState::default().with_groups("rows", groups.to_vec()).unwrap();
        state.parts.into_iter().map(|part| part.into_pieces().1).collect::<Vec<_>>()
    };
    let all = parts(&groups);
    assert_eq!(all.concat(), groups.concat(), "in their order");
    // The first two lie together.
    assert_eq!(all[0].len(), 2);
    for gone in 1..groups.len() {
        let left = parts(&groups[gone..]);
        let is_before = |part: &Vec<RecordBatch>| all.contains(part);
        let others = left.iter().filter(|part| !is_before(part)).count();
        assert!(others <= usize::from(gone == 1), "{gone} are gone: {left:?}");
    }
}

#[test]
fn a_frame_that_lacks_rows_is_refused() {
    let kind = kinds().into_iter().find(|kind| kind.name == "over rows").unwrap();
    let state = held(&kind);
    let at = state.parts.iter().position(|part| part.name == "keys-0").unwrap();
    let rows = &state.parts[at].rows;
    let mut refused = 0;
    for (column, field) in rows.schema().fields().iter().enumerate() {
        let is_of_rows = ["count", "sum", "avg"].iter().any(|function| field.name().starts_with(function));
        let arrow::datatypes::DataType::List(item) = field.data_type() else { continue };
        if !is_of_rows {
            continue;
        }
        let mut columns = rows.columns().to_vec();
        columns[column] =
            lists(std::iter::repeat_n(0, rows.num_rows()), arrow::array::new_empty_array(item.data_type()));
        let mut damaged = state.clone();
        damaged.parts[at].rows = RecordBatch::try_new(rows.schema(), columns).unwrap();
        let error = restored(&kind, damaged).unwrap_err().to_string();
        assert!(error.contains("for each row that counts"), "{}: {error}", field.name());
        refused += 1;
    }
    assert!(refused >= 9, "{refused} lists");
}

/// By part, the first array of it: who writes them knows them by that.
fn tables_of_many(operator: &mut dyn Operator) -> Vec<(String, ArrayRef)> {
    let parts = operator.save().unwrap().parts.into_iter();
    let whole = parts.filter(|part| part.name.starts_with("whole-"));
    whole.map(|part| (part.name, Arc::clone(part.rows.column(0)))).collect()
}

#[test]
fn slices_that_take_no_more_rows_are_in_the_tables_that_they_were_in() {
    for name in ["hop of many slices", "hop of many slices, plain"] {
        let kind = kinds().into_iter().find(|kind| kind.name == name).unwrap();
        let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 16 };
        let mut operator = kind.factory.make(&context).unwrap();
        let rows: Vec<Row> = (0..120).map(|at| Row::new(at, 1, at as i64 % 5, 0, 10, 0)).collect();
        let messages = messages(&kind, &rows, 0, &[1]);
        let mut before: Vec<(String, ArrayRef)> = Vec::new();
        let mut same = 0;
        // Without the last: the end leaves nothing.
        for message in &messages[..messages.len() - 1] {
            tell(operator.as_mut(), message, 0, &mut Answer::default());
            let now = tables_of_many(operator.as_mut());
            let stays = |one: &&(String, ArrayRef)| now.iter().any(|other| Arc::ptr_eq(&one.1, &other.1));
            let staying = before.iter().filter(stays).count();
            // The first slice has left the window: what is left of its table is another.
            assert!(staying + 1 >= before.len(), "{name}: {staying} of {}", before.len());
            same += staying;
            before = now;
        }
        // A window has 24 slices of a group each, and 8 of them fill a table.
        assert!(before.len() >= 3 && same > 150, "{name}: {} tables at the end, {same}", before.len());
    }
}
