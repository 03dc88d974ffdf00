//! The pace is checked in virtual time: polls carry made-up instants.

use arrow::datatypes::DataType;
use laxity_graph::{EventTime, ProcessingTime};
use tempfile::{TempDir, tempdir};

use crate::fixture::{TIMESTAMP, all_columns, file_table, lines, take_due};
use crate::{PIECE_ROWS, Preparation, Scan, ScanEnvironment, ScanEvent, open_scan};

const MS: u64 = 1_000_000;
const START: ProcessingTime = ProcessingTime(5_000 * MS);

fn at(ms: u64) -> ProcessingTime {
    START.plus_ns(ms * MS)
}

struct Replay {
    _folder: TempDir,
    table: std::sync::Arc<crate::TableSpec>,
}

/// Ingestion times at seconds 0, 10, 5 (out of order), none, 20, each with an event time 1 s before and a key.
const TEXT: &str = "\
1970-01-01 00:01:40,1970-01-01 00:01:39,a,1
1970-01-01 00:01:50,1970-01-01 00:01:49,b,2
1970-01-01 00:01:45,1970-01-01 00:01:44,c,3
,1970-01-01 00:01:44,d,4
1970-01-01 00:02:00,1970-01-01 00:01:59,e,5
";

impl Replay {
    fn new(text: &str, options: &[(&str, &str)]) -> Replay {
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("in.csv"), text).unwrap();
        let columns =
            [("ingest", TIMESTAMP), ("event", TIMESTAMP), ("key", DataType::Utf8), ("n", DataType::Int32)];
        let mut all = vec![("laxity.replay.time-column", "ingest")];
        all.extend_from_slice(options);
        let table = file_table(folder.path(), "csv", "in.csv", &columns, &all);
        Replay { _folder: folder, table }
    }

    fn open(&self, skip_rows: u64, columns: &[usize]) -> Box<dyn Scan> {
        let mut spec = all_columns(&self.table);
        spec.columns = columns.to_vec();
        open_scan(&spec, &ScanEnvironment { skip_rows, ..ScanEnvironment::new(START, EventTime(0)) }).unwrap()
    }
}

/// `arrival in ms: rows`, for all that is due at `now`.
fn due(scan: &mut dyn Scan, now: ProcessingTime) -> (Vec<String>, Option<u64>) {
    let (batches, next) = take_due(scan, now);
    let shown = batches
        .iter()
        .map(|batch| format!("{}: {}", batch.arrival.since_ns(START) / MS, lines(&batch.rows).join(" ")))
        .collect();
    let next = match next {
        ScanEvent::NotBefore(at) => Some(at.since_ns(START) / MS),
        _ => None,
    };
    (shown, next)
}

#[test]
fn rows_are_due_at_the_pace_of_their_times() {
    // At ten times the speed: 0, 1 000, 1 000 (out of order), 1 000 (no time) and 2 000 ms.
    let replay = Replay::new(TEXT, &[("laxity.replay.speed", "10")]);
    let mut scan = replay.open(0, &[3]);
    assert_eq!(due(scan.as_mut(), ProcessingTime::ZERO), (vec![], Some(0)));
    assert_eq!(due(scan.as_mut(), START), (vec!["0: 1".to_owned()], Some(1_000)));
    assert_eq!(due(scan.as_mut(), at(999)), (vec![], Some(1_000)));
    assert_eq!(due(scan.as_mut(), at(1_000)), (vec!["1000: 2 3 4".to_owned()], Some(2_000)));
    assert_eq!(due(scan.as_mut(), at(2_500)), (vec!["2000: 5".to_owned()], None));
    assert_eq!(scan.progress(), Some(1.0));
    let clock = scan.event_clock().unwrap();
    assert_eq!(clock.due(EventTime(110_000)), at(1_000));
}

