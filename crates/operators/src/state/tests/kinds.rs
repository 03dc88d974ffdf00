//! A stage of every kind, over one schema, and rows for them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int32Type, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::{AggregateUDF, Operator as BinaryOperator};
use datafusion_functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::median::median_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion_functions_aggregate::string_agg::string_agg_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{Column, binary, col, lit};
use laxity_functions::{FIRST_OVER, LAST_OVER, gathered};
use laxity_graph::RowErrors;

use crate::approximate::{Aggregate, Promise, Rule, SamplerSpec};
use crate::{
    AggregateCall, CalcSpec, Chain, CurrentWatermarkSpec, FailingRows, IntervalJoinInput, IntervalJoinSpec,
    JoinKind, KeepWatermarks, OperatorFactory, OverAggregateSpec, OverFrame, RankOrder, RankTies,
    SessionExpandSpec, SortSpec, SourceColumn, SourceSpec, Union, UnnestSpec, WatermarkSpec,
    WindowAggregateSpec, WindowExpandSpec, WindowInput, WindowJoinInput, WindowJoinSpec, WindowKind,
    WindowRankSpec,
};

/// A stage, and how it is driven.
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) factory: OperatorFactory,
    /// Stages of one shape may take each other's state.
    pub(super) shape: &'static str,
    /// Finds watermarks itself, and is told of none but the end.
    pub(super) is_source: bool,
    inputs: usize,
}

/// A row. Only a source takes one without a time.
#[derive(Clone, Debug)]
pub(super) struct Row {
    key: Option<i64>,
    value: Option<i64>,
    number: Option<f64>,
    pub(super) time: Option<i64>,
    side: usize,
    part: Vec<i32>,
}

impl Row {
    /// The `at`th of rows that are 2 ms apart, so far behind; some are `odd`.
    pub(super) fn new(at: usize, key: i64, value: i64, behind: i64, odd: u32, side: usize) -> Row {
        let ahead = if odd == 39 { 1_000 } else { 0 };
        Row {
            key: (odd != 1).then_some(key),
            value: (odd != 2).then_some(value),
            number: (odd != 3).then(|| f64::from(odd) / 7.0 - value as f64 * 0.3),
            time: (odd != 4).then_some(at as i64 * 2 - behind + ahead),
            side,
            part: if at.is_multiple_of(9) { vec![side as i32, 0, 1] } else { vec![side as i32] },
        }
    }
}

impl Kind {
    pub(super) fn input_of(&self, row: &Row) -> usize {
        row.side % self.inputs
    }
}

const WIDTH: usize = 9;
const TIME: usize = 5;
const START: usize = 6;
const END: usize = 7;
const PART: usize = 8;

fn schema() -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    let fields: [(&str, DataType); WIDTH] = [
        ("k", DataType::Int64),
        ("s", DataType::Utf8),
        ("v", DataType::Int64),
        ("f", DataType::Float64),
        ("d", DataType::Decimal128(10, 2)),
        ("time", timestamp.clone()),
        ("start", timestamp.clone()),
        ("end", timestamp),
        ("part", DataType::new_list(DataType::Int32, true)),
    ];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

/// Rows in tumbling windows of 10 ms.
pub(super) fn batch(rows: &[Row]) -> RecordBatch {
    let times = |of: fn(i64) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row.time.map(of)).collect::<TimestampMillisecondArray>())
    };
    let decimals = rows.iter().map(|row| row.value.map(|v| i128::from(v) * 101));
    let decimals = decimals.collect::<Decimal128Array>().with_precision_and_scale(10, 2).unwrap();
    let parts = rows.iter().map(|row| Some(row.part.iter().map(|&part| Some(part)).collect::<Vec<_>>()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.value.map(|v| format!("s{v}"))).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.value).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.number).collect::<Float64Array>()),
        Arc::new(decimals),
        times(|time| time),
        times(|time| time.div_euclid(10) * 10),
        times(|time| time.div_euclid(10) * 10 + 10),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(parts)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn column(name: &str) -> Arc<dyn PhysicalExpr> {
    col(name, &schema()).unwrap()
}

