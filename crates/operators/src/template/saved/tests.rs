//! The operator of a template put aside, against operators of each member alone: whichever of them a member goes on with,
//! its results are the same to the last bit. Cannot catch: that SQL chains something that holds state around it.

use arrow::array::{Float64Array, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::col;
use laxity_graph::{EventTime, ProcessingTime};
use proptest::prelude::*;

use super::*;
use crate::{
    AggregateCall, Emitted, Flow, InstanceContext, Operator, OperatorFactory, Outbox, StreamBatch,
    WindowAggregateSpec, WindowInput, WindowKind,
};

/// Whose it is, key, value, time.
type Row = (u32, i64, f64, i64);

const CONTEXT: InstanceContext = InstanceContext { instance: 0, parallelism: 1, batch_rows: 3 };

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Float64, false),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]))
}

fn batch(rows: &[Row]) -> StreamBatch {
    let columns_of: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.3)).collect::<TimestampMillisecondArray>()),
    ];
    StreamBatch::on_time(RecordBatch::try_new(columns(), columns_of).unwrap())
}

fn spec(window: WindowKind, schema: SchemaRef, keys: Vec<usize>) -> OperatorFactory {
    let call = |udaf: Arc<AggregateUDF>| {
        let argument = col("v", &schema).unwrap();
        let name = format!("{}(v)", udaf.name());
        let builder = AggregateExprBuilder::new(udaf, vec![argument]).schema(schema.clone()).alias(name);
        AggregateCall { expr: Arc::new(builder.build().unwrap()), filter: None }
    };
    let aggregates = [sum_udaf(), count_udaf(), avg_udaf(), min_udaf(), max_udaf()].map(call).to_vec();
    let windows = WindowInput::Assign { time_column: 2, window, processing_time: false };
    let (name, input_schema) = ("WindowAggregate".into(), schema);
    WindowAggregateSpec { name, input_schema, windows, keys, aggregates, allowed_lateness_ms: 0 }.factory()
}

/// What a member does alone, and what is done for all.
struct Both {
    alone: OperatorFactory,
    template: Template,
}

impl Both {
    fn new(window: WindowKind, by_key: bool) -> Both {
        let keys: Vec<usize> = if by_key { vec![0] } else { vec![] };
        let with_member = Template::with_member(&columns());
        let all_keys = keys.iter().copied().chain([3]).collect();
        let together = spec(window, with_member, all_keys);
        Both {
            template: Template::new(&columns(), together, keys.len()),
            alone: spec(window, columns(), keys),
        }
    }

    fn alone(&self) -> Box<dyn Operator> {
        self.alone.make(&CONTEXT).unwrap()
    }
}

fn call(
    operator: &mut dyn Operator,
    act: impl FnOnce(&mut dyn Operator, &mut Outbox) -> Flow,
) -> Vec<StreamBatch> {
    let mut out = Outbox::default();
    let mut flow = act(operator, &mut out);
    while flow == Flow::More {
        flow = operator.resume(&mut out).unwrap();
    }
    let batches = out.emitted.drain(..).filter_map(|emitted| match emitted {
        Emitted::Batch { batch, .. } => Some(batch),
        Emitted::Watermark(_) => None,
    });
    batches.collect()
}

fn lines(batches: &[StreamBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        let options = FormatOptions::default();
        let columns: Vec<ArrayFormatter<'_>> = batch
            .rows
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        lines.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")
        }));
    }
    // Groups of a window have no order.
    lines.sort();
    lines
}

/// Gives each of these members its rows, then the time; what comes out of each.
fn alone(
    operators: &mut [(u32, Box<dyn Operator>)],
    rows: &[Row],
    watermark: i64,
) -> Vec<(u32, Vec<String>)> {
    let results = operators.iter_mut().map(|(member, operator)| {
        let own: Vec<Row> = rows.iter().copied().filter(|row| row.0 == *member).collect();
        let mut sent = Vec::new();
        if !own.is_empty() {
            sent.extend(call(operator.as_mut(), |operator, out| {
                operator.on_batch(0, batch(&own), ProcessingTime(1), out).unwrap()
            }));
        }
        sent.extend(call(operator.as_mut(), |operator, out| {
            operator.on_watermark(EventTime(watermark), out).unwrap()
        }));
        (*member, lines(&sent))
    });
    results.filter(|(_, lines)| !lines.is_empty()).collect()
}

