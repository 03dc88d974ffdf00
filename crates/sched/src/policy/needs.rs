//! What a rank declares of itself once, so that the core keeps and tells only what it needs.

/// What a rank goes by and wants to be told. Whoever drives it reads this, once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// Where priorities come from.
    pub by: By,
    /// How often it looks at a snapshot of everything: by cycle to rank all units, else to review. `None`: never.
    pub look_every_ns: Option<u64>,
    /// But no more often than every so many ns for each operator there is, so that looking stays cheap. Default 0.
    pub look_ns_per_operator: u64,
    /// An urgent message makes those that must run before it in its mailbox as urgent. Right where the priority is a
    /// deadline; wrong where it describes the next message alone (shortest job). Default no.
    pub inherits: bool,
    /// t_MF is when the watermark that closes a window is forecast, for all rows on their way to it. Else it is Cameo's:
    /// a line through the rows that the sources saw, and only in front of the window itself. Default no.
    pub forecasts: bool,
    /// It reviews what waits alone: operators where nothing waits, and tables that are to be looked at, may be shown as they
    /// were, unless memory is short. Default no.
    pub reviews_work: bool,
    /// While memory is short it ranks by what frees memory, and that can only free any while nothing new comes in: sources
    /// of all queries are held from four fifths of the bound on, until half of what waited then is gone. Default no.
    pub holds_sources: bool,
    /// Events that it wants to be told.
    pub told: Told,
    /// How long a ready unit may wait under it. [`WaitBound::Ageing`] turns the core's guard on.
    pub bound: WaitBound,
    /// How units of equal priority are ordered. Default by arrival.
    pub ties: Ties,
    /// What differences between priorities mean. Default nothing.
    pub scale: Scale,
    /// Priorities are instants: outside of our own engine, what is left until then says how urgent something is, and
    /// twice as far is half as urgent. Default no.
    pub instants: bool,
    /// What a snapshot must tell of an operator for it to be placed among the others. Default nothing.
    pub reads: Reads,
}

/// Where the priorities of a rank come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A message has one as it is enqueued ([`super::Rank::message`]), and a unit that of its head.
    Message,
    /// A unit is as urgent as much waits for it, at every moment, whatever its messages are: its priority is minus its
    /// rows, each message counting as one more.
    Queue,
    /// It is found as a unit joins ([`super::Rank::join`]), says whose turn it is among the units of one scheduler, and
    /// means nothing beside those of another.
    Turn,
    /// As by turn, but a cycle can draw it for all at once.
    Lot,
    /// Every unit is ranked every so often ([`super::Rank::cycle`]).
    Cycle,
}

/// Events that a rank is told ([`super::Rank::on`]). By default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// [`super::Event::Granted`].
    pub granted: bool,
    /// [`super::Event::Started`].
    pub started: bool,
    /// [`super::Event::Ran`].
    pub ran: bool,
}

/// What of a snapshot a rank cannot do without. By default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Rows that wait.
    pub queues: bool,
    /// Costs, selectivities, costs of paths.
    pub costs: bool,
    /// Since when the message in front has been in the system.
    pub ages: bool,
    /// The message in front. What has none is last, and needs nothing to be placed there.
    pub heads: bool,
    /// Watermarks. One that reviews and does not say so sees streams as they were when queries came or went last.
    pub watermarks: bool,
}

/// What differences between the priorities of a rank mean, where they become nice values or shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Differences.
    Linear,
    /// Ratios: the priority is minus the logarithm to come.
    Logarithmic,
    /// Nothing but their order.
    Order,
}

/// Order among equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// Who joined the run queue first.
    Arrival,
    /// The lower id.
    Id,
}

/// How long a ready unit waits at most, where at most U units are ready, W workers run, and no grant runs longer
/// than G beyond the quantum Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitBound {
    /// Everyone else has one turn: ⌈U / W⌉ · (Q + G).
    Turns,
    /// Keys are instants: only work whose key is earlier goes before, so new work passes it until its key
    /// (t_MF + L at most) and none after.
    Deadline,
    /// None of its own; the core's guard gives the ageing bound plus four turns for every unit that aged before
    /// it and itself: one turn in four goes to the unit that waited longest, once that is too long.
    Ageing,
}

impl Needs {
    /// Of a rank by message.
    pub const fn by_message(bound: WaitBound) -> Needs {
        Needs {
            by: By::Message,
            look_every_ns: None,
            look_ns_per_operator: 0,
            inherits: false,
            forecasts: false,
            reviews_work: false,
            holds_sources: false,
            told: Told { granted: false, started: false, ran: false },
            bound,
            ties: Ties::Arrival,
            scale: Scale::Order,
            instants: false,
            reads: Reads::NOTHING,
        }
    }

    /// Of a rank by turn.
    pub const fn by_turn(bound: WaitBound) -> Needs {
        Needs { by: By::Turn, ..Needs::by_message(bound) }
    }

    /// Of a rank by cycle, which is so long; the core's guard bounds the wait.
    pub const fn by_cycle(period_ns: u64) -> Needs {
        Needs { by: By::Cycle, look_every_ns: Some(period_ns), ..Needs::by_message(WaitBound::Ageing) }
    }

    /// Priorities mean nothing beside those of another scheduler.
    pub fn is_by_turn(&self) -> bool {
        matches!(self.by, By::Turn | By::Lot)
    }

    /// How long a cycle is; `None` where it is not by cycle.
    pub fn cycle_ns(&self) -> Option<u64> {
        self.look_every_ns.filter(|_| self.by == By::Cycle)
    }
}

impl Reads {
    /// Nothing.
    pub const NOTHING: Reads =
        Reads { queues: false, costs: false, ages: false, heads: false, watermarks: false };
}
