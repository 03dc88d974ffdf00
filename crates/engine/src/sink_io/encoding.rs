//! The half of an output that workers use: several queries may write one table through one encoder, and the last to end
//! completes it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use laxity_connect::{Encoder, TableSpec};
use laxity_runtime::Outlet;
use parking_lot::{Mutex, MutexGuard};

/// The encoder of an output, and buffers for what it makes.
pub(super) struct Encoding {
    open: Mutex<Open>,
    pub spare: Spare,
}

pub(super) struct Open {
    /// Those that still write here, by their address.
    outlets: HashMap<usize, Arc<Outlet>>,
    /// What they write.
    table: Arc<TableSpec>,
    /// Others may join them.
    serves_all: bool,
    /// `None` once the output is complete.
    encoder: Option<Box<dyn Encoder>>,
    spare: Spare,
}

/// What is left to be done for an outlet that has no more rows.
pub(super) enum Ended {
    /// Others write on.
    Left,
    /// It was the last: the bytes that complete the output.
    Last(Vec<u8>),
}

impl Encoding {
    /// Of an output that nobody writes to.
    pub fn new(encoder: Box<dyn Encoder>, table: Arc<TableSpec>, serves_all: bool) -> Encoding {
        let spare = Spare::default();
        let (encoder, outlets) = (Some(encoder), HashMap::new());
        let open = Open { outlets, table, serves_all, encoder, spare: spare.clone() };
        Encoding { open: Mutex::new(open), spare }
    }

    pub fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}

impl Open {
    /// One more writes here. False if that cannot be: the output is complete, or another table's by now.
    pub fn join(&mut self, table: &TableSpec, outlet: &Arc<Outlet>) -> bool {
        let is_it = self.encoder.is_some() && self.serves_all && self.table.is(table);
        if is_it {
            self.enter(outlet);
        }
        is_it
    }

    /// One writes here that takes the place of another. False if that one writes something else, or no more.
    pub fn follow(&mut self, table: &TableSpec, before: &Arc<Outlet>, outlet: &Arc<Outlet>) -> bool {
        let is_it = self.is_written_by(before) && self.table.is(table);
        if is_it {
            self.enter(outlet);
        }
        is_it
    }

    /// As [`join`](Open::join), where it is known to be right.
    pub fn enter(&mut self, outlet: &Arc<Outlet>) {
        self.outlets.insert(address(outlet), outlet.clone());
    }

    /// True while it may write here.
    pub fn is_written_by(&self, outlet: &Arc<Outlet>) -> bool {
        self.encoder.is_some() && self.outlets.contains_key(&address(outlet))
    }

    /// All who still write here.
    pub fn outlets(&self) -> Vec<Arc<Outlet>> {
        self.outlets.values().cloned().collect()
    }

    /// The bytes of rows; `None` if there are none: because they go nowhere, are held back until there are more, or
    /// because the outlet is complete or its query has failed.
    pub fn encode(&mut self, outlet: &Arc<Outlet>, rows: &RecordBatch) -> Option<Vec<u8>> {
        // A number goes to another output once this one is complete.
        let is_ours = self.outlets.contains_key(&address(outlet)) && !outlet.query.failed();
        let encoder = self.encoder.as_mut().filter(|_| is_ours)?;
        let mut bytes = self.spare.take();
        if let Err(error) = encoder.encode(rows, &mut bytes) {
            crate::fault::Fault::from(error).end(&outlet.query);
            bytes.clear();
        }
        if bytes.is_empty() {
            self.spare.give(bytes);
            return None;
        }
        Some(bytes)
    }

    /// What completes the files begun, before the output is prepared.
    pub fn cut(&mut self, outlet: &Arc<Outlet>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let cut = self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.cut(&mut bytes));
        if let Err(error) = cut {
            crate::fault::Fault::from(error).end(&outlet.query);
            bytes.clear();
        }
        bytes
    }

    /// It will write nothing, and has written nothing. True if nobody else writes here: nothing will be encoded.
    pub fn discard(&mut self, outlet: &Arc<Outlet>) -> bool {
        let is_ours = self.outlets.remove(&address(outlet)).is_some();
        let is_last = is_ours && self.outlets.is_empty();
        if is_last {
            self.encoder = None;
        }
        is_last
    }

    /// It writes no more; `None` if it was not one of these.
    pub fn end(&mut self, outlet: &Arc<Outlet>) -> Option<Ended> {
        self.outlets.remove(&address(outlet))?;
        if !self.outlets.is_empty() {
            return Some(Ended::Left);
        }
        let mut encoder = self.encoder.take()?;
        let mut bytes = Vec::new();
        if let Err(error) = encoder.finish(&mut bytes) {
            crate::fault::Fault::from(error).end(&outlet.query);
            bytes.clear();
        }
        Some(Ended::Last(bytes))
    }
}

/// Nobody else has it while the outlet is held.
fn address(outlet: &Arc<Outlet>) -> usize {
    Arc::as_ptr(outlet).addr()
}

/// Buffers to encode into once more.
#[derive(Clone, Default)]
pub(super) struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    /// One is filled while the other is written; and a long one is not kept for the short results that follow.
    const BUFFERS_MAX: usize = 2;
    const BUFFER_BYTES_MAX: usize = 1 << 20;

    fn take(&self) -> Vec<u8> {
        self.0.lock().pop().unwrap_or_default()
    }

    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.0.lock();
        if buffers.len() < Spare::BUFFERS_MAX && buffer.capacity() <= Spare::BUFFER_BYTES_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }
}
