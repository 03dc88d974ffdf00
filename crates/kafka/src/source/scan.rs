//! From messages to rows: keys and values are decoded piece by piece on a worker, and offsets say where a restored
//! query goes on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::SchemaRef;
use laxity_connect::{
    BadRecord, ConnectError, DeadLetters, FieldColumn, FieldWay, LetterPlace, MetadataKey, RECORDS_MAX,
    RecordDecoder, Records, Scan, ScanEnvironment, ScanEvent, ScanPosition, ScanSpec, ScannedBatch,
    SplitColumn,
};
use laxity_graph::{EventTime, ProcessingTime};

use super::chunk::{Chunk, Partition, Wanted};
use super::columns::Beside;
use super::fetch::Fetch;
use super::handover::{Handover, Taken};
use super::idle::Idleness;
use super::{Arrival, SourceOptions};
use crate::record_format::Part;

/// Topics being read. The bytes come from a thread of its own.
pub(crate) struct KafkaScan {
    schema: SchemaRef,
    /// For each column asked for, where it comes from.
    sources: Vec<Source>,
    value: Decoding,
    key: Option<Decoding>,
    handover: Arc<Handover>,
    /// Taken over; those from `next` on are not decoded yet.
    chunk: Chunk,
    next: usize,
    partitions: Vec<Partition>,
    /// Offset of the next message, by partition.
    positions: Vec<i64>,
    /// Of partitions that were not found yet.
    resumed: BTreeMap<(String, i32), i64>,
    /// By the number of the split.
    numbered: Arc<Vec<(String, i32)>>,
    idleness: Idleness,
    dead: DeadLetters,
    arrival: Arrival,
    start: ProcessingTime,
    start_wall: EventTime,
    /// Rows were given out since it was last waited for.
    gave_rows: bool,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// A column of the decoded key.
    Key(usize),
    /// A column of the decoded value.
    Value(usize),
    Beside(Beside),
}

/// A record's key or value on its way to columns.
struct Decoding {
    decoder: Box<dyn RecordDecoder>,
    /// Records of a piece that have bytes, where some have none.
    present: Records,
}

/// After rows nothing is waited for during this: the next ones come as a batch, and not each by itself.
const TICK_NS: u64 = 1_000_000;

impl KafkaScan {
    pub(crate) fn open(
        spec: &ScanSpec,
        env: &ScanEnvironment,
        options: SourceOptions,
    ) -> Result<KafkaScan, ConnectError> {
        let fields = spec.table.schema.fields();
        let mut wanted = Wanted::default();
        let (mut of_value, mut of_key) = (Vec::new(), Vec::new());
        let mut sources = Vec::new();
        let place = |part: &Part, column: usize| part.columns.iter().position(|other| *other == column);
        for &column in &spec.columns {
            let field = &fields[column];
            let (column, way) = FieldColumn::way(field).unwrap_or((column, Vec::new()));
            let beside = match MetadataKey::of(field) {
                Some(key) => Beside::of_key(key),
                None => SplitColumn::is(field).then_some(Beside::Split),
            };
            sources.push(match (beside, place(&options.formats.value, column)) {
                (Some(beside), _) => {
                    wanted.key |= beside == Beside::Key;
                    wanted.headers |= beside == Beside::Headers;
                    wanted.leader_epoch |= beside == Beside::LeaderEpoch;
                    Source::Beside(beside)
                }
                (None, Some(column)) => {
                    of_value.push(FieldWay { column, fields: way });
                    Source::Value(of_value.len() - 1)
                }
                (None, None) => {
                    let key = options.formats.key.as_ref().expect("a column is of the key or of the value");
                    let column = place(key, column).expect("a column is of the key or of the value");
                    of_key.push(FieldWay { column, fields: way });
                    Source::Key(of_key.len() - 1)
                }
            });
        }
        wanted.key |= !of_key.is_empty();
        let value = Decoding::new(options.formats.value.format.field_decoder(&of_value));
        let key = options.formats.key.as_ref().filter(|_| !of_key.is_empty());
        let key = key.map(|key| Decoding::new(key.format.field_decoder(&of_key)));
        let resume = env.resume.as_ref();
        let dead = DeadLetters::open(&spec.table.name, &options.dead_letters, true)?;
        let handover = Handover::new(env.waker.clone());
        let scan = KafkaScan {
            schema: Arc::new(spec.table.schema.project(&spec.columns).expect("columns of the table")),
            sources,
            value,
            key,
            handover: Arc::clone(&handover),
            chunk: Chunk::default(),
            next: 0,
            partitions: Vec::new(),
            positions: Vec::new(),
            resumed: resume.map(|position| position.offsets.clone()).unwrap_or_default(),
            numbered: resume.map(|position| Arc::clone(&position.numbered)).unwrap_or_default(),
            idleness: Idleness::new(options.idle_after),
            dead: dead.after(resume.map_or(0, |position| position.dead_rows)),
            arrival: options.arrival,
            start: env.start,
            start_wall: env.start_wall,
            gave_rows: false,
        };
        let resume = resume.cloned();
        let (table, waiting) = (spec.table.name.clone(), env.waiting.clone());
        Fetch { table, options, wanted, resume, handover, waiting }.start()?;
        Ok(scan)
    }

