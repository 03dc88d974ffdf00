use laxity_sched::{Event, Needs, Rank, Ties, Told, WaitBound};

/// `rr`: units take turns in the order of their ids, each at most a quantum.
///
/// Aurora's default across boxes (§3.1) and Klink's baseline "RR". The key is the round in which a unit's turn
/// comes, ties by id: a unit that joins behind the one served last still has its turn in this round.
/// Blind to urgency; the wait grows with the number of ready units.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    round: f64,
    last: Option<u32>,
}

impl Rank for RoundRobin {
    fn needs(&self) -> Needs {
        let told = Told { granted: true, ..Told::default() };
        Needs { told, ties: Ties::Id, ..Needs::by_turn(WaitBound::Turns) }
    }

    fn join(&mut self, unit: u32, _head: f64) -> f64 {
        if self.last.is_some_and(|last| unit <= last) { self.round + 1.0 } else { self.round }
    }

    fn on(&mut self, event: Event) {
        if let Event::Granted { unit, priority } = event {
            self.round = priority;
            self.last = Some(unit);
        }
    }
}
