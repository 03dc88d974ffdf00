use std::time::Duration;

use laxity_graph::ProcessingTime;

/// Which partitions the watermark waits for: all but those that were silent for too long.
pub(crate) struct Idleness {
    /// `None`: however long a partition is silent, it is waited for.
    after: Option<Duration>,
    /// By partition, when its last row came, or when it was found.
    last: Vec<ProcessingTime>,
}

impl Idleness {
    pub(crate) fn new(after: Option<Duration>) -> Idleness {
        Idleness { after, last: Vec::new() }
    }

    /// So many partitions are known now.
    pub(crate) fn know(&mut self, partitions: usize, now: ProcessingTime) {
        self.last.resize(partitions, now);
    }

    /// A row has come of this one.
    pub(crate) fn row(&mut self, split: i32, now: ProcessingTime) {
        self.last[split as usize] = now;
    }

    /// Those that are waited for.
    pub(crate) fn awaited(&self, now: ProcessingTime) -> impl Iterator<Item = i32> {
        let is_awaited = move |last: &ProcessingTime| match self.after {
            Some(after) => now < last.plus(after),
            None => true,
        };
        (0..).zip(&self.last).filter(move |(_, last)| is_awaited(last)).map(|(split, _)| split)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_are_not_waited_for_until_they_return() {
        let at = ProcessingTime;
        let mut idleness = Idleness::new(Some(Duration::from_nanos(100)));
        idleness.know(2, at(0));
        let awaited = |idleness: &Idleness, now| idleness.awaited(at(now)).collect::<Vec<_>>();
        idleness.row(0, at(50));
        assert_eq!(awaited(&idleness, 99), [0, 1]);
        // Without a row from the start.
        assert_eq!(awaited(&idleness, 100), [0]);
        assert_eq!(awaited(&idleness, 150), [0; 0]);
        idleness.row(1, at(160));
        idleness.know(3, at(170));
        assert_eq!(awaited(&idleness, 170), [1, 2]);
        let patient = Idleness { after: None, ..idleness };
        assert_eq!(awaited(&patient, u64::MAX), [0, 1, 2]);
    }
}