    /// Takes over what was brought.
    fn take(&mut self, now: ProcessingTime) -> Taken {
        let taken = self.handover.take(&mut self.chunk, &mut self.partitions, !self.gave_rows);
        self.next = 0;
        if let Taken::Nothing | Taken::End(_) = taken {
            self.chunk.clear();
        }
        if self.partitions.len() > self.positions.len() {
            let new = &self.partitions[self.positions.len()..];
            self.positions.extend(new.iter().map(|partition| partition.start));
            let unseen = new.iter().filter(|partition| partition.split as usize >= self.numbered.len());
            let unseen: Vec<_> =
                unseen.map(|partition| (partition.topic.to_string(), partition.number)).collect();
            Arc::make_mut(&mut self.numbered).extend(unseen);
            self.idleness.know(self.partitions.len(), now);
        }
        taken
    }

    /// Decodes a piece of the messages taken over; `None` if none of them is good.
    fn decode(&mut self, now: ProcessingTime) -> Result<Option<ScannedBatch>, ConnectError> {
        let range = self.next..self.chunk.len().min(self.next + RECORDS_MAX);
        self.next = range.end;
        let mut lasts: BTreeMap<i32, i64> = BTreeMap::new();
        for row in range.clone() {
            let split = self.chunk.splits[row];
            self.positions[split as usize] = self.chunk.offsets[row] + 1;
            lasts.insert(split, self.chunk.timestamps_ms[row]);
        }
        lasts.keys().for_each(|split| self.idleness.row(*split, now));
        let value = self.value.decode(&self.chunk.values, range.clone());
        let key = self.key.as_mut().map(|key| key.decode(&self.chunk.keys, range.clone()).with_nulls());
        let mut bad = value.bad;
        let mut skipped = value.skipped;
        let (mut key_columns, mut key_good) = (Vec::new(), None);
        if let Some(key) = key {
            key_good = Some(key.good);
            bad.extend(key.bad);
            bad.sort_by_key(|record| record.index);
            bad.dedup_by_key(|record| record.index);
            key_columns = key.columns;
        }
        skipped.retain(|index| bad.iter().all(|record| record.index != *index));
        let good = mask(range.clone(), &bad, &skipped);
        let rows = good.iter().filter(|good| **good).count();
        if !bad.is_empty() {
            self.bury(&bad)?;
        }
        if rows == 0 {
            return Ok(None);
        }
        let awaited: Vec<i32> = self.idleness.awaited(now).collect();
        let columns = self.sources.iter().zip(self.schema.fields()).map(|(source, field)| match source {
            Source::Value(column) => narrowed(&value.columns[*column], &value.good, &good),
            Source::Key(column) => {
                narrowed(&key_columns[*column], key_good.as_ref().expect("there are keys"), &good)
            }
            Source::Beside(beside) => {
                // The first row that is kept says which partitions are waited for.
                let first = range.start + good.iter().position(|good| *good).expect("some row is good");
                let column = beside.column(&self.chunk, first..range.end, &self.partitions, &awaited, field);
                narrowed(&column, &vec![true; column.len()], &good[first - range.start..])
            }
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let size = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &size)
            .expect("columns of the schema's types");
        Ok(Some(ScannedBatch { rows, arrival: self.arrival(lasts.values(), now) }))
    }

    /// When the last rows of each partition came, the earliest of these: a partition that is behind is not hidden by the
    /// others.
    fn arrival<'a>(&self, lasts_ms: impl Iterator<Item = &'a i64>, now: ProcessingTime) -> ProcessingTime {
        let earliest_ms = lasts_ms.copied().filter(|ms| *ms >= 0).min();
        let (Arrival::Record, Some(ms)) = (self.arrival, earliest_ms) else { return now };
        let since_start_ns = (i128::from(ms) - i128::from(self.start_wall.0)) * 1_000_000;
        let at_ns = i128::from(self.start.0) + since_start_ns;
        ProcessingTime(u64::try_from(at_ns.max(0)).unwrap_or(u64::MAX)).min(now)
    }

    fn bury(&mut self, bad: &[BadRecord]) -> Result<(), ConnectError> {
        let letters = bad.iter().map(|record| {
            let partition = &self.partitions[self.chunk.splits[record.index] as usize];
            let place = LetterPlace::Record {
                topic: Arc::clone(&partition.topic),
                partition: partition.number,
                offset: self.chunk.offsets[record.index],
            };
            (place, record.reason.as_str(), self.chunk.values.get(record.index))
        });
        self.dead.put_records(letters)
    }
}

