//! Rows aggregated before they come to their windows: groups of a slice of time that lies whole in each window that it
//! touches. What several windowed aggregations over the same rows would do to each row is done once, and each of them
//! takes the groups ("shared slices": Krishnamurthy, Wu and Franklin, SIGMOD 2006, section 3).

use std::sync::Arc;

use arrow::array::{AsArray, UInt32Array};
use arrow::datatypes::UInt32Type;
use datafusion_common::DataFusionError;
use laxity_graph::{EventTime, ProcessingTime};

use super::WindowAggregate;
use crate::groups::Partial;

/// Groups of rows of one slice, in time for every window that holds it.
pub struct GroupsOfSlice {
    start_ms: i64,
    partial: Partial,
    ingested: ProcessingTime,
}

/// So many groups are taken at once: some 100 µs of work.
const GROUPS_AT_ONCE: usize = 1_024;

impl GroupsOfSlice {
    /// How many groups.
    pub(crate) fn len(&self) -> usize {
        self.partial.len
    }

    /// The same for others: `whose` are pairs, in order, of what the key in that place is and what it is to be. Groups of
    /// which there are none are left out, and those of which there are several come several times. `None` of nobody.
    pub(crate) fn with_key(
        &self,
        place: usize,
        whose: &[(u32, u32)],
    ) -> Result<Option<GroupsOfSlice>, DataFusionError> {
        let key = self.partial.key(place).and_then(|key| key.as_primitive_opt::<UInt32Type>());
        let key =
            key.ok_or_else(|| DataFusionError::Internal(format!("key {place} says whose no row is")))?;
        let (mut groups, mut keys) = (Vec::with_capacity(key.len()), Vec::with_capacity(key.len()));
        let mut known: (u32, &[(u32, u32)]) = (u32::MAX, &[]);
        for (group, &of) in key.values().iter().enumerate() {
            // Neighbours are often alike.
            if known.0 != of {
                let from = whose.partition_point(|pair| pair.0 < of);
                let count = whose[from..].partition_point(|pair| pair.0 == of);
                known = (of, &whose[from..from + count]);
            }
            groups.extend(std::iter::repeat_n(group as u32, known.1.len()));
            keys.extend(known.1.iter().map(|pair| pair.1));
        }
        if groups.is_empty() {
            return Ok(None);
        }
        let partial =
            self.partial.taken(&UInt32Array::from(groups), place, Arc::new(UInt32Array::from(keys)))?;
        Ok(Some(GroupsOfSlice { partial, ..*self }))
    }
}

impl WindowAggregate {
    /// Whether there are groups of windows that end at this watermark. Of one that was never told of time.
    pub(crate) fn has_groups(&self, watermark: EventTime) -> bool {
        self.parts.has_ended(watermark)
    }

    /// Takes out what rows of these windows have come to, in pieces. Of one that was never told of time, whose windows follow
    /// each other: they are the slices.
    pub(crate) fn take_groups(
        &mut self,
        watermark: EventTime,
    ) -> Result<Vec<GroupsOfSlice>, DataFusionError> {
        let mut pieces = Vec::new();
        for (start_ms, groups, ingested) in self.parts.take_ended(watermark, &self.aggregation)? {
            let partial = groups.seal()?;
            for offset in (0..partial.len).step_by(GROUPS_AT_ONCE) {
                let partial = partial.slice(offset, GROUPS_AT_ONCE.min(partial.len - offset));
                pieces.push(GroupsOfSlice { start_ms, partial, ingested });
            }
        }
        Ok(pieces)
    }

    pub(super) fn merge(&mut self, groups: &GroupsOfSlice) -> Result<(), DataFusionError> {
        let GroupsOfSlice { start_ms, partial, ingested } = groups;
        self.parts.merge(*start_ms, &self.aggregation, partial, *ingested, &mut self.scratch)
    }
}