/// The same by one operator. `seats`: the number of each member there.
fn together(
    template: &Template,
    operator: &mut Box<dyn Operator>,
    seats: &[(u32, u32)],
    rows: &[Row],
    watermark: i64,
) -> Vec<(u32, Vec<String>)> {
    let seat_of = |member: u32| seats.iter().find(|(of, _)| *of == member).map(|(_, seat)| *seat);
    let places = rows.iter().enumerate();
    let pairs: Vec<(u32, u32)> =
        places.filter_map(|(place, row)| Some((seat_of(row.0)?, place as u32))).collect();
    let mut sent = Vec::new();
    if !pairs.is_empty() {
        let input = template.input(&batch(rows), &pairs).unwrap();
        sent.extend(call(operator.as_mut(), |operator, out| {
            operator.on_batch(0, input, ProcessingTime(1), out).unwrap()
        }));
    }
    sent.extend(call(operator.as_mut(), |operator, out| {
        operator.on_watermark(EventTime(watermark), out).unwrap()
    }));
    let mut results: Vec<(u32, Vec<String>)> = Vec::new();
    for (of, batch) in Template::by_member(&sent).unwrap().parts() {
        let member = seats.iter().find(|(_, seat)| *seat == of).unwrap().0;
        results.push((member, lines(&[batch])));
    }
    results.sort();
    results
}

/// Takes the state of a member alone.
fn held(operator: &mut dyn Operator) -> OperatorState {
    Windows::of(operator.save().unwrap()).unwrap().state
}

fn any_window() -> impl Strategy<Value = WindowKind> {
    prop_oneof![
        (5_i64..20).prop_map(|size_ms| WindowKind::Tumble { size_ms, offset_ms: 0 }),
        (1_i64..5, 1_i64..12).prop_map(|(slide_ms, times)| {
            WindowKind::Hop { size_ms: slide_ms * times, slide_ms, offset_ms: 0 }
        }),
        (1_i64..5, 1_i64..12).prop_map(|(step_ms, times)| {
            WindowKind::Cumulate { max_ms: step_ms * times, step_ms, offset_ms: 0 }
        }),
    ]
}

proptest! {
    #[test]
    fn a_member_goes_on_alone_or_with_others_as_if_nothing_had_been(
        window in any_window(),
        by_key in any::<bool>(),
        steps in prop::collection::vec((
            // Whole numbers: sums of others depend in their last bits on the order of parts, as they may.
            prop::collection::vec((0_u32..5, 0_i64..3, (-1_000..1_000).prop_map(f64::from), 0_i64..20), 0..12),
            0_i64..12,
        ), 1..24),
        stop in any::<prop::sample::Index>(),
        stays in prop::collection::vec(any::<bool>(), 5),
    ) {
        let both = Both::new(window, by_key);
        let stop = stop.index(steps.len());
        let mut own: Vec<(u32, Box<dyn Operator>)> = (0..5).map(|member| (member, both.alone())).collect();
        let seats: Vec<(u32, u32)> = (0..5).map(|member| (member, 10 + member)).collect();
        let mut all = both.template.operator().unwrap();
        let (mut watermark, mut at) = (0, 0);
        let mut again: Vec<(u32, Box<dyn Operator>)> = Vec::new();
        let (mut of_some, mut seats_of_some) = (both.template.operator().unwrap(), Vec::new());
        for (number, (rows, ahead)) in steps.iter().enumerate() {
            // Times go on; what is late for a window is so for whoever has it.
            let rows: Vec<Row> = rows.iter().map(|row| (row.0, row.1, row.2, (at + row.3).max(watermark))).collect();
            at += ahead;
            watermark = watermark.max(at);
            let expected = alone(&mut own, &rows, watermark);
            let mut results = together(&both.template, &mut all, &seats, &rows, watermark);
            prop_assert_eq!(&results, &expected);
            if number > stop {
                prop_assert_eq!(&alone(&mut again, &rows, watermark), &expected, "alone");
                results = together(&both.template, &mut of_some, &seats_of_some, &rows, watermark);
                prop_assert_eq!(&results, &expected, "with others");
            }
            if number != stop {
                continue;
            }
            let saved = Template::saved(all.as_mut()).unwrap();
            again = (0..5).map(|member| {
                let mut operator = both.alone();
                let state = saved.of_member(10 + member).unwrap();
                operator.restore(Windows { prefix: String::new(), state }.whole()).unwrap();
                (member, operator)
            }).collect();
            // Some stay; the others had worked alone, and come to them now or before.
            let (stay, come): (Vec<u32>, Vec<u32>) = (0..5).partition(|&member| stays[member as usize]);
            for (who, first) in [(&stay, 3), (&come, 40)] {
                let states = who.iter().map(|&member| {
                    let (_, operator) = &mut own[member as usize];
                    (first + member, held(operator.as_mut()))
                });
                let states: Vec<_> = states.collect();
                let sent = states.iter().all(|(_, state)| {
                    Windows { prefix: String::new(), state: state.clone() }.have_ended_at(watermark)
                });
                prop_assert!(sent, "what has ended was sent");
                seats_of_some.extend(who.iter().map(|&member| (member, first + member)));
                of_some = both.template.with_members(of_some.as_mut(), states).unwrap();
            }
        }
    }
}