#[test]
fn a_late_reader_gets_all_rows_with_their_intended_arrival() {
    let replay = Replay::new(TEXT, &[]);
    let mut scan = replay.open(0, &[3]);
    assert_eq!(due(scan.as_mut(), at(15_000)), (vec!["10000: 1 2 3 4".to_owned()], Some(20_000)));
}

#[test]
fn ticks_make_batches_of_a_fast_replay() {
    let text: String = (0..40).map(|i| format!("1970-01-01 00:00:00.{i:03},,k,{i}\n")).collect();
    // A row each 0.1 ms.
    let replay = Replay::new(&text, &[("laxity.replay.speed", "10")]);
    let mut scan = replay.open(0, &[3]);
    let between = START.plus_ns(1_950_000);
    let (batches, next) = take_due(scan.as_mut(), between);
    // Rows 0 to 10 are due by the tick at 1 ms; the ones up to 19 wait for the tick at 2 ms.
    assert_eq!(batches.len(), 1);
    assert_eq!((batches[0].rows.num_rows(), batches[0].arrival), (11, at(1)));
    assert!(matches!(next, ScanEvent::NotBefore(next) if next == at(2)));
    let exact = Replay::new(&text, &[("laxity.replay.speed", "10"), ("laxity.replay.tick", "0 ms")]);
    let (batches, _) = take_due(exact.open(0, &[3]).as_mut(), between);
    assert_eq!((batches[0].rows.num_rows(), batches[0].arrival), (20, START.plus_ns(1_900_000)));
}

#[test]
fn passes_shift_all_times_and_keep_going() {
    // The span is 20 s and the mean distance of the five rows 5 s: the second pass starts at 25 s.
    for cache in ["256 mb", "0"] {
        let replay = Replay::new(TEXT, &[("laxity.replay.loop", "2"), ("laxity.replay.cache", cache)]);
        let mut scan = replay.open(0, &[0, 1, 3]);
        let (first, next) = due(scan.as_mut(), at(20_000));
        assert_eq!((first.len(), next), (1, Some(25_000)));
        assert_eq!(scan.progress(), Some(0.5));
        let (second, next) = due(scan.as_mut(), at(100_000));
        assert_eq!(next, None);
        assert_eq!(
            second,
            ["45000: 1970-01-01T00:02:05|1970-01-01T00:02:04|1 1970-01-01T00:02:15|1970-01-01T00:02:14|2 \
              1970-01-01T00:02:10|1970-01-01T00:02:09|3 NULL|1970-01-01T00:02:09|4 \
              1970-01-01T00:02:25|1970-01-01T00:02:24|5"]
        );
    }
}

#[test]
fn copies_multiply_rows_and_spread_keys() {
    let replay = Replay::new(
        TEXT,
        &[
            ("laxity.replay.loop", "forever"),
            ("laxity.replay.copies", "2"),
            ("laxity.replay.spread-keys", "key, n"),
        ],
    );
    let mut scan = replay.open(0, &[2, 3]);
    assert_eq!(due(scan.as_mut(), START).0, ["0: a|1 a~1|1000001"]);
    assert_eq!(due(scan.as_mut(), at(20_000)).0.len(), 1);
    assert_eq!(due(scan.as_mut(), at(25_000)).0, ["25000: a~2|2000001 a~3|3000001"]);
    assert_eq!(scan.progress(), None);
}

#[test]
fn a_scan_taken_over_goes_on_where_it_was() {
    let options =
        [("laxity.replay.loop", "4"), ("laxity.replay.copies", "2"), ("laxity.replay.spread-keys", "key")];
    for cache in ["1 mb", "0"] {
        let mut options = options.to_vec();
        options.push(("laxity.replay.cache", cache));
        let replay = Replay::new(TEXT, &options);
        let rows = |skip| -> Vec<String> {
            let (batches, _) = take_due(replay.open(skip, &[1, 2]).as_mut(), at(1_000_000));
            batches.iter().flat_map(|batch| lines(&batch.rows)).collect()
        };
        let all = rows(0);
        assert_eq!(all.len(), 40);
        for skip in 0..=40 {
            assert_eq!(rows(skip), all[skip as usize..], "after {skip} rows");
        }
    }
}

