//! Several virtual machines asked for their threads at once, within one bounded wait.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::{JavaThread, JvmError};
use crate::clock::since_boot_ns;

/// Thread dumps, each asked for on a thread of its own: a virtual machine that hangs is not waited for longer than the
/// others may take.
#[derive(Debug, Default)]
pub(crate) struct Dumps {
    /// By process; not yet answered.
    asked: BTreeMap<u32, Receiver<Result<Vec<JavaThread>, JvmError>>>,
}

impl Dumps {
    /// Those that came within `patience`. One that comes later is answered by the next call that asks for it.
    pub fn read(
        &mut self,
        pids: impl IntoIterator<Item = u32>,
        patience: Duration,
    ) -> BTreeMap<u32, Result<Vec<JavaThread>, JvmError>> {
        self.read_by(pids, patience, super::threads)
    }

    fn read_by(
        &mut self,
        pids: impl IntoIterator<Item = u32>,
        patience: Duration,
        dump: fn(u32) -> Result<Vec<JavaThread>, JvmError>,
    ) -> BTreeMap<u32, Result<Vec<JavaThread>, JvmError>> {
        let mut answers = BTreeMap::new();
        let mut waiting = Vec::new();
        for pid in pids {
            waiting.push(pid);
            if self.asked.contains_key(&pid) {
                continue;
            }
            let (sender, receiver) = channel();
            let asked = std::thread::Builder::new().name("laxity-dump".into()).spawn(move || {
                // Nobody may wait for it any more.
                let _ = sender.send(dump(pid));
            });
            match asked {
                Ok(_) => drop(self.asked.insert(pid, receiver)),
                Err(source) => drop(answers.insert(pid, Err(JvmError::Io { pid, source }))),
            }
        }
        let until_ns = since_boot_ns() + patience.as_nanos() as u64;
        for pid in waiting {
            let Some(receiver) = self.asked.get(&pid) else { continue };
            let left = Duration::from_nanos(until_ns.saturating_sub(since_boot_ns()));
            match receiver.recv_timeout(left) {
                Ok(answer) => drop(answers.insert(pid, answer)),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {}
            }
            self.asked.remove(&pid);
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_hangs_does_not_hold_up_another() {
        fn dump(pid: u32) -> Result<Vec<JavaThread>, JvmError> {
            if pid == 1 {
                std::thread::sleep(Duration::from_millis(400));
            }
            Ok(vec![JavaThread { name: "main".into(), tid: pid }])
        }
        let mut dumps = Dumps::default();
        let first = dumps.read_by([1, 2], Duration::from_millis(100), dump);
        assert_eq!(first.keys().copied().collect::<Vec<_>>(), [2]);
        let second = dumps.read_by([1], Duration::from_secs(10), dump);
        assert_eq!(second[&1].as_ref().unwrap()[0].tid, 1);
        assert!(dumps.asked.is_empty());
    }
}
