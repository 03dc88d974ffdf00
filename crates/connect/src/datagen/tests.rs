//! Rates, values and options of `datagen`, in virtual time: neither the steps of reading nor a restart may change a
//! row.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMillisecondType};
use laxity_graph::{EventTime, ProcessingTime};
use tempfile::tempdir;

use crate::fixture::{TIMESTAMP, all_columns, lines, table, take_due};
use crate::{Scan, ScanEnvironment, ScanEvent, open_scan, validate_source};

const SECOND: u64 = 1_000_000_000;

fn datagen(columns: &[(&str, DataType)], options: &[(&str, &str)]) -> std::sync::Arc<crate::TableSpec> {
    let mut all = vec![("connector", "datagen")];
    all.extend_from_slice(options);
    table(tempdir().unwrap().path(), columns, &all)
}

fn open(table: &std::sync::Arc<crate::TableSpec>, skip_rows: u64) -> Box<dyn Scan> {
    let env =
        ScanEnvironment { skip_rows, ..ScanEnvironment::new(ProcessingTime(SECOND), EventTime(1_000_000)) };
    open_scan(&all_columns(table), &env).unwrap()
}

#[test]
fn rows_come_at_their_rate() {
    let table = datagen(
        &[("n", DataType::Int64), ("t", TIMESTAMP)],
        &[
            ("rows-per-second", "3"),
            ("fields.n.kind", "sequence"),
            ("fields.n.start", "5"),
            ("fields.n.end", "9"),
        ],
    );
    let mut scan = open(&table, 0);
    assert!(matches!(scan.poll(ProcessingTime(0)).unwrap(), ScanEvent::NotBefore(ProcessingTime(SECOND))));
    // Rows 0, 1 and 2 are due at 0, 333 333 333 and 666 666 666 ns; row 3 after exactly a second.
    let (batches, next) = take_due(scan.as_mut(), ProcessingTime(SECOND + 999_000_000));
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].arrival, ProcessingTime(SECOND + 666_666_666));
    assert_eq!(
        lines(&batches[0].rows),
        ["5|1970-01-01T00:16:40", "6|1970-01-01T00:16:40.333", "7|1970-01-01T00:16:40.666"]
    );
    assert!(matches!(next, ScanEvent::NotBefore(next) if next == ProcessingTime(2 * SECOND)));
    // The sequence has five values.
    let (batches, end) = take_due(scan.as_mut(), ProcessingTime(100 * SECOND));
    assert_eq!(batches[0].rows.num_rows(), 2);
    assert!(matches!(end, ScanEvent::End));
    assert_eq!(scan.progress(), Some(1.0));
}

#[test]
fn values_do_not_depend_on_how_they_are_read() {
    let columns = [
        ("i", DataType::Int32),
        ("s", DataType::Utf8),
        ("d", DataType::Float64),
        ("b", DataType::Boolean),
        ("m", DataType::Decimal128(6, 2)),
        ("t", TIMESTAMP),
    ];
    let options = [
        ("number-of-rows", "1000"),
        ("fields.i.min", "-3"),
        ("fields.i.max", "3"),
        ("fields.i.null-rate", "0.5"),
        ("fields.s.length", "20"),
        ("fields.d.min", "0"),
        ("fields.d.max", "1"),
        ("fields.m.min", "0.5"),
        ("fields.m.max", "1.5"),
        ("fields.t.max-past", "1 s"),
    ];
    let table = datagen(&columns, &options);
    let read = |step_ns: u64, skip: u64| {
        let mut scan = open(&table, skip);
        let mut rows = Vec::new();
        let mut now = SECOND;
        loop {
            now += step_ns;
            let (batches, next) = take_due(scan.as_mut(), ProcessingTime(now));
            rows.extend(batches.iter().flat_map(|batch| lines(&batch.rows)));
            if matches!(next, ScanEvent::End) {
                return rows;
            }
        }
    };
    let all = read(SECOND, 0);
    assert_eq!(all.len(), 1_000);
    assert_eq!(read(7_000_000, 0), all);
    assert_eq!(read(SECOND, 990), all[990..]);
    let mut scan = open(&table, 0);
    let (batches, _) = take_due(scan.as_mut(), ProcessingTime(10 * SECOND));
    let rows = &batches[0].rows;
    let ints = rows.column(0).as_primitive::<Int32Type>();
    assert!((400..600).contains(&ints.null_count()), "{}", ints.null_count());
    let seen: std::collections::BTreeSet<i32> = ints.iter().flatten().collect();
    assert_eq!(seen, (-3..=3).collect());
    assert!(rows.column(1).as_string::<i32>().iter().all(|text| text.unwrap().len() == 20));
    let decimals = rows.column(4).as_primitive::<arrow::datatypes::Decimal128Type>();
    assert!(decimals.values().iter().all(|digits| (50..=150).contains(digits)));
    let times = rows.column(5).as_primitive::<TimestampMillisecondType>();
    assert!(times.values().iter().all(|at| (999_000..=1_000_100).contains(at)));
}