#[test]
fn a_file_without_rows_or_times_ends() {
    let empty = Replay::new("", &[("laxity.replay.loop", "forever")]);
    assert!(matches!(empty.open(0, &[0]).poll(START).unwrap(), ScanEvent::End));
    let timeless = Replay::new(",,k,1\n", &[("laxity.replay.loop", "3")]);
    assert_eq!(take_due(timeless.open(0, &[3]).as_mut(), at(1_000)).0.len(), 3);
}

#[test]
fn bad_rows_are_counted_once_whatever_the_passes() {
    let replay = Replay::new(
        &format!("{TEXT}nonsense\n"),
        &[("laxity.replay.loop", "3"), ("laxity.replay.cache", "0")],
    );
    let mut scan = replay.open(0, &[3]);
    take_due(scan.as_mut(), at(1_000_000));
    assert_eq!(scan.dead_rows(), 1);
}

/// Rows a millisecond apart, a bad one among every hundred.
fn many(rows: u64) -> String {
    let row = |i: u64| match i % 100 {
        50 => "nonsense\n".to_owned(),
        _ => format!(
            "1970-01-01 00:{:02}:{:02}.{:03},,k{},{i}\n",
            i / 60_000,
            i / 1_000 % 60,
            i % 1_000,
            i % 7
        ),
    };
    (0..rows).map(row).collect()
}

#[test]
fn preparing_changes_neither_rows_nor_instants() {
    for options in [
        &[("laxity.replay.loop", "3")][..],
        &[("laxity.replay.loop", "3"), ("laxity.replay.cache", "0")],
        &[("laxity.replay.copies", "3"), ("laxity.replay.spread-keys", "key")],
    ] {
        let replay = Replay::new(&many(3_000), options);
        // Polls 100 ms apart, before each of which so many pieces are prepared.
        let run = |skip: u64, prepared: &dyn Fn(usize) -> usize| -> Vec<String> {
            let mut scan = replay.open(skip, &[0, 2, 3]);
            let mut shown = Vec::new();
            for look in 0.. {
                for _ in 0..prepared(look) {
                    scan.prepare().unwrap();
                }
                let (batches, next) = take_due(scan.as_mut(), at(100 * look as u64));
                for batch in batches {
                    let rows = lines(&batch.rows).join(" ");
                    shown.push(format!("{look} {} {rows}", batch.arrival.since_ns(START)));
                }
                if matches!(next, ScanEvent::End) {
                    return shown;
                }
            }
            unreachable!("the replay ends")
        };
        for skip in [0, 4_001] {
            let alone = run(skip, &|_| 0);
            assert!(alone == run(skip, &|_| 100), "{options:?} {skip}: all ahead");
            assert!(alone == run(skip, &|look| look % 3), "{options:?} {skip}: some ahead");
        }
    }
}