fn call(
    function: Arc<AggregateUDF>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    is_distinct: bool,
) -> AggregateCall {
    let name = format!("{}({})", function.name(), arguments[0]);
    let builder = AggregateExprBuilder::new(function, arguments).schema(schema()).alias(name);
    AggregateCall { expr: Arc::new(builder.with_distinct(is_distinct).build().unwrap()), filter: None }
}

/// Functions that our own accumulators compute, and others.
fn calls() -> Vec<AggregateCall> {
    let of = |function: Arc<AggregateUDF>, name: &str| call(function, vec![column(name)], false);
    let mut calls = vec![call(count_udaf(), vec![lit(1i64)], false), of(count_udaf(), "s")];
    calls.extend(["v", "f", "d"].map(|name| of(sum_udaf(), name)));
    calls.extend(["f", "d"].map(|name| of(avg_udaf(), name)));
    calls.extend(["v", "s", "f", "d", "time"].map(|name| of(min_udaf(), name)));
    calls.extend(["v", "s", "f", "d", "time"].map(|name| of(max_udaf(), name)));
    calls.extend([var_pop_udaf(), var_samp_udaf(), stddev_pop_udaf(), stddev_udaf()].map(|f| of(f, "f")));
    calls.extend(["v", "s"].map(|name| call(count_udaf(), vec![column(name)], true)));
    calls.push(call(sum_udaf(), vec![column("d")], true));
    calls.push(of(approx_distinct_udaf(), "s"));
    calls.push(of(median_udaf(), "f"));
    calls.push(of(array_agg_udaf(), "s"));
    calls.push(call(string_agg_udaf(), vec![column("s"), lit(", ")], false));
    calls
}

fn filtered(calls: Vec<AggregateCall>) -> Vec<AggregateCall> {
    let is_large = binary(column("v"), BinaryOperator::Gt, lit(1i64), &schema()).unwrap();
    calls.into_iter().map(|call| AggregateCall { filter: Some(Arc::clone(&is_large)), ..call }).collect()
}

/// Those that need no evaluation: few rows take the shortest way.
fn plain() -> Vec<AggregateCall> {
    vec![
        call(count_udaf(), vec![lit(1i64)], false),
        call(sum_udaf(), vec![column("f")], false),
        call(stddev_udaf(), vec![column("f")], false),
    ]
}

fn windowed(
    window: Option<WindowKind>,
    keys: &[usize],
    aggregates: Vec<AggregateCall>,
    allowed_lateness_ms: i64,
) -> OperatorFactory {
    let windows = match window {
        Some(window) => WindowInput::Assign { time_column: TIME, window, processing_time: false },
        None => WindowInput::Attached { start_column: START, end_column: END },
    };
    let name = "WindowAggregate".into();
    let (input_schema, keys) = (schema(), keys.to_vec());
    WindowAggregateSpec { name, input_schema, windows, keys, aggregates, allowed_lateness_ms }.factory()
}

fn source(watermark: Option<WatermarkSpec>) -> OperatorFactory {
    SourceSpec {
        name: "Source".into(),
        columns: (0..WIDTH).map(SourceColumn::Physical).collect(),
        output_schema: schema(),
        watermark,
        processing_origin_ms: 0,
    }
    .factory()
}

fn watermark(max_ahead_ms: Option<i64>, split_column: Option<usize>) -> WatermarkSpec {
    let delay = lit(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, 8_000_000))));
    let expression = binary(column("time"), BinaryOperator::Minus, delay, &schema()).unwrap();
    WatermarkSpec { time_column: TIME, expression, max_ahead_ms, split_column }
}

fn over(frame: OverFrame, keys: &[usize], processing_time: bool) -> OperatorFactory {
    let (name, input_schema, keys) = ("Over".into(), schema(), keys.to_vec());
    let ends = [(FIRST_OVER, "s"), (FIRST_OVER, "v"), (LAST_OVER, "s"), (LAST_OVER, "d")];
    let end = |(name, of): (&str, &str)| call(gathered(name).unwrap(), vec![column(of)], false);
    let aggregates = calls().into_iter().chain(ends.map(end)).collect();
    OverAggregateSpec { name, input_schema, keys, time: TIME, processing_time, frame, aggregates }.factory()
}

