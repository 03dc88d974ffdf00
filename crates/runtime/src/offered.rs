use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use laxity_graph::EventTime;

/// What a table has offered to all who share it: said once, for each to be asked when somebody looks at it.
#[derive(Debug)]
pub struct Offered {
    rows: AtomicU64,
    dead_rows: AtomicU64,
    watermark_ms: AtomicI64,
    /// Part of a bounded table read so far, as the bits of an f64; negative while unknown.
    progress_bits: AtomicU64,
}

/// How much of it there was at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfferedRows {
    pub rows: u64,
    pub dead_rows: u64,
}

impl Default for Offered {
    fn default() -> Offered {
        Offered {
            rows: AtomicU64::new(0),
            dead_rows: AtomicU64::new(0),
            watermark_ms: AtomicI64::new(EventTime::MIN.0),
            progress_bits: AtomicU64::new((-1.0_f64).to_bits()),
        }
    }
}

impl Offered {
    pub(crate) fn add(&self, rows: u64, dead_rows: u64) {
        self.rows.fetch_add(rows, Relaxed);
        if dead_rows > 0 {
            self.dead_rows.fetch_add(dead_rows, Relaxed);
        }
    }

    pub(crate) fn rows(&self) -> OfferedRows {
        OfferedRows { rows: self.rows.load(Relaxed), dead_rows: self.dead_rows.load(Relaxed) }
    }

    pub(crate) fn set_watermark(&self, watermark: EventTime) {
        self.watermark_ms.store(watermark.0, Relaxed);
    }

    pub(crate) fn watermark(&self) -> EventTime {
        EventTime(self.watermark_ms.load(Relaxed))
    }

    pub(crate) fn set_progress(&self, progress: f64) {
        self.progress_bits.store(progress.to_bits(), Relaxed);
    }

    pub(crate) fn progress(&self) -> Option<f64> {
        let progress = f64::from_bits(self.progress_bits.load(Relaxed));
        (progress >= 0.0).then_some(progress)
    }
}
