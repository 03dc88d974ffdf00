//! How far a restored query had read a table, and how that is read on for several at once.

use std::sync::Arc;

use arrow::datatypes::Schema;
use laxity_connect::{FilePlace, RecordPlace, RestoredScan, ScanEnvironment, ScanPosition};
use laxity_graph::EventTime;
use laxity_runtime::Position;
use laxity_state::{FileRead, Offsets, SourceEntry};

/// How far one had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub position: Position,
    /// Of the table, ascending, read by whoever.
    pub columns: Vec<usize>,
    /// Of the table, before what its rows are counted from.
    after_records: u64,
    offsets: Option<ScanPosition>,
    start_wall_ms: i64,
}

/// What those have in common who can be served by one copy of a table. Rows that are counted are read from the least place
/// on, and who is ahead leaves out what he has had; offsets of parts have no order, so they must be the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Start {
    columns: Vec<usize>,
    after_records: u64,
    offsets: Option<Vec<((String, i32), i64)>>,
    files: Vec<(String, FilePlace)>,
    start_wall_ms: i64,
}

impl Place {
    /// What a checkpoint says of a source, of a table that has these columns now.
    ///
    /// # Errors
    /// The columns that were read and are not there any more, by whoever, where the place is counted in rows: those that had no
    /// value of theirs were none.
    pub fn of(entry: &SourceEntry, schema: &Schema) -> Result<Place, Vec<String>> {
        let is_counted = entry.offsets.is_none() && entry.rows > 0;
        let is_there = |name: &&String| schema.index_of(name).is_ok();
        let (there, gone): (Vec<_>, Vec<_>) = entry.columns.iter().partition(is_there);
        if is_counted && !gone.is_empty() {
            return Err(gone.into_iter().cloned().collect());
        }
        let mut columns: Vec<usize> =
            there.into_iter().filter_map(|name| schema.index_of(name).ok()).collect();
        columns.sort_unstable();
        let offsets = entry.offsets.as_ref().map(restored_offsets);
        Ok(Place {
            position: Position { rows: entry.rows, dead_rows: entry.dead_rows },
            columns,
            after_records: entry.after_records,
            offsets,
            start_wall_ms: entry.start_wall_ms,
        })
    }

    /// Where one begins that reads a table with these columns from `position` on, opened so.
    pub fn beginning(columns: &[usize], environment: &ScanEnvironment, position: Position) -> Place {
        Place {
            position,
            columns: columns.to_vec(),
            after_records: environment.behind.as_ref().map_or(0, |behind| behind.records),
            offsets: environment.resume.clone(),
            start_wall_ms: environment.start_wall.0,
        }
    }

    pub(crate) fn start(&self) -> Start {
        let offsets = self.offsets.as_ref().map(of_parts);
        let files = self.offsets.iter().flat_map(|place| place.files.places()).collect();
        let Place { columns, after_records, start_wall_ms, .. } = self.clone();
        Start { columns, after_records, offsets, files, start_wall_ms }
    }

    /// Where all of these begin, who have one start. `None` if there are none.
    pub fn least<'a>(places: impl Iterator<Item = &'a Place>) -> Option<Place> {
        places.cloned().reduce(|least, other| Place {
            position: Position {
                rows: least.position.rows.min(other.position.rows),
                dead_rows: least.position.dead_rows.min(other.position.dead_rows),
            },
            ..least
        })
    }

    /// How a table is opened there.
    pub fn environment(&self, anew: &ScanEnvironment) -> ScanEnvironment {
        let Position { rows, dead_rows } = self.position;
        let is_counted = self.offsets.is_none();
        let behind = RecordPlace { records: self.after_records, due_at_start: None };
        ScanEnvironment {
            behind: (self.after_records > 0).then_some(behind),
            start_wall: EventTime(self.start_wall_ms),
            skip_rows: if is_counted { rows } else { 0 },
            resume: self.offsets.clone(),
            restored: is_counted.then_some(RestoredScan { rows, dead_rows }),
            ..anew.clone()
        }
    }

    /// What this one had more than the table that begins there.
    pub fn ahead_of(&self, least: Position) -> Position {
        // Of parts, rows are counted by each query for itself.
        let ahead = |own: u64, least: u64| if self.offsets.is_none() { own - least } else { 0 };
        Position {
            rows: ahead(self.position.rows, least.rows),
            dead_rows: ahead(self.position.dead_rows, least.dead_rows),
        }
    }
}

