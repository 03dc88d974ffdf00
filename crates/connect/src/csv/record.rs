use std::ops::Range;

use arrow::array::RecordBatch;

use super::CsvDecoder;
use super::split::SplitRecord;
use crate::record::{BadRecord, RecordDecoder, Records};

impl RecordDecoder for CsvDecoder {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        self.split.clear();
        let width = self.file_schema.fields().len();
        let mut bad_rows = Vec::new();
        for index in range {
            let (start, end) = (records.start(index), records.end(index));
            let text = &records.text()[..end];
            let reason = match start == end {
                true => Some("an empty record".to_owned()),
                false => match self.splitter.next(text, start, true, index as u64, &mut self.split) {
                    SplitRecord::Row { bytes, .. } if start + bytes == end => None,
                    SplitRecord::Row { .. } => {
                        self.split.pop();
                        Some("more than one row in a record".to_owned())
                    }
                    SplitRecord::Blank { .. } => Some("a blank line or a comment".to_owned()),
                    SplitRecord::Bad { reason, .. } => Some(reason.describe(width)),
                    SplitRecord::Incomplete => unreachable!("the end of the text ends a record"),
                },
            };
            bad.extend(reason.map(|reason| BadRecord { index, reason }));
        }
        let rows = self.parse(records.text(), &mut bad_rows);
        let unfit =
            bad_rows.into_iter().map(|row| BadRecord { index: row.line as usize, reason: row.reason });
        bad.extend(unfit);
        bad.sort_by_key(|bad| bad.index);
        rows.unwrap_or_else(|| RecordBatch::new_empty(self.schema.clone()))
    }
}