#[test]
fn state_of_windows_is_known_whatever_is_chained_around_them() {
    let both = Both::new(WindowKind::Tumble { size_ms: 10, offset_ms: 0 }, true);
    let state = both.alone().save().unwrap();
    let chained = Windows { prefix: "1-".into(), state: state.clone() }.whole();
    assert!(chained.parts.iter().all(|part| part.name.starts_with("1-")));
    assert_eq!(Windows::of(chained.clone()), Some(Windows { prefix: "1-".into(), state }));
    let mut more = chained;
    more.parts.push(StatePart::new("0-rows", more.parts[0].rows.clone()));
    assert_eq!(Windows::of(more), None, "it is not known what that is");
    assert_eq!(Windows::of(OperatorState::default()), None);
}

#[test]
fn state_that_does_not_fit_is_refused() {
    let both = Both::new(WindowKind::Tumble { size_ms: 10, offset_ms: 0 }, true);
    let other = Both::new(WindowKind::Tumble { size_ms: 10, offset_ms: 0 }, false);
    let mut own = [(0, other.alone())];
    alone(&mut own, &[(0, 1, 1.0, 5)], 0);
    let state = held(own[0].1.as_mut());
    let mut operator = both.template.operator().unwrap();
    let refused = both.template.with_members(operator.as_mut(), vec![(1, state)]);
    let why = refused.err().unwrap().to_string();
    assert!(why.contains("groups"), "{why}");
}

/// All that comes out at the end.
fn ended(operator: &mut dyn Operator) -> Vec<String> {
    lines(&call(operator, |operator, out| operator.on_watermark(EventTime::MAX, out).unwrap()))
}

