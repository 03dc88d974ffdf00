use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use laxity_graph::OperatorId;
use parking_lot::Mutex;

/// What keeps a query from taking rows in while it is checkpointed, and from ending until that is done.
///
/// Who holds a query then visits each table that it reads under the table's lock: a look that had begun before is over, and
/// later ones see the hold. From there on nothing is admitted for it, so once it is drained it stays so until it is let go.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    is_held: AtomicBool,
    stays_open: AtomicBool,
    /// A source has got all there is and could not say so, as it stays open.
    wants_to_end: AtomicBool,
    /// Sources that will get nothing more, and were told so.
    ended: Mutex<Vec<OperatorId>>,
}

impl Hold {
    /// Nothing is admitted from the next look on.
    pub fn begin(&self) {
        self.stays_open.store(true, SeqCst);
        self.is_held.store(true, SeqCst);
    }

    /// Rows are admitted again.
    pub fn end(&self) {
        self.is_held.store(false, SeqCst);
    }

    /// It may end again.
    pub fn may_end(&self) {
        self.stays_open.store(false, SeqCst);
    }

    pub fn is_held(&self) -> bool {
        self.is_held.load(SeqCst)
    }

    /// Held, or what was saved of it is not safe yet.
    fn stays_open(&self) -> bool {
        self.stays_open.load(SeqCst)
    }

    /// True if it may come to its end now. If not, it is known to want that.
    pub fn may_come_to_end(&self) -> bool {
        let may = !self.stays_open();
        if !may {
            self.wants_to_end.store(true, SeqCst);
        }
        may
    }

    pub fn wants_to_end(&self) -> bool {
        self.wants_to_end.load(SeqCst)
    }

    pub fn on_end_of_input(&self, source: OperatorId) {
        self.wants_to_end.store(false, SeqCst);
        self.ended.lock().push(source);
    }

    pub fn has_ended(&self, source: OperatorId) -> bool {
        self.ended.lock().contains(&source)
    }
}