/// A place in a table in parts, or in files that are followed, as a checkpoint has it.
pub(crate) fn saved_offsets(place: ScanPosition) -> Offsets {
    let file = |(path, place): (String, FilePlace)| {
        let FilePlace { bytes, lines, skips_line, records, is_whole, front_bytes, front_crc } = place;
        FileRead { path, bytes, lines, skips_line, records, is_whole, front_bytes, front_crc }
    };
    Offsets {
        next: of_parts(&place).into_iter().map(|((topic, part), next)| (topic, part, next)).collect(),
        files: place.files.places().into_iter().map(file).collect(),
        dead_rows: place.dead_rows,
    }
}

/// The number of a part is in what operators hold.
fn of_parts(place: &ScanPosition) -> Vec<((String, i32), i64)> {
    place.offsets_by_number().map(|(part, next)| (part.clone(), next)).collect()
}

/// And back.
fn restored_offsets(offsets: &Offsets) -> ScanPosition {
    let file = |file: &FileRead| {
        let FileRead { path, bytes, lines, skips_line, records, is_whole, front_bytes, front_crc } =
            file.clone();
        (path, FilePlace { bytes, lines, skips_line, records, is_whole, front_bytes, front_crc })
    };
    ScanPosition {
        offsets: offsets.next.iter().map(|(topic, part, next)| ((topic.clone(), *part), *next)).collect(),
        numbered: Arc::new(offsets.next.iter().map(|(topic, part, _)| (topic.clone(), *part)).collect()),
        files: offsets.files.iter().map(file).collect(),
        dead_rows: offsets.dead_rows,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn place(rows: u64, dead_rows: u64) -> Place {
        let entry = SourceEntry { rows, dead_rows, start_wall_ms: 7, ..SourceEntry::default() };
        Place::of(&entry, &Schema::empty()).unwrap()
    }

    #[test]
    fn rows_cannot_be_counted_without_a_column_that_was_read() {
        let columns = vec!["a".to_string(), "b".to_string()];
        let entry = SourceEntry { rows: 40, columns, ..SourceEntry::default() };
        let a = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        assert_eq!(Place::of(&entry, &a), Err(vec!["b".to_string()]));
        let none_yet = SourceEntry { rows: 0, ..entry };
        assert_eq!(Place::of(&none_yet, &a).unwrap().columns, [0]);
    }

    #[test]
    fn parts_keep_their_numbers() {
        let next = vec![("b".to_owned(), 0, 7), ("a".to_owned(), 0, 9)];
        let offsets = Offsets { next, ..Offsets::default() };
        assert_eq!(saved_offsets(restored_offsets(&offsets)), offsets);
        let at = |next: &[(&str, i32, i64)]| {
            let next = next.iter().map(|(topic, part, next)| (topic.to_string(), *part, *next)).collect();
            let offsets = Some(Offsets { next, ..Offsets::default() });
            Place::of(&SourceEntry { offsets, ..SourceEntry::default() }, &Schema::empty()).unwrap()
        };
        let place = at(&[("b", 0, 7), ("a", 0, 9)]);
        assert_ne!(place.start(), at(&[("a", 0, 9), ("b", 0, 7)]).start(), "no copy serves both");
    }

    #[test]
    fn a_table_is_read_from_the_least_place_on_and_each_leaves_out_what_it_had() {
        let places = [place(100, 3), place(40, 5), place(70, 3)];
        assert!(places.iter().all(|one| one.start() == places[0].start()));
        let least = Place::least(places.iter()).unwrap();
        assert_eq!(least.position, Position { rows: 40, dead_rows: 3 });
        assert_eq!(places[0].ahead_of(least.position), Position { rows: 60, dead_rows: 0 });
        assert_eq!(places[1].ahead_of(least.position), Position { rows: 0, dead_rows: 2 });
        let environment =
            least.environment(&ScanEnvironment::new(laxity_graph::ProcessingTime(5), EventTime(99)));
        assert_eq!((environment.skip_rows, environment.start_wall), (40, EventTime(7)));
        assert_eq!(environment.restored, Some(RestoredScan { rows: 40, dead_rows: 3 }));
        assert_eq!(environment.behind, None);
    }

    #[test]
    fn rows_that_are_counted_from_another_place_are_read_by_another_copy() {
        let entry = SourceEntry { rows: 40, after_records: 7, start_wall_ms: 7, ..SourceEntry::default() };
        let amid = Place::of(&entry, &Schema::empty()).unwrap();
        assert_ne!(amid.start(), place(40, 0).start());
        let environment =
            amid.environment(&ScanEnvironment::new(laxity_graph::ProcessingTime(5), EventTime(99)));
        let behind = RecordPlace { records: 7, due_at_start: None };
        assert_eq!((environment.behind, environment.skip_rows), (Some(behind), 40));
    }
}
