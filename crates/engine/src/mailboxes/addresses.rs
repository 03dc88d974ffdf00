use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use laxity_graph::OperatorId;
use laxity_sched::Address;

/// On which shard each operator is, and what it is called there; read without a lock.
///
/// An operator never moves, and its id is given again only when nothing is on its way to it any more, so that whoever
/// has an id in good faith finds the operator that was meant, or learns from its shard that it is gone.
pub(super) struct Addresses {
    /// Block b has the 2^b ids from 2^b - 1 on, so that entries stay where they are as the table grows.
    blocks: [OnceLock<Box<[AtomicU64]>>; BLOCKS],
}

/// Enough for every 32-bit id.
const BLOCKS: usize = u32::BITS as usize + 1;

const NOWHERE: u64 = u64::MAX;

impl Addresses {
    pub fn new() -> Addresses {
        Addresses { blocks: [const { OnceLock::new() }; BLOCKS] }
    }

    pub fn place(&self, id: OperatorId, address: Address) {
        let (block, offset) = place_of(id);
        let entries =
            self.blocks[block].get_or_init(|| (0..1_u64 << block).map(|_| AtomicU64::new(NOWHERE)).collect());
        entries[offset].store((address.shard as u64) << 32 | u64::from(address.local.0), Relaxed);
    }

    /// There is no operator of that id any more.
    pub fn forget(&self, id: OperatorId) {
        let (block, offset) = place_of(id);
        if let Some(entries) = self.blocks[block].get() {
            entries[offset].store(NOWHERE, Relaxed);
        }
    }

    #[inline]
    pub fn locate(&self, id: OperatorId) -> Option<Address> {
        let (block, offset) = place_of(id);
        let entry = self.blocks[block].get()?[offset].load(Relaxed);
        (entry != NOWHERE)
            .then_some(Address { shard: (entry >> 32) as usize, local: OperatorId(entry as u32) })
    }
}

#[inline]
fn place_of(id: OperatorId) -> (usize, usize) {
    let number = u64::from(id.0) + 1;
    let block = number.ilog2();
    (block as usize, (number - (1 << block)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_found_and_no_other() {
        let addresses = Addresses::new();
        let address = |id: u32| Address { shard: id as usize % 3, local: OperatorId(id / 3) };
        for id in (0..100).filter(|id| id % 7 != 0) {
            addresses.place(OperatorId(id), address(id));
        }
        for id in 0..100 {
            assert_eq!(addresses.locate(OperatorId(id)), (id % 7 != 0).then_some(address(id)));
        }
        addresses.forget(OperatorId(4));
        addresses.forget(OperatorId(1 << 20));
        assert_eq!(addresses.locate(OperatorId(4)), None);
        addresses.place(OperatorId(4), address(5));
        assert_eq!(addresses.locate(OperatorId(4)), Some(address(5)));
        assert_eq!(addresses.locate(OperatorId(1 << 20)), None);
        assert_eq!(addresses.locate(OperatorId(u32::MAX)), None);
    }
}