#[test]
fn seeds_differ() {
    let read = |seed| {
        let table =
            datagen(&[("n", DataType::Int64)], &[("number-of-rows", "1"), ("laxity.datagen.seed", seed)]);
        let (batches, _) = take_due(open(&table, 0).as_mut(), ProcessingTime(2 * SECOND));
        batches[0].rows.column(0).as_primitive::<Int64Type>().value(0)
    };
    assert_eq!(read("1"), read("1"));
    assert_ne!(read("1"), read("2"));
}

#[test]
fn options_are_checked() {
    let columns = [("n", DataType::Int8), ("t", TIMESTAMP), ("x!", DataType::Utf8)];
    for (key, value, message) in [
        ("rows-per-second", "0", "'0' is not a whole number from 1 on"),
        ("fields.n.kind", "sequence", "missing; a sequence needs a whole number from -128 to 127"),
        (
            "fields.n.kind",
            "sequenze",
            "'sequenze' is not known, did you mean 'sequence'?; expected 'random' or 'sequence'",
        ),
        ("fields.t.kind", "sequence", "cannot be a sequence"),
        ("fields.n.max", "300", "'300' is not a whole number from -128 to 127"),
        ("fields.n.null-rate", "2", "'2' is not a share from 0 to 1"),
        ("fields.x.null-rate", "0.1", "the column is NOT NULL"),
        ("fields.y.length", "3", "unknown option, did you mean 'fields.x.length'?"),
        ("fields.t.max-past", "long", "'long' is not a duration"),
    ] {
        let error = validate_source(&datagen(&columns, &[(key, value)])).unwrap_err();
        assert!(error.to_string().contains(message), "{key}: {error}");
    }
    let error = validate_source(&datagen(&[("b", DataType::Binary)], &[])).unwrap_err();
    assert!(error.message.contains("datagen cannot make column 'b'"), "{error}");
}

#[test]
fn long_texts_make_short_batches() {
    let options = [("fields.s.length", "300000"), ("rows-per-second", "100000"), ("number-of-rows", "10")];
    let mut scan = open(&datagen(&[("s", DataType::Utf8)], &options), 0);
    let (batches, _) = take_due(scan.as_mut(), ProcessingTime(2 * SECOND));
    assert_eq!(batches.iter().map(|batch| batch.rows.num_rows()).collect::<Vec<_>>(), [3, 3, 3, 1]);
    let endless = datagen(&[("s", DataType::Utf8)], &[("fields.s.length", "3000000000")]);
    let error = validate_source(&endless).unwrap_err();
    assert!(error.message.contains("is not a whole number from 1 to 16777216"), "{error}");
}

#[test]
fn a_restored_table_goes_on_at_once_with_the_rows_it_would_have_had() {
    let table = datagen(
        &[("n", DataType::Int64), ("t", TIMESTAMP)],
        &[
            ("rows-per-second", "3"),
            ("fields.n.kind", "sequence"),
            ("fields.n.start", "5"),
            ("fields.n.end", "30"),
        ],
    );
    let whole = |mut scan: Box<dyn Scan>| {
        let (batches, _) = take_due(scan.as_mut(), ProcessingTime(100 * SECOND));
        batches.iter().flat_map(|batch| lines(&batch.rows)).collect::<Vec<_>>()
    };
    let undisturbed = whole(open(&table, 0));
    for (rows, skip_rows) in [(7, 7), (7, 10), (26, 26)] {
        let environment = ScanEnvironment {
            skip_rows,
            restored: Some(crate::RestoredScan { rows, dead_rows: 0 }),
            ..ScanEnvironment::new(ProcessingTime(SECOND), EventTime(1_000_000))
        };
        let open = || open_scan(&all_columns(&table), &environment).unwrap();
        assert_eq!(whole(open()), undisturbed[skip_rows as usize..]);
        let (batches, _) = take_due(open().as_mut(), ProcessingTime(SECOND));
        assert_eq!(
            batches.len(),
            usize::from(skip_rows == rows && rows < 26),
            "the first is due at the start"
        );
        let clock = open().event_clock().unwrap();
        assert_eq!(clock.due(EventTime(1_000_000 + 1_000 * rows as i64 / 3)), ProcessingTime(SECOND));
    }
}