#[test]
fn little_is_decoded_ahead_and_its_end_is_known() {
    let replay = Replay::new(&many(10_000), &[("laxity.replay.loop", "2")]);
    let mut scan = replay.open(0, &[3]);
    // Nothing is decoded: the first piece is needed at the start.
    assert_eq!((scan.prepared_until(), scan.event_clock().is_some()), (Some(START), false));
    let ready = |scan: &mut dyn Scan| {
        let mut steps = 0;
        while scan.prepare().unwrap() == Preparation::More {
            steps += 1;
            assert!(steps < 100, "preparing comes to an end");
        }
    };
    ready(scan.as_mut());
    // Two pieces; one row in a hundred is bad.
    let piece_ms = (PIECE_ROWS + PIECE_ROWS / 99) as u64;
    let until_ms = |scan: &dyn Scan| scan.prepared_until().unwrap().since_ns(START) / MS;
    assert!((2 * piece_ms - 3..2 * piece_ms + 3).contains(&until_ms(scan.as_ref())), "{piece_ms}");
    assert!(scan.progress().unwrap() < 0.2);
    assert!((50_000..500_000).contains(&scan.held_bytes()), "{}", scan.held_bytes());
    // A reader who comes late gets them in pieces, and there is the next one to prepare.
    let ScanEvent::Batch(batch) = scan.poll(at(1_000_000)).unwrap() else { panic!() };
    assert_eq!(batch.rows.num_rows(), PIECE_ROWS);
    assert!((until_ms(scan.as_ref()) as i64 - 2 * piece_ms as i64).abs() < 4);
    ready(scan.as_mut());
    assert!((3 * piece_ms - 4..3 * piece_ms + 4).contains(&until_ms(scan.as_ref())));
    // In the second pass all is in memory.
    while let ScanEvent::Batch(_) = scan.poll(at(10_500)).unwrap() {}
    assert_eq!(scan.prepared_until(), None);
}

