use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use super::{DEPTH_MAX, JsonDecoder, Lines, is_too_deep};
use crate::record::{BadRecord, RecordDecoder, Records};

impl RecordDecoder for JsonDecoder {
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch {
        let lines = Lines { text: records.text(), ends: records.ends() };
        let (mut parts, mut faults) = (Vec::new(), Vec::new());
        let mut start = range.start;
        for index in range.clone() {
            let record = lines.get(index);
            // A record without a value would let the next one count for two.
            let reason = match () {
                () if record.trim_ascii().is_empty() => "an empty record".to_owned(),
                () if is_too_deep(record) => format!("nested more than {DEPTH_MAX} deep"),
                () => continue,
            };
            self.decode_lines(lines, start..index, &mut parts, &mut faults);
            faults.push((index, reason));
            start = index + 1;
        }
        self.decode_lines(lines, start..range.end, &mut parts, &mut faults);
        bad.extend(faults.into_iter().map(|(index, reason)| BadRecord { index, reason }));
        match parts.len() {
            0 => RecordBatch::new_empty(self.schema.clone()),
            1 => parts.remove(0),
            _ => concat_batches(&self.schema, &parts).expect("parts are of one schema"),
        }
    }
}
