//! Pipes, read as tables: rows come when they are written, nothing blocks, and no thread is left behind. A wait that
//! never ends fails after [`PATIENCE`].

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use arrow::datatypes::DataType;
use laxity_graph::{EventTime, ProcessingTime};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::{TempDir, tempdir};

use super::*;
use crate::fixture::{TIMESTAMP, all_columns, file_table, lines};
use crate::{Preparation, Scan, ScanEnvironment, ScanEvent, open_scan};

const PATIENCE: Duration = Duration::from_secs(30);
const COLUMNS: &[(&str, DataType)] = &[("i", DataType::Int32), ("s", DataType::Utf8)];

struct Pipe {
    folder: TempDir,
    woken: Receiver<()>,
    waker: Waker,
}

impl Pipe {
    fn new(name: &str) -> Pipe {
        let folder = tempdir().unwrap();
        mknodat(CWD, folder.path().join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (wake, woken) = channel();
        Pipe { folder, woken, waker: Waker::new(move || wake.send(()).unwrap_or_default()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn scan(
        &self,
        format: &str,
        name: &str,
        columns: &[(&str, DataType)],
        more: &[(&str, &str)],
    ) -> Box<dyn Scan> {
        let table = file_table(self.folder.path(), format, name, columns, more);
        let environment = ScanEnvironment {
            waker: self.waker.clone(),
            ..ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0))
        };
        open_scan(&all_columns(&table), &environment).unwrap()
    }

    /// The next batch or the end, waiting for the waker as a driver does.
    fn next(&self, scan: &mut dyn Scan) -> Option<Vec<String>> {
        loop {
            match scan.poll(ProcessingTime(u64::MAX / 2)).unwrap() {
                ScanEvent::Batch(batch) => return Some(lines(&batch.rows)),
                ScanEvent::End => return None,
                ScanEvent::Waiting => self.woken.recv_timeout(PATIENCE).expect("woken when bytes come"),
                ScanEvent::NotBefore(at) => panic!("rows of a pipe are due, not at {at:?}"),
            }
        }
    }
}

#[test]
fn rows_come_when_they_are_written() {
    let pipe = Pipe::new("in.csv");
    let mut scan = pipe.scan("csv", "in.csv", COLUMNS, &[]);
    // Nobody writes yet.
    assert!(matches!(scan.poll(ProcessingTime::ZERO).unwrap(), ScanEvent::Waiting));
    assert_eq!(scan.prepare().unwrap(), Preparation::Waiting);
    assert_eq!((scan.progress(), scan.is_repeatable()), (None, false));
    let mut writer = File::create(pipe.path("in.csv")).unwrap();
    writer.write_all(b"1,a\n2,b\n3").unwrap();
    assert_eq!(pipe.next(scan.as_mut()).unwrap(), ["1|a", "2|b"]);
    assert!(matches!(scan.poll(ProcessingTime::ZERO).unwrap(), ScanEvent::Waiting));
    writer.write_all(b",c").unwrap();
    writer.write_all(b"c\n").unwrap();
    assert_eq!(pipe.next(scan.as_mut()).unwrap(), ["3|cc"]);
    writer.write_all(b"4,d").unwrap();
    drop(writer);
    assert_eq!(pipe.next(scan.as_mut()).unwrap(), ["4|d"]);
    assert_eq!(pipe.next(scan.as_mut()), None);
    assert_eq!(pipe.next(scan.as_mut()), None);
}

#[test]
fn packed_rows_come_when_they_are_flushed() {
    let pipe = Pipe::new("in.json.gz");
    let mut scan = pipe.scan("json", "in.json.gz", COLUMNS, &[]);
    let writer = File::create(pipe.path("in.json.gz")).unwrap();
    let mut packer = flate2::write::GzEncoder::new(writer, flate2::Compression::fast());
    for number in 0..3 {
        writeln!(packer, "{{\"i\":{number},\"s\":\"x\"}}").unwrap();
        packer.flush().unwrap();
        assert_eq!(pipe.next(scan.as_mut()).unwrap(), [format!("{number}|x")]);
    }
    drop(packer.finish().unwrap());
    assert_eq!(pipe.next(scan.as_mut()), None);
}

#[test]
fn a_pipe_is_replayed_at_the_pace_of_its_times() {
    let pipe = Pipe::new("in.csv");
    let columns = [("t", TIMESTAMP), ("i", DataType::Int32)];
    let options = [("laxity.replay.time-column", "t"), ("laxity.replay.loop", "2")];
    let mut scan = pipe.scan("csv", "in.csv", &columns, &options);
    assert!(scan.event_clock().is_none());
    let mut writer = File::create(pipe.path("in.csv")).unwrap();
    writer.write_all(b"1970-01-01 00:00:10,1\n1970-01-01 00:00:12,2\n").unwrap();
    drop(writer);
    assert_eq!(pipe.next(scan.as_mut()).unwrap().len(), 2);
    // The second pass comes from memory, the mean distance of two rows after the first.
    assert_eq!(pipe.next(scan.as_mut()).unwrap(), ["1970-01-01T00:00:14|1", "1970-01-01T00:00:16|2"]);
    assert_eq!(pipe.next(scan.as_mut()), None);
}

#[test]
fn a_pipe_cannot_be_read_again_from_its_start() {
    let pipe = Pipe::new("in.csv");
    let options =
        [("laxity.replay.time-column", "t"), ("laxity.replay.loop", "2"), ("laxity.replay.cache", "0")];
    let mut scan = pipe.scan("csv", "in.csv", &[("t", TIMESTAMP)], &options);
    File::create(pipe.path("in.csv")).unwrap().write_all(b"1970-01-01 00:00:10\n").unwrap();
    assert_eq!(pipe.next(scan.as_mut()).unwrap().len(), 1);
    // That the pipe has ended is told by the thread that reads it.
    let error = loop {
        match scan.poll(ProcessingTime::ZERO) {
            Ok(ScanEvent::Waiting) => std::thread::sleep(Duration::from_millis(1)),
            Ok(event) => panic!("{event:?}"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().starts_with("cannot read again"), "{error}");
}

#[test]
fn what_is_brought_ahead_is_bounded() {
    let pipe = Pipe::new("in");
    let mut stream = Stream::open(&pipe.path("in"), pipe.waker.clone()).unwrap();
    let path = pipe.path("in");
    let writer = std::thread::Builder::new()
        .spawn(move || File::create(path).unwrap().write_all(&vec![7; 8 * BUFFER_BYTES]).unwrap())
        .unwrap();
    let (mut block, mut bytes) = (vec![0; 100_000], 0);
    loop {
        assert!(stream.shared.state.lock().bytes.len() < BUFFER_BYTES + READ_BYTES);
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(count) => bytes += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                pipe.woken.recv_timeout(PATIENCE).unwrap();
            }
        }
    }
    assert_eq!(bytes, 8 * BUFFER_BYTES);
    writer.join().unwrap();
}

/// In the pipe nobody writes to, in the one whose writer is silent, and before a full buffer.
#[test]
fn the_thread_ends_when_nobody_reads_any_more() {
    for written in [None, Some(0), Some(4 * BUFFER_BYTES)] {
        let pipe = Pipe::new("in");
        let stream = Stream::open(&pipe.path("in"), Waker::default()).unwrap();
        let writer = written.map(|bytes| {
            let mut writer = File::create(pipe.path("in")).unwrap();
            std::thread::Builder::new()
                .spawn(move || {
                    // Fails once the reader has gone.
                    let _ = writer.write_all(&vec![7; bytes]);
                    writer
                })
                .unwrap()
        });
        if written > Some(0) {
            while stream.shared.state.lock().bytes.len() < BUFFER_BYTES {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let shared = Arc::downgrade(&stream.shared);
        drop(stream);
        let mut waits = 0;
        while shared.strong_count() > 0 {
            waits += 1;
            assert!(waits < PATIENCE.as_millis(), "the thread goes on after {written:?} bytes");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(writer.map(|writer| writer.join().unwrap()));
    }
}

#[test]
fn a_container_is_no_pipe() {
    for format in ["parquet", "avro"] {
        let pipe = Pipe::new("in");
        let table = file_table(pipe.folder.path(), format, "in", COLUMNS, &[]);
        let error = crate::fixture::open(&table).err().unwrap();
        assert!(error.to_string().contains("it is not a regular file"), "{error}");
    }
}

#[test]
fn a_socket_is_read_too() {
    let folder = tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join("in")).unwrap();
    let (wake, woken) = channel();
    let waker = Waker::new(move || wake.send(()).unwrap_or_default());
    let mut stream = Stream::open(&folder.path().join("in"), waker).unwrap();
    let (mut writer, _) = listener.accept().unwrap();
    let mut block = [0; 10];
    assert_eq!(stream.read(&mut block).unwrap_err().kind(), ErrorKind::WouldBlock);
    writer.write_all(b"abc").unwrap();
    woken.recv_timeout(PATIENCE).unwrap();
    assert_eq!((stream.read(&mut block).unwrap(), &block[..3]), (3, &b"abc"[..]));
}