impl Scan for KafkaScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        if self.next == self.chunk.len() {
            match self.take(now) {
                Taken::Messages => {}
                Taken::Nothing if std::mem::take(&mut self.gave_rows) => {
                    return Ok(ScanEvent::NotBefore(now.plus_ns(TICK_NS)));
                }
                Taken::Nothing => return Ok(ScanEvent::Waiting),
                Taken::End(end) => return end.map(|()| ScanEvent::End),
            }
        }
        Ok(match self.decode(now)? {
            Some(batch) => {
                self.gave_rows = true;
                ScanEvent::Batch(batch)
            }
            None => ScanEvent::NotBefore(now),
        })
    }

    fn position(&self) -> Option<ScanPosition> {
        let mut offsets = self.resumed.clone();
        for (partition, offset) in self.partitions.iter().zip(&self.positions) {
            offsets.insert((partition.topic.to_string(), partition.number), *offset);
        }
        // Where it begins is not known yet.
        (!offsets.is_empty()).then(|| ScanPosition {
            offsets,
            numbered: Arc::clone(&self.numbered),
            dead_rows: self.dead.count(),
            ..ScanPosition::default()
        })
    }

    fn is_repeatable(&self) -> bool {
        !self.partitions.is_empty()
    }

    fn held_bytes(&self) -> u64 {
        self.chunk.held_bytes() + self.handover.held_bytes()
    }

    fn dead_rows(&self) -> u64 {
        self.dead.count()
    }
}

impl Drop for KafkaScan {
    fn drop(&mut self) {
        self.handover.drop_reader();
    }
}

/// What came of decoding the keys or the values of a piece.
struct DecodedPart {
    schema: SchemaRef,
    /// The first of the messages.
    start: usize,
    columns: Vec<ArrayRef>,
    bad: Vec<BadRecord>,
    /// Messages without bytes, where the format makes nothing of them: deletions, which are no rows.
    skipped: Vec<usize>,
    /// For each message, whether it has a row.
    good: Vec<bool>,
}

impl Decoding {
    fn new(decoder: Box<dyn RecordDecoder>) -> Decoding {
        Decoding { decoder, present: Records::default() }
    }

    fn decode(&mut self, records: &Records, range: Range<usize>) -> DecodedPart {
        let mut bad = Vec::new();
        let nulls: Vec<usize> = match self.decoder.takes_null() {
            true => Vec::new(),
            false => range.clone().filter(|index| records.is_null(*index)).collect(),
        };
        let rows = match nulls.is_empty() {
            true => self.decoder.decode(records, range.clone(), &mut bad),
            false => {
                self.present.clear();
                let present: Vec<usize> = range.clone().filter(|index| !records.is_null(*index)).collect();
                present.iter().for_each(|index| self.present.push(Some(records.get(*index))));
                let rows = self.decoder.decode(&self.present, 0..present.len(), &mut bad);
                bad.iter_mut().for_each(|record| record.index = present[record.index]);
                rows
            }
        };
        let start = range.start;
        let good = mask(range, &bad, &nulls);
        DecodedPart {
            schema: rows.schema(),
            start,
            columns: rows.columns().to_vec(),
            bad,
            skipped: nulls,
            good,
        }
    }
}

impl DecodedPart {
    /// The same with a row of NULLs for what was skipped: a message without a key is one.
    fn with_nulls(mut self) -> DecodedPart {
        if self.skipped.is_empty() {
            return self;
        }
        let start = self.start;
        let skipped = std::mem::take(&mut self.skipped);
        if let Some(field) = self.schema.fields().iter().find(|field| !field.is_nullable()) {
            let reason = format!("column '{}' is NOT NULL, and the message has no key", field.name());
            self.bad.extend(skipped.into_iter().map(|index| BadRecord { index, reason: reason.clone() }));
            self.bad.sort_by_key(|record| record.index);
            return self;
        }
        skipped.iter().for_each(|index| self.good[index - start] = true);
        let mut next = 0;
        let rows = self.good.iter().enumerate().filter(|(_, good)| **good);
        let rows: UInt32Array = rows
            .map(|(index, _)| {
                let row = skipped.binary_search(&(start + index)).is_err().then_some(next);
                next += u32::from(row.is_some());
                row
            })
            .collect();
        for column in &mut self.columns {
            *column = take(column, &rows, None).expect("rows of this column");
        }
        self
    }
}

/// For each message of the range, whether it is none of these.
fn mask(range: Range<usize>, bad: &[BadRecord], skipped: &[usize]) -> Vec<bool> {
    let mut good = vec![true; range.len()];
    bad.iter().for_each(|record| good[record.index - range.start] = false);
    skipped.iter().for_each(|index| good[index - range.start] = false);
    good
}

/// A column with a row for each of `has`, cut down to those of `wanted`, which are among them.
fn narrowed(column: &ArrayRef, has: &[bool], wanted: &[bool]) -> ArrayRef {
    if has == wanted {
        return Arc::clone(column);
    }
    let keep: BooleanArray =
        has.iter().zip(wanted).filter(|(has, _)| **has).map(|(_, wanted)| Some(*wanted)).collect();
    filter(column, &keep).expect("the mask has a value for each row")
}
