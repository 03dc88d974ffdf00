//! Members of a view against each with a source and a calc of its own, as they join and leave and rows make some of them
//! fail. Cannot catch: when members are handed what is held for them, which is the runtime's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::expressions::{binary, col, lit};
use laxity_graph::ProcessingTime;
use proptest::prelude::*;

use super::*;
use crate::shared_source::{Gets, SharedSource, SharedSourceSpec, Way, Ways};
use crate::{Calc, CalcSpec, Chain, Emitted, Operator, Outbox, SourceOperator};

fn field(name: &str) -> Field {
    match name {
        "t" => Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        _ => Field::new(name, DataType::Int64, false),
    }
}

/// A source that reads these columns of the table, whose columns are `a`, `b` and `t`; the watermark is the time.
fn source(columns: &[&str]) -> SourceSpec {
    let schema: SchemaRef = Arc::new(Schema::new(columns.iter().map(|name| field(name)).collect::<Vec<_>>()));
    SourceSpec {
        name: "Source".into(),
        columns: (0..columns.len()).map(SourceColumn::Physical).collect(),
        watermark: Some(WatermarkSpec {
            time_column: schema.index_of("t").unwrap(),
            expression: col("t", &schema).unwrap(),
            max_ahead_ms: None,
            split_column: None,
        }),
        output_schema: schema,
        processing_origin_ms: 0,
    }
}

/// What is computed on the way, and what is selected in the end, of rows whose `b` is positive.
type Query = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// Columns read, computed first, and selected. `/` stands for 100 by the column: what was computed before is not computed
/// again, as a planner has it.
const QUERIES: [Query; 7] = [
    (&["b", "t"], &[], &["t", "b"]),
    (&["a", "b", "t"], &[], &["a+b", "t"]),
    (&["a", "b", "t"], &[], &["t", "/a"]),
    (&["a", "b", "t"], &[], &["b", "/a", "a+b"]),
    (&["b", "t"], &[], &["b"]),
    // Fails for rows that the filter would drop, as it is computed before.
    (&["a", "b", "t"], &["/a", "b", "t"], &["/a+b", "t"]),
    (&["a", "b", "t"], &["a+b", "b", "t"], &["a+b+b", "/b"]),
];

fn expr(text: &str, schema: &SchemaRef) -> Arc<dyn PhysicalExpr> {
    if let Ok(column) = col(text, schema) {
        return column;
    }
    let over = |left, op, right| binary(left, op, right, schema).unwrap();
    match (text.rsplit_once('+'), text.strip_prefix('/')) {
        (Some((left, right)), _) => over(expr(left, schema), BinaryOperator::Plus, expr(right, schema)),
        (None, Some(divisor)) => over(lit(100_i64), BinaryOperator::Divide, expr(divisor, schema)),
        (None, None) => panic!("{text}"),
    }
}

fn calc(input: &SchemaRef, predicate: Option<&str>, selected: &[&str]) -> CalcSpec {
    let is_positive = |text| binary(expr(text, input), BinaryOperator::Gt, lit(0_i64), input).unwrap();
    CalcSpec {
        name: "Calc".into(),
        input_schema: Arc::clone(input),
        predicate: predicate.map(is_positive),
        projection: selected.iter().map(|text| (expr(text, input), (*text).to_owned())).collect(),
        output_schema: None,
    }
}

fn calcs((columns, first, selected): Query) -> (SourceSpec, Vec<CalcSpec>) {
    let source = source(columns);
    let mut calcs = Vec::new();
    let mut schema = Arc::clone(&source.output_schema);
    if !first.is_empty() {
        calcs.push(calc(&schema, None, first));
        schema = calcs[0].output_schema().unwrap();
    }
    calcs.push(calc(&schema, Some("b"), selected));
    (source, calcs)
}

fn places(columns: &[&str]) -> Vec<usize> {
    let place = |name: &&str| ["a", "b", "t"].iter().position(|of_table| of_table == name).unwrap();
    columns.iter().map(place).collect()
}

fn of_calcs(source: &SourceSpec, calcs: &[CalcSpec]) -> Option<SharedSourceSpec> {
    let columns: Vec<&str> =
        source.output_schema.fields().iter().map(|field| field.name().as_str()).collect();
    let view = ViewSpec::new(source, calcs, &places(&columns), None).unwrap()?;
    assert_eq!(view.calcs(), calcs.len());
    let gets = Gets::View(Arc::new(view));
    Some(SharedSourceSpec { source: source.clone(), gets, template: None, constants: None })
}

fn gets(query: usize) -> SharedSourceSpec {
    let (source, calcs) = calcs(QUERIES[query]);
    of_calcs(&source, &calcs).unwrap()
}

fn batch(rows: &[(i64, i64, Option<i64>)]) -> StreamBatch {
    let a: Int64Array = rows.iter().map(|row| Some(row.0)).collect();
    let b: Int64Array = rows.iter().map(|row| Some(row.1)).collect();
    let t: TimestampMillisecondArray = rows.iter().map(|row| row.2).collect();
    let schema = Schema::new(vec![field("a"), field("b"), field("t")]);
    let columns: Vec<ArrayRef> = vec![Arc::new(a), Arc::new(b), Arc::new(t)];
    StreamBatch::on_time(RecordBatch::try_new(Arc::new(schema), columns).unwrap())
}

/// A query that reads alone.
struct Own {
    places: Vec<usize>,
    source: SourceOperator,
    chain: Chain,
}

impl Own {
    fn new(query: usize) -> Own {
        let (source, calcs) = calcs(QUERIES[query]);
        let links = calcs.iter().map(|calc| Box::new(Calc::new(calc).unwrap()) as Box<dyn Operator>);
        Own {
            places: places(QUERIES[query].0),
            source: SourceOperator::new(&source).unwrap(),
            chain: Chain::new(links.collect()),
        }
    }

