use std::sync::Arc;

use arrow::array::RecordBatch;
use laxity_connect::Encoder;
use laxity_runtime::Outlet;
use parking_lot::{Mutex, MutexGuard};

/// The encoder of an outlet, and buffers for what it makes.
pub(super) struct Encoding {
    open: Mutex<Open>,
    pub spare: Spare,
}

pub(super) struct Open {
    outlet: Arc<Outlet>,
    /// `None` once the output is complete.
    encoder: Option<Box<dyn Encoder>>,
    spare: Spare,
}

impl Encoding {
    pub fn new(outlet: Arc<Outlet>, encoder: Box<dyn Encoder>) -> Encoding {
        let spare = Spare::default();
        Encoding { open: Mutex::new(Open { outlet, encoder: Some(encoder), spare: spare.clone() }), spare }
    }

    pub fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}

impl Open {
    /// The bytes of rows; `None` if there are none: because they go nowhere, are held back until there are more, or
    /// because the output is complete or its query has failed.
    pub fn encode(&mut self, outlet: &Arc<Outlet>, rows: &RecordBatch) -> Option<Vec<u8>> {
        // A number goes to another outlet once the output is complete.
        let is_ours = Arc::ptr_eq(&self.outlet, outlet) && !outlet.query.failed();
        let encoder = self.encoder.as_mut().filter(|_| is_ours)?;
        let mut bytes = self.spare.take();
        if let Err(error) = encoder.encode(rows, &mut bytes) {
            super::fail(&outlet.query, &error);
            bytes.clear();
        }
        if bytes.is_empty() {
            self.spare.give(bytes);
            return None;
        }
        Some(bytes)
    }

    /// Nothing will be encoded.
    pub fn discard(&mut self) {
        self.encoder = None;
    }

    /// What completes the output; `None` if it is complete.
    pub fn finish(&mut self, outlet: &Arc<Outlet>) -> Option<Vec<u8>> {
        let is_ours = Arc::ptr_eq(&self.outlet, outlet);
        let mut encoder = self.encoder.take_if(|_| is_ours)?;
        let mut bytes = Vec::new();
        if let Err(error) = encoder.finish(&mut bytes) {
            super::fail(&outlet.query, &error);
            bytes.clear();
        }
        Some(bytes)
    }
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