/// Many groups are in tables of their own, in pieces that nobody copies; whoever goes on from them has them all, and who was
/// asked goes on as if it had not been.
#[test]
fn many_groups_are_saved_as_they_lie() {
    let both = Both::new(WindowKind::Tumble { size_ms: 100, offset_ms: 0 }, true);
    // Of two windows, the second of few groups; keys come again.
    let rows = |from: i64, len: i64| -> Vec<Row> {
        let of_first = (from..from + len).map(|k| (1, k, k as f64, 5));
        of_first.chain((0..7).map(|k| (1, k, 0.5, 105))).collect()
    };
    let batches = [rows(0, 9_000), rows(4_000, 9_000), rows(2_000, 14_000), rows(0, 30)];
    let tell = |operator: &mut dyn Operator, rows: &[Row]| {
        let _done = operator.on_batch(0, batch(rows), ProcessingTime(1), &mut Outbox::default()).unwrap();
    };
    let (mut asked, mut twin) = (both.alone(), both.alone());
    let mut states = Vec::new();
    let _empty = asked.save().unwrap();
    for rows in &batches {
        tell(asked.as_mut(), rows);
        tell(twin.as_mut(), rows);
        states.push(asked.save().unwrap());
    }
    let expected = ended(twin.as_mut());
    assert_eq!(expected.len(), 16_000 + 7);
    assert_eq!(ended(asked.as_mut()), expected);
    for (number, state) in states.into_iter().enumerate() {
        let pieces = state.parts.iter().filter(|part| part.name.starts_with("states-")).count();
        assert!(pieces > 1 || number == 0, "{pieces} pieces");
        let state = crate::state::tests::carried(state);
        // Alone, and as one of a template that others are in.
        let mut alone = both.alone();
        alone.restore(state.clone()).unwrap();
        let mut template = both.template.operator().unwrap();
        let others = both.template.input(&batch(&[(9, 3, 1.0, 7)]), &[(9, 0)]).unwrap();
        let _done = template.on_batch(0, others, ProcessingTime(1), &mut Outbox::default()).unwrap();
        let mut template = both.template.with_members(template.as_mut(), vec![(1, state)]).unwrap();
        for rows in &batches[number + 1..] {
            tell(alone.as_mut(), rows);
            let pairs: Vec<(u32, u32)> = (0..rows.len() as u32).map(|row| (1, row)).collect();
            let input = both.template.input(&batch(rows), &pairs).unwrap();
            let _done = template.on_batch(0, input, ProcessingTime(1), &mut Outbox::default()).unwrap();
        }
        let of_member = Template::saved(template.as_mut()).unwrap().of_member(1).unwrap();
        let mut again = both.alone();
        again.restore(crate::state::tests::carried(of_member)).unwrap();
        assert_eq!(ended(alone.as_mut()), expected);
        assert_eq!(ended(again.as_mut()), expected);
        assert_eq!(ended(template.as_mut()).len(), expected.len() + 1);
    }
}

/// Keys that were there are not written again, nor is what groups hold that no row came to.
#[test]
fn groups_that_no_row_came_to_are_the_same_tables() {
    let both = Both::new(WindowKind::Tumble { size_ms: 100, offset_ms: 0 }, true);
    let mut operator = both.alone();
    let mut after = |keys: std::ops::Range<i64>| -> HashMap<String, Vec<ArrayRef>> {
        let rows: Vec<Row> = keys.map(|key| (1, key, 1.0, 5)).collect();
        let _done = operator.on_batch(0, batch(&rows), ProcessingTime(1), &mut Outbox::default()).unwrap();
        let parts = operator.save().unwrap().parts.into_iter();
        parts.map(|part| (part.name, part.rows.columns().to_vec())).collect()
    };
    let _first = after(0..50_000);
    // Few rows more, so that all are taken out of the one piece that they were in.
    (0..3).for_each(|_| drop(after(0..1)));
    let before = after(0..1);
    let then = after(9_000..9_010);
    let is_same = |name: &String| {
        let (a, b) = (&before[name], &then[name]);
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
    };
    let changed = |of: &str| before.keys().filter(|name| name.starts_with(of) && !is_same(name)).count();
    let all = |of: &str| before.keys().filter(|name| name.starts_with(of)).count();
    assert_eq!((changed("keys-"), changed("states-")), (0, 1), "of {} and {}", all("keys-"), all("states-"));
    assert!(all("states-") > 10, "{} tables", all("states-"));
    // New keys are in the last ones.
    let before = then;
    let then = after(50_000..50_010);
    let lost: Vec<&String> = before.keys().filter(|name| !then.contains_key(*name)).collect();
    assert_eq!(lost, [""; 0]);
    let changed = before.iter().filter(|(name, columns)| {
        !columns.iter().zip(&then[*name]).all(|(a, b)| Arc::ptr_eq(a, b)) && !name.contains("parts")
    });
    let changed: Vec<&String> = changed.map(|(name, _)| name).collect();
    assert!(changed.len() <= 4, "{changed:?}");
}
