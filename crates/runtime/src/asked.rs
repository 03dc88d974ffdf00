//! When operators that judge rows by their arrival want to be told the time, and which tables tell them: behind all rows that
//! were due by then, which no clock beside the tables can know.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::{OperatorId, ProcessingTime};
use parking_lot::Mutex;

/// Of one query. Nothing else is locked while its lock is held.
#[derive(Debug, Default)]
pub(crate) struct AskedTimes {
    is_any: AtomicBool,
    is_behind_others: AtomicBool,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    asking: Vec<Asking>,
    /// Who reads for each source, once that looked.
    tables: Vec<(OperatorId, OperatorId)>,
}

#[derive(Debug)]
struct Asking {
    operator: OperatorId,
    /// It is told by its own table; else by those of all sources, through what lies between.
    is_source: bool,
    at: Option<ProcessingTime>,
    /// Sources that have passed that instant on since it was asked for.
    told_by: Vec<OperatorId>,
    step_ms: i64,
}

impl Asking {
    fn hears(&self, source: OperatorId) -> bool {
        !self.is_source || self.operator == source
    }

    /// What it still wants that source to tell.
    fn wants(&self, source: OperatorId) -> Option<ProcessingTime> {
        self.at.filter(|_| self.hears(source) && !self.told_by.contains(&source))
    }
}

impl AskedTimes {
    /// That operator judges rows by when they came, batch by batch, each of which may reach over so much event time.
    pub(crate) fn add(&self, operator: OperatorId, is_source: bool, step_ms: i64) {
        let asking = Asking { operator, is_source, at: None, told_by: Vec::new(), step_ms };
        self.all.lock().asking.push(asking);
        self.is_any.store(true, Relaxed);
        self.is_behind_others.fetch_or(!is_source, Relaxed);
    }

    /// Whether any operator does.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// Whether one does that is no source: whoever is told the time passes it on.
    pub(crate) fn is_behind_others(&self) -> bool {
        self.is_behind_others.load(Relaxed)
    }

    /// It wants to be told then, or not any more.
    pub(crate) fn ask(&self, operator: OperatorId, at: Option<ProcessingTime>) {
        let mut all = self.all.lock();
        if let Some(asking) = all.asking.iter_mut().find(|asking| asking.operator == operator) {
            asking.at = at;
            asking.told_by.clear();
        }
    }

    /// What is wanted of a source, as the table hears that reads for it.
    pub(crate) fn asked(&self, source: OperatorId, table: OperatorId) -> Option<ProcessingTime> {
        if !self.is_any() {
            return None;
        }
        let mut all = self.all.lock();
        match all.tables.iter_mut().find(|(known, _)| *known == source) {
            Some((_, known)) => *known = table,
            None => all.tables.push((source, table)),
        }
        all.asking.iter().filter_map(|asking| asking.wants(source)).min()
    }

    /// Over how much event time a batch for it may reach, ms.
    pub(crate) fn step_ms(&self, source: OperatorId) -> Option<i64> {
        if !self.is_any() {
            return None;
        }
        let all = self.all.lock();
        all.asking.iter().filter(|asking| asking.hears(source)).map(|asking| asking.step_ms).min()
    }

    /// The source was told, or will be behind what waits for it: not again before that is asked for.
    pub(crate) fn told(&self, source: OperatorId, until: ProcessingTime) {
        for asking in &mut self.all.lock().asking {
            if asking.wants(source).is_some_and(|at| at <= until) {
                asking.told_by.push(source);
            }
        }
    }

    /// What it was to be told is lost.
    pub(crate) fn untold(&self, source: OperatorId) {
        self.all.lock().asking.iter_mut().for_each(|asking| asking.told_by.retain(|told| *told != source));
    }

    /// The tables that have yet to tell that operator what it asked for; none if it is not known who reads for it.
    pub(crate) fn tables(&self, operator: OperatorId) -> Vec<OperatorId> {
        let all = self.all.lock();
        let Some(asking) = all.asking.iter().find(|asking| asking.operator == operator) else {
            return Vec::new();
        };
        let wanted = all.tables.iter().filter(|(source, _)| asking.wants(*source).is_some());
        wanted.map(|&(_, table)| table).collect()
    }
}

/// How far the time has come by each channel of an operator that hears several.
#[derive(Debug, Default)]
pub(crate) struct ToldTimes {
    by_channel: Vec<ProcessingTime>,
}

impl ToldTimes {
    /// A channel says so. The least of all, if that rose; always, where there is one.
    pub(crate) fn tell(
        &mut self,
        channel: usize,
        channels: usize,
        until: ProcessingTime,
    ) -> Option<ProcessingTime> {
        if channels == 1 {
            return Some(until);
        }
        self.by_channel.resize(channels, ProcessingTime::ZERO);
        let least = |times: &[ProcessingTime]| times.iter().copied().min().unwrap_or(until);
        let before = least(&self.by_channel);
        self.by_channel[channel] = self.by_channel[channel].max(until);
        let after = least(&self.by_channel);
        (after > before).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> ProcessingTime {
        ProcessingTime(ms * 1_000_000)
    }

    #[test]
    fn who_is_behind_two_sources_hears_both() {
        let (asked, [one, other, join]) = (AskedTimes::default(), [0, 1, 2].map(OperatorId));
        let [table, another] = [10, 11].map(OperatorId);
        assert_eq!(asked.asked(one, table), None);
        asked.add(join, false, 60);
        assert!(asked.is_behind_others());
        assert_eq!((asked.asked(one, table), asked.asked(other, another)), (None, None));
        assert_eq!(asked.step_ms(other), Some(60));
        asked.ask(join, Some(ms(5)));
        assert_eq!(asked.tables(join), [table, another]);
        asked.told(one, ms(4));
        assert_eq!(asked.asked(one, table), Some(ms(5)));
        asked.told(one, ms(7));
        assert_eq!((asked.asked(one, table), asked.asked(other, another)), (None, Some(ms(5))));
        assert_eq!(asked.tables(join), [another]);
        asked.untold(one);
        assert_eq!(asked.tables(join), [table, another]);
        asked.ask(join, Some(ms(9)));
        asked.told(other, ms(9));
        assert_eq!((asked.asked(one, table), asked.asked(other, another)), (Some(ms(9)), None));
    }

    #[test]
    fn the_time_of_several_channels_is_the_least_and_never_falls() {
        let mut told = ToldTimes::default();
        assert_eq!(told.tell(0, 2, ms(5)), None);
        assert_eq!(told.tell(1, 2, ms(3)), Some(ms(3)));
        assert_eq!(told.tell(1, 2, ms(2)), None);
        assert_eq!(told.tell(1, 2, ms(9)), Some(ms(5)));
        assert_eq!(told.tell(0, 2, ms(9)), Some(ms(9)));
        assert_eq!(ToldTimes::default().tell(0, 1, ms(1)), Some(ms(1)));
    }
}