    fn take(&mut self, batch: &StreamBatch) -> Result<Vec<Vec<Option<i64>>>, String> {
        let mut out = Outbox::default();
        let rows = StreamBatch::on_time(batch.rows.project(&self.places).unwrap());
        let _ = self.source.on_batch(0, rows, ProcessingTime::ZERO, &mut out).unwrap();
        let mut rows = Vec::new();
        for emitted in out.emitted {
            let Emitted::Batch { batch, .. } = emitted else { continue };
            let mut out = Outbox::default();
            let _ =
                self.chain.on_batch(0, batch, ProcessingTime::ZERO, &mut out).map_err(|e| e.to_string())?;
            for emitted in out.emitted {
                if let Emitted::Batch { batch, .. } = emitted {
                    rows.extend(rows_of(&batch));
                }
            }
        }
        Ok(rows)
    }
}

/// Rows, and behind each the watermark before it where it is late by that.
fn rows_of(batch: &StreamBatch) -> Vec<Vec<Option<i64>>> {
    let columns: Vec<ArrayRef> = batch
        .rows
        .columns()
        .iter()
        .map(|column| arrow::compute::cast(column, &DataType::Int64).unwrap())
        .collect();
    let row = |row: usize| {
        let values = columns.iter().map(|column| {
            let column = column.as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        });
        values.collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

proptest! {
    #[test]
    fn members_of_a_view_get_what_each_has_alone(
        batches in prop::collection::vec(
            prop::collection::vec(
                (prop::sample::select(vec![0_i64, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]), -1..3_i64,
                 prop::option::weighted(0.9, 0..60_i64)), 0..6),
            1..12),
        comings in prop::collection::vec((0..12_usize, 0..QUERIES.len(), any::<bool>()), 0..12),
        fork_at in 0..12_usize,
    ) {
        let mut shared = SharedSource::new(&gets(0)).unwrap();
        shared.join(0, &gets(0).gets);
        let mut own: Vec<(u32, usize, Own)> = vec![(0, 0, Own::new(0))];
        let mut next = 1;
        for (number, rows) in batches.iter().enumerate() {
            for (_, query, joins) in comings.iter().filter(|(at, ..)| *at == number) {
                prop_assert!(shared.serves(&gets(*query)));
                if *joins {
                    shared.join(next, &gets(*query).gets);
                    let mut alone = Own::new(*query);
                    // Those who come later follow the watermark that there is.
                    alone.source.restore(shared.save().unwrap()).unwrap();
                    own.push((next, *query, alone));
                    next += 1;
                } else if own.len() > 1 {
                    let (member, query, _) = own.remove(0);
                    shared.leave(member, &gets(query).gets);
                }
            }
            if number == fork_at {
                shared = shared.fork().unwrap();
                own.iter().for_each(|(member, query, _)| shared.join(*member, &gets(*query).gets));
            }
            let rows = batch(rows);
            let filled = shared.fill(rows.clone(), ProcessingTime::ZERO, &mut Vec::new()).unwrap();
            let failed = shared.take_failed();
            let mut chosen = Vec::new();
            shared.choose(&filled.batch, &mut chosen);
            let mut left = Vec::new();
            for (member, query, mut alone) in own {
                prop_assert!(alone.source.watermark() <= filled.watermark);
                let expected = alone.take(&rows);
                let fault = failed.iter().find(|(of, _)| *of == member).map(|(_, error)| error.to_string());
                prop_assert_eq!(&fault, &expected.clone().err());
                if let Some(_fault) = fault {
                    shared.leave(member, &gets(query).gets);
                    continue;
                }
                prop_assert_eq!(filled.watermark, alone.source.watermark());
                let is_chosen = chosen.contains(&(member, SharedSource::EVERY_ROW));
                let got = match is_chosen {
                    true => rows_of(&shared.of_member(member, &filled.batch).unwrap().unwrap()),
                    false => Vec::new(),
                };
                prop_assert_eq!(got, expected.unwrap());
                left.push((member, query, alone));
            }
            own = left;
        }
    }
}

#[test]
fn a_view_has_one_filter_and_any_columns() {
    let shared = SharedSource::new(&gets(0)).unwrap();
    assert!((0..QUERIES.len()).all(|query| shared.serves(&gets(query))));
    let source = source(&["a", "b", "t"]);
    let other = |predicate| of_calcs(&source, &[calc(&source.output_schema, predicate, &["a"])]);
    assert!(shared.serves(&other(Some("b")).unwrap()));
    assert!(!shared.serves(&other(Some("a")).unwrap()));
    // Nothing is done for it.
    assert!(other(None).is_none());
}

#[test]
fn what_two_compute_is_computed_once() {
    let specs: Vec<SharedSourceSpec> = [0, 1, 2].map(gets).to_vec();
    let ways = |specs: &[SharedSourceSpec]| {
        let all: Vec<Ways<'_>> =
            specs.iter().map(|spec| Ways { columns: &[0], rows: None, view: spec.view() }).collect();
        Way::of_all(&all, 4)
    };
    assert_eq!(ways(&specs), [Way::View; 3]);
    assert_eq!(ways(&specs[..1]), [Way::Alone]);
    // Without a filter it takes an expression that both have, or a part of one.
    let source = source(&["a", "b", "t"]);
    let of = |selected| of_calcs(&source, &[calc(&source.output_schema, None, &[selected])]).unwrap();
    assert_eq!(ways(&[of("a+b"), of("/a"), of("a+b")]), [Way::View, Way::Alone, Way::View]);
    assert_eq!(ways(&[of("a+b+b"), of("/a"), of("a+b")]), [Way::View, Way::Alone, Way::View]);
}