/// What a pair must fulfil over both sides' columns.
fn condition() -> Arc<dyn PhysicalExpr> {
    let fields = schema().fields().iter().chain(schema().fields().iter()).cloned().collect::<Vec<_>>();
    let (left, right) = (Arc::new(Column::new("v", 2)), Arc::new(Column::new("v", WIDTH + 2)));
    binary(left, BinaryOperator::LtEq, right, &Schema::new(fields)).unwrap()
}

fn window_join(kind: JoinKind, keys: &[usize], condition: Option<Arc<dyn PhysicalExpr>>) -> OperatorFactory {
    let input =
        || WindowJoinInput { schema: schema(), window_start: START, window_end: END, keys: keys.to_vec() };
    WindowJoinSpec {
        name: "WindowJoin".into(),
        kind,
        left: input(),
        right: input(),
        condition,
        row_errors: RowErrors::Fail,
    }
    .factory()
}

fn interval_join(
    kind: JoinKind,
    keys: &[usize],
    condition: Option<Arc<dyn PhysicalExpr>>,
) -> OperatorFactory {
    let input = || IntervalJoinInput { schema: schema(), time: TIME, keys: keys.to_vec() };
    IntervalJoinSpec {
        name: "IntervalJoin".into(),
        kind,
        left: input(),
        right: input(),
        lower_ms: -6,
        upper_ms: 4,
        condition,
        row_errors: RowErrors::Fail,
    }
    .factory()
}

fn rank(from: u64, to: u64, ties: RankTies, keys: &[usize]) -> OperatorFactory {
    WindowRankSpec {
        name: "WindowRank".into(),
        input_schema: schema().project(&[0, 1, 2, 3, 4, TIME, START, END]).map(Arc::new).unwrap(),
        window_start: START,
        window_end: END,
        keys: keys.to_vec(),
        order_by: vec![RankOrder { column: 2, descending: true, nulls_first: false }],
        from,
        to,
        ties,
        rank_column: None,
    }
    .factory()
}

/// All columns but the last.
fn narrowed() -> OperatorFactory {
    let fields = schema().fields().clone();
    let columns = fields.iter().take(PART).map(|field| (column(field.name()), field.name().clone()));
    CalcSpec {
        name: "Calc".into(),
        input_schema: schema(),
        predicate: None,
        projection: columns.collect(),
        output_schema: None,
    }
    .factory()
}

fn ranked(from: u64, to: u64, ties: RankTies, keys: &[usize]) -> OperatorFactory {
    Chain::factory(vec![narrowed(), rank(from, to, ties, keys)])
}

fn sort(order: Vec<(usize, SortOptions)>, skip: usize, fetch: Option<usize>) -> OperatorFactory {
    SortSpec { name: "Sort".into(), input_schema: schema(), order, skip, fetch }.factory()
}

fn large_values() -> CalcSpec {
    let predicate = binary(column("v"), BinaryOperator::Gt, lit(0i64), &schema()).unwrap();
    CalcSpec::filter("Calc", schema(), predicate)
}

fn unnest() -> OperatorFactory {
    UnnestSpec {
        name: "Unnest".into(),
        input_schema: schema(),
        column: PART,
        kept: vec![0, 2, TIME],
        with_ordinality: true,
        keeps_empty: true,
    }
    .factory()
}

fn expand(window: WindowKind, processing_time: bool) -> OperatorFactory {
    let (name, input_schema) = ("Expand".into(), schema());
    WindowExpandSpec { name, input_schema, time: TIME, processing_time, window }.factory()
}

fn session_expand(keys: &[usize], processing_time: bool) -> OperatorFactory {
    let (name, input_schema, keys) = ("SessionExpand".into(), schema(), keys.to_vec());
    SessionExpandSpec { name, input_schema, time: TIME, processing_time, keys, gap_ms: 5 }.factory()
}

