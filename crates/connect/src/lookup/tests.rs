//! Lookup tables over real files that change while they are followed. The clock is real too: a version that does not
//! come fails after some seconds.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::*;

fn table(path: &Path, options: &[(&str, &str)]) -> ScanSpec {
    let fixed = [("connector", "filesystem"), ("format", "csv"), ("path", path.to_str().unwrap())];
    let options = fixed.iter().chain(options).map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let schema = Schema::new(vec![Field::new("k", DataType::Int64, true)]);
    let table = TableSpec { name: "dim".into(), schema: Arc::new(schema), options, base: PathBuf::new() };
    ScanSpec { table: Arc::new(table), columns: vec![0] }
}

/// Follows a table; each version comes as its first column.
fn follow(spec: &ScanSpec) -> (Result<LookupFeed, ConnectError>, Receiver<Vec<i64>>) {
    let (versions, seen) = channel();
    let take = move |batches: Vec<RecordBatch>| {
        let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        versions.send(batches.iter().flat_map(column).collect()).map_err(|error| error.to_string())
    };
    (follow_table(spec, Box::new(take)), seen)
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_changed_file_is_read_again_and_a_broken_one_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dim.csv");
    std::fs::write(&file, "1\n2\n").unwrap();
    let interval = ("lookup.full-cache.periodic-reload.interval", "20 ms");
    let (feed, seen) = follow(&table(&file, &[interval]));
    let feed = feed.unwrap();
    assert_eq!(seen.try_recv(), Ok(vec![1, 2]), "the first version is there at once");
    std::fs::remove_file(&file).unwrap();
    assert!(seen.recv_timeout(Duration::from_millis(200)).is_err(), "what is gone changes nothing");
    let moved = folder.path().join("_next");
    std::fs::write(&moved, "3\n").unwrap();
    std::fs::rename(&moved, &file).unwrap();
    assert_eq!(seen.recv_timeout(SOON), Ok(vec![3]));
    assert!(seen.recv_timeout(Duration::from_millis(200)).is_err(), "read once for each change");
    drop(feed);
    std::fs::write(&file, "4\n5\n6\n").unwrap();
    assert!(seen.recv_timeout(Duration::from_millis(500)).is_err(), "nobody follows it any more");
}

#[test]
fn files_of_a_folder_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "1\n").unwrap();
    let interval = ("lookup.full-cache.periodic-reload.interval", "20 ms");
    let (feed, seen) = follow(&table(folder.path(), &[interval]));
    assert_eq!(seen.try_recv(), Ok(vec![1]));
    std::fs::write(folder.path().join("b.csv"), "2\n").unwrap();
    let mut latest = vec![];
    while latest != [1, 2] {
        latest = seen.recv_timeout(SOON).expect("the new file is found");
    }
    drop(feed);
}

#[test]
fn what_cannot_be_looked_up_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |spec: &ScanSpec, part: &str| {
        let error = follow(spec).0.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&table(&folder.path().join("none.csv"), &[]), "cannot open");
    let replay = ("laxity.replay.time-column", "k");
    refused(&table(folder.path(), &[replay]), "is read at once, not replayed");
    refused(&table(Path::new("/dev/null"), &[]), "not a regular file");
    let mut datagen = table(folder.path(), &[]);
    let options = [("connector".to_string(), "datagen".to_string())];
    Arc::make_mut(&mut datagen.table).options = options.into();
    refused(&datagen, "takes a 'filesystem' table");
}