#[test]
fn a_fault_waits_for_the_rows_before_it() {
    let folder = tempdir().unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, TEXT.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    std::fs::write(folder.path().join("in.csv.gz"), &packed[..packed.len() - 9]).unwrap();
    let columns =
        [("ingest", TIMESTAMP), ("event", TIMESTAMP), ("key", DataType::Utf8), ("n", DataType::Int32)];
    let options = [("laxity.replay.time-column", "ingest")];
    let table = file_table(folder.path(), "csv", "in.csv.gz", &columns, &options);
    let mut scan = crate::fixture::open(&table).unwrap();
    while scan.prepare().unwrap() == Preparation::More {}
    let (rows, _) = due(scan.as_mut(), ProcessingTime::ZERO);
    assert_eq!(rows.len(), 1);
    let mut rows = 1;
    let error = loop {
        match scan.poll(ProcessingTime(60_000 * MS)) {
            Ok(ScanEvent::Batch(batch)) => rows += batch.rows.num_rows(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(rows >= 4 && error.to_string().starts_with("cannot read"), "{rows}: {error}");
    assert!(matches!(scan.poll(ProcessingTime::ZERO).unwrap(), ScanEvent::End));
}

#[test]
fn a_restored_replay_goes_on_at_once_with_the_rows_it_would_have_had() {
    // Two passes, each row three times.
    let replay = Replay::new(TEXT, &[("laxity.replay.loop", "2"), ("laxity.replay.copies", "3")]);
    let whole = |mut scan: Box<dyn Scan>| {
        let (batches, _) = take_due(scan.as_mut(), ProcessingTime(1_000_000 * MS));
        batches.iter().flat_map(|batch| lines(&batch.rows)).collect::<Vec<_>>()
    };
    let undisturbed = whole(replay.open(0, &[1, 2, 3]));
    assert_eq!(undisturbed.len(), 30);
    for rows in 0..30 {
        for skip_rows in [rows, rows + 2] {
            let restored = Some(crate::RestoredScan { rows, dead_rows: 0 });
            let environment =
                ScanEnvironment { skip_rows, restored, ..ScanEnvironment::new(START, EventTime(0)) };
            let spec = crate::ScanSpec { columns: vec![1, 2, 3], ..all_columns(&replay.table) };
            let open = || open_scan(&spec, &environment).unwrap();
            assert_eq!(whole(open()), undisturbed[(skip_rows as usize).min(30)..], "{rows} {skip_rows}");
            if skip_rows == rows {
                let (batches, _) = take_due(open().as_mut(), START);
                assert!(!batches.is_empty(), "row {rows} is due at the start");
                assert_eq!(batches[0].arrival, START);
            }
        }
    }
}

#[test]
fn a_place_among_records_is_found_again_with_other_columns_and_at_its_pace() {
    // A row a millisecond: one in seven is bad by its key's number, one in five by `n`, one in eleven by itself.
    let number = |i: u64, each: u64| if i % each == each - 1 { "x".to_owned() } else { i.to_string() };
    let row = |i: u64| match i % 11 {
        4 => "nonsense\n".to_owned(),
        _ => format!(
            "1970-01-01 00:00:{:02}.{:03},{},{i},{}\n",
            i / 1_000,
            i % 1_000,
            number(i, 7),
            number(i, 5)
        ),
    };
    let text: String = (0..3_000).map(row).collect();
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), text).unwrap();
    let columns = [("t", TIMESTAMP), ("a", DataType::Int32), ("i", DataType::Int64), ("b", DataType::Int32)];
    for options in [
        &[("laxity.replay.loop", "4")][..],
        &[("laxity.replay.loop", "4"), ("laxity.replay.cache", "0")],
        &[("laxity.replay.copies", "3")],
    ] {
        let mut all = vec![("laxity.replay.time-column", "t"), ("laxity.replay.tick", "0 ms")];
        all.extend_from_slice(options);
        let table = file_table(folder.path(), "csv", "in.csv", &columns, &all);
        let passes = if options[0].0 == "laxity.replay.loop" { 4 } else { 1 };
        let open = |columns: [usize; 2], environment: ScanEnvironment| {
            let spec = crate::ScanSpec { columns: columns.to_vec(), ..all_columns(&table) };
            open_scan(&spec, &environment).unwrap()
        };
        let anew = || ScanEnvironment::new(START, EventTime(0));
        // What was due at each look, by the number of its record, passes before included.
        let looks = |scan: &mut dyn Scan| {
            let (mut pass, mut last, mut looks) = (0, 0, Vec::new());
            for look in 0..=130 {
                let (batches, _) = take_due(scan, at(100 * look));
                let rows = batches.iter().flat_map(|batch| lines(&batch.rows)).map(|line| {
                    let number: u64 = line.split('|').next().unwrap().parse().unwrap();
                    pass += u64::from(number < last);
                    last = number;
                    number
                });
                looks.push(rows.collect::<Vec<u64>>());
            }
            (looks, pass)
        };
        let (whole, last_pass) = looks(open([2, 3], anew()).as_mut());
        assert_eq!(last_pass + 1, passes);
        let whole: Vec<u64> = whole.concat();
        let mut first = open([1, 2], anew());
        for look in [0, 1, 7, 20, 31, 70, 99, 118].into_iter().filter(|look| look * 100 < passes * 3_000) {
            take_due(first.as_mut(), at(100 * look));
            let records = first.records().unwrap();
            let due_at_start = first.event_clock().map(|clock| clock.event_origin);
            let behind = Some(crate::RecordPlace { records, due_at_start });
            let left = {
                let mut pass = 0;
                let mut last = 0;
                let is_behind = |number: &&u64| {
                    pass += u64::from(**number < last);
                    last = **number;
                    pass * 3_000 + **number >= records
                };
                whole.iter().filter(is_behind).copied().collect::<Vec<u64>>()
            };
            let (got, _) = looks(open([2, 3], ScanEnvironment { behind, ..anew() }).as_mut());
            let next = got.iter().position(|rows| !rows.is_empty()).unwrap() as u64;
            // What is due at this look was given to the first, but for what is bad for that alone.
            assert!((look..=look + 1).contains(&next), "{options:?} {look}: {next}");
            assert!(got.concat() == left, "{options:?} {look}");
            // A restored one goes on at once, with rows that are counted from there.
            let restored = Some(crate::RestoredScan { rows: 9, dead_rows: 0 });
            let behind = behind.map(|place| crate::RecordPlace { due_at_start: None, ..place });
            let mut scan = open([2, 3], ScanEnvironment { behind, restored, skip_rows: 9, ..anew() });
            let (got, _) = looks(scan.as_mut());
            assert!(!got[0].is_empty() && got.concat() == left[9..], "{options:?} {look}");
        }
    }
}