fn sampler() -> OperatorFactory {
    let promise = Promise { error: 0.05, confidence: 0.95 };
    SamplerSpec {
        distinct: vec![],
        name: "Sample".into(),
        input_schema: schema(),
        time_column: TIME,
        window: WindowKind::Tumble { size_ms: 10, offset_ms: 0 },
        keys: vec![0],
        beside: None,
        values: vec![column("f")],
        required: None,
        aggregates: vec![Aggregate::Sum(0)],
        asked: promise,
        promise,
        rule: Rule::Aion,
        only_behind: false,
        puts_aside: false,
        verifies: false,
        seed: 1,
        processing_origin_ms: 0,
    }
    .factory()
}

/// One or more of each.
pub(super) fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    let mut add = |name: &str, shape, inputs, factory| {
        kinds.push(Kind { name: name.into(), factory, shape, is_source: false, inputs });
    };
    windows(&mut add);
    rows(&mut add);
    joins(&mut add);
    sources(&mut |name: &str, shape, inputs, factory| {
        kinds.push(Kind { name: name.into(), factory, shape, is_source: true, inputs });
    });
    kinds
}

type Add<'a> = &'a mut dyn FnMut(&str, &'static str, usize, OperatorFactory);

fn sources(add: Add<'_>) {
    let (plain_source, watermarks) = (source(None), watermark(None, None));
    let watermarked = || source(Some(watermarks.clone()));
    add("source", "source", 1, plain_source);
    add("source with watermark", "watermarked source", 1, watermarked());
    add("source that refuses rows ahead", "watermarked source", 1, source(Some(watermark(Some(20), None))));
    add("source in parts", "source in parts", 1, source(Some(watermark(None, Some(PART)))));
    let kept = KeepWatermarks { name: "Kept".into(), watermark: watermarks.clone() }.factory();
    let current = CurrentWatermarkSpec {
        name: "Current".into(),
        input_schema: schema(),
        data_type: DataType::Timestamp(TimeUnit::Millisecond, None),
    };
    let current = Chain::factory(vec![watermarked(), kept, current.factory()]);
    add("current watermark", "current watermark", 1, current);
    let tumble = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
    let large = FailingRows::factory(large_values().factory());
    let links = vec![watermarked(), large, windowed(Some(tumble), &[0], calls(), 0)];
    add("chain", "chain", 1, Chain::factory(links));
    let links = vec![watermarked(), narrowed(), rank(1, 2, RankTies::Columns, &[0])];
    add("chain that samples", "chain that samples", 1, Chain::factory(vec![watermarked(), sampler()]));
    add("chain that ranks", "chain that ranks", 1, Chain::factory(links));
}

fn windows(add: Add<'_>) {
    let tumble = WindowKind::Tumble { size_ms: 10, offset_ms: 3 };
    let hop = WindowKind::Hop { size_ms: 12, slide_ms: 4, offset_ms: 0 };
    let long = WindowKind::Hop { size_ms: 48, slide_ms: 2, offset_ms: 1 };
    let cumulate = WindowKind::Cumulate { max_ms: 20, step_ms: 5, offset_ms: 0 };
    let session = WindowKind::Session { gap_ms: 5 };
    add("tumble", "by k", 1, windowed(Some(tumble), &[0], calls(), 0));
    add("tumble of all", "by nothing", 1, windowed(Some(tumble), &[], calls(), 0));
    add("tumble by DECIMAL and BIGINT", "by d and k", 1, windowed(Some(tumble), &[4, 0], calls(), 0));
    add("tumble, allowed lateness", "by k", 1, windowed(Some(tumble), &[0], calls(), 9));
    add("tumble, plain", "plain by s and f", 1, windowed(Some(tumble), &[1, 3], plain(), 0));
    add("tumble, filtered", "by s", 1, windowed(Some(tumble), &[1], filtered(calls()), 0));
    add("hop", "by k", 1, windowed(Some(hop), &[0], calls(), 0));
    add("hop, allowed lateness", "by s", 1, windowed(Some(hop), &[1], calls(), 15));
    add("hop of many slices", "by k", 1, windowed(Some(long), &[0], calls(), 0));
    add("hop of many slices, plain", "plain by nothing", 1, windowed(Some(long), &[], plain(), 0));
    add("cumulate", "by k", 1, windowed(Some(cumulate), &[0], calls(), 0));
    add("attached", "by k", 1, windowed(None, &[0], calls(), 0));
    add("attached, allowed lateness", "by k", 1, windowed(None, &[0], calls(), 12));
    add("keys alone", "keys alone", 1, windowed(Some(tumble), &[0], vec![], 0));
    add("neither keys nor functions", "nothing", 1, windowed(Some(tumble), &[], vec![], 0));
    add("session", "session by k", 1, windowed(Some(session), &[0], calls(), 0));
    add("session of all", "session", 1, windowed(Some(session), &[], calls(), 0));
    add("session, allowed lateness", "session by k", 1, windowed(Some(session), &[0], calls(), 11));
    add("session, filtered", "session by s and k", 1, windowed(Some(session), &[1, 0], filtered(calls()), 0));
}

fn rows(add: Add<'_>) {
    let bounded_rows = OverFrame::Rows { preceding: Some(3) };
    let bounded_range = OverFrame::Range { preceding_ms: Some(9) };
    let (all_rows, all_range) =
        (OverFrame::Rows { preceding: None }, OverFrame::Range { preceding_ms: None });
    add("over rows", "over bounded by k", 1, over(bounded_rows, &[0], false));
    add("over range", "over bounded by k", 1, over(bounded_range, &[0], false));
    add("over range of all", "over bounded", 1, over(bounded_range, &[], false));
    add("over all rows", "over by k and s", 1, over(all_rows, &[0, 1], false));
    add("over all of the range", "over by k", 1, over(all_range, &[0], false));
    add("over rows as they come", "over bounded", 1, over(bounded_rows, &[], true));
    add("over range as it comes", "over bounded by k", 1, over(bounded_range, &[0], true));
    add("over all as they come", "over by k", 1, over(all_range, &[0], true));
    let cumulate = WindowKind::Cumulate { max_ms: 20, step_ms: 5, offset_ms: 0 };
    add("expand", "expand", 1, expand(cumulate, false));
    add("expand on the clock", "expand", 1, expand(cumulate, true));
    add("session expand", "session expand", 1, session_expand(&[0], false));
    add("session expand of all", "session expand", 1, session_expand(&[], false));
    add("session expand on the clock", "session expand", 1, session_expand(&[1], true));
    add("first row", "rank by arrival", 1, ranked(1, 1, RankTies::FirstArrival, &[0]));
    add("last row", "rank by arrival", 1, ranked(1, 1, RankTies::LastArrival, &[0]));
    add("top 2 to 3", "rank by arrival", 1, ranked(2, 3, RankTies::LastArrival, &[]));
    add("top 3", "rank by columns", 1, ranked(1, 3, RankTies::Columns, &[1]));
    let by_value = vec![(2, SortOptions { descending: true, nulls_first: false })];
    add("sort", "sort", 1, sort(by_value.clone(), 0, None));
    add("sort, limited", "sort", 1, sort(by_value, 3, Some(20)));
    add("limit", "sort", 1, sort(vec![], 3, Some(20)));
    add("calc", "nothing held", 1, large_values().factory());
    add("failing rows", "nothing held", 1, FailingRows::factory(large_values().factory()));
    add("unnest", "nothing held", 1, unnest());
    add("union", "nothing held", 2, Union::factory(schema()));
}

fn joins(add: Add<'_>) {
    use JoinKind::{Anti, Full, Inner, Left, Right, Semi};
    for kind in [Inner, Left, Right, Full, Semi, Anti] {
        add(&format!("window join, {kind}"), "window join", 2, window_join(kind, &[0], None));
        let name = format!("window join with condition, {kind}");
        add(&name, "window join", 2, window_join(kind, &[1], Some(condition())));
    }
    for kind in [Inner, Left, Right, Full] {
        add(&format!("interval join, {kind}"), "interval join", 2, interval_join(kind, &[0], None));
        let name = format!("interval join with condition, {kind}");
        add(&name, "interval join", 2, interval_join(kind, &[], Some(condition())));
    }
}
