//! How queries come, change and go, and how costs travel up their paths.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId};

use super::operator::{Links, Operator, Query, Run};
use super::switch::rank_operator_again;
use crate::context::{Channel, deferring_ends};
use crate::mailbox::Mailbox;
use crate::{
    CostModel, Event, Frontier, Message, OperatorSpec, QuerySpec, Scheduler, Selectivity, Traversal, Unit,
};

/// What queries look like, and what is known along their paths.
impl<T> Scheduler<T> {
    /// A query is about to get operators.
    pub fn add_query(&mut self, spec: QuerySpec) {
        let index = spec.id.index();
        if self.queries.len() <= index {
            self.queries.resize_with(index + 1, || None);
        }
        if self.composition.unit.is_query() {
            self.ready.grow(index + 1);
        }
        self.queries[index] = Some(Query { spec, operators: Vec::new(), windows: None, ladder: None });
    }

    /// An operator instance starts, idle.
    ///
    /// # Panics
    /// If its query or an operator upstream of it was not added before.
    pub fn add_operator(&mut self, spec: OperatorSpec) {
        let OperatorSpec { id, query: query_id, upstream, window, channels } = spec;
        let index = id.index();
        let slide_above_ms = upstream
            .iter()
            .map(|&u| {
                self.operator(u)
                    .unwrap_or_else(|| panic!("operator {id} comes before its input {u}"))
                    .links
                    .slide_ms
            })
            .max()
            .unwrap_or(0);
        let all_sources = match window {
            Some(_) if upstream.is_empty() => vec![id],
            Some(_) => self.sources_of(&upstream),
            None => Vec::new(),
        };
        let window_ends = deferring_ends(window, slide_above_ms);
        let above_window =
            upstream.iter().filter_map(|&above| self.operator(above)).any(|above| above.links.below_window);
        let query = self.queries.get_mut(query_id.index()).and_then(Option::as_mut);
        let query = query.unwrap_or_else(|| panic!("operator {id} comes before its query {query_id}"));
        query.operators.push(id);
        let cost = CostModel::default();
        let operator = Operator {
            unit: if self.composition.unit.is_query() { query_id.0 } else { id.0 },
            query: query_id,
            running: false,
            blocked: false,
            resume: false,
            mailbox: Mailbox::default(),
            run: Run::default(),
            path_cost_ns: 0,
            reply_ns: cost.usual_ns(),
            cost,
            target_ns: query.spec.target_ns,
            weight: query.spec.weight as f32,
            defers: false,
            selectivity: Selectivity::default(),
            is_source: upstream.is_empty(),
            channel: Channel::NEW,
            links: Box::new(Links {
                window,
                remote_path_cost_ns: 0,
                slide_ms: window.map_or(slide_above_ms, |w| w.slide_ms),
                channels: vec![Channel::NEW; channels.saturating_sub(1) as usize],
                downstream: Vec::new(),
                deferring_to: None,
                window_ends,
                on_the_way: None,
                sources: Vec::new(),
                frontier: Frontier::default(),
                feeds_windows: false,
                expected: None,
                below_window: window.is_some() || above_window,
                at: (0, EventTime::MIN),
                sunk: Vec::new(),
                upstream,
            }),
        };
        if self.operators.len() <= index {
            self.operators.resize_with(index + 1, || None);
        }
        for place in 0..operator.links.upstream.len() {
            let above = operator.links.upstream[place];
            self.operators[above.index()].as_mut().expect("checked above").links.downstream.push(id);
        }
        self.operators[index] = Some(operator);
        self.refresh_deferral_above(id);
        self.add_windows(query_id, window, &all_sources);
        self.ready.grow(if self.composition.unit.is_query() { 0 } else { index + 1 });
        self.view.graph_changed();
        self.path_changed(id);
    }

    /// A query ends. Its queued messages are handed back; what runs finishes, and its report is ignored.
    pub fn remove_query(&mut self, id: QueryId) -> Vec<Message<T>> {
        let Some(query) = self.queries.get_mut(id.index()).and_then(Option::take) else {
            return Vec::new();
        };
        self.view.graph_changed();
        if let Some(shedder) = &mut self.shedder {
            shedder.forget(id);
        }
        self.remote_costs.retain(|remote| remote.query != id);
        self.composition.rank.on(Event::Removed { query: id });
        let mut messages = Vec::new();
        for id in query.operators {
            let Some(mut operator) = self.operators[id.index()].take() else { continue };
            self.ready.remove(operator.unit);
            self.relieve(operator.blocked, operator.mailbox.bytes());
            // Its number may come again, and another worker have that.
            for worker in &mut self.workers {
                worker.unit = worker.unit.filter(|&unit| unit != operator.unit);
            }
            while let Some(queued) = operator.mailbox.pop() {
                messages.push(queued.message);
            }
            for above in operator.links.upstream {
                if let Some(above) = self.operators[above.index()].as_mut() {
                    above.links.downstream.retain(|&below| below != id);
                }
                self.refresh_path(above);
                self.unblock(above, self.latest);
            }
        }
        messages
    }

    /// A query has another target, weight or QoS from now on. What waits is ranked anew, as if it had come under them.
    pub fn alter_query(&mut self, spec: QuerySpec, now: ProcessingTime) {
        let Some(query) = self.queries.get_mut(spec.id.index()).and_then(Option::as_mut) else { return };
        let (target_ns, weight) = (spec.target_ns, spec.weight as f32);
        query.spec = spec;
        self.view.graph_changed();
        let operators = query.operators.clone();
        for &id in &operators {
            let Some(operator) = self.operators[id.index()].as_mut() else { continue };
            let before_ns = std::mem::replace(&mut operator.target_ns, target_ns);
            operator.weight = weight;
            operator.mailbox.alter_deadlines(before_ns, target_ns);
            rank_operator_again(operator, id, &mut *self.composition.rank, self.urgent_by.inherits(), now);
        }
        for id in operators {
            if let Some(unit) = self.operator(id).map(|operator| operator.unit) {
                self.urgency_changed(unit);
            }
        }
    }

    /// The reply context of a finished message: one hop up, as acknowledgements travel (Cameo §4.3).
    pub(super) fn reply(&mut self, id: OperatorId) {
        let Some(operator) = self.operators[id.index()].as_mut() else { return };
        let reply_ns = operator.cost.usual_ns() + operator.path_cost_ns;
        let told_ns = operator.reply_ns;
        // A change that no deadline would notice is not worth the walk.
        if reply_ns.abs_diff(told_ns) <= told_ns / 64 {
            return;
        }
        operator.reply_ns = reply_ns;
        for place in 0..operator.links.upstream.len() {
            let Some(operator) = &self.operators[id.index()] else { return };
            let id = operator.links.upstream[place];
            let Some(above) = self.operators[id.index()].as_mut() else { continue };
            if reply_ns >= above.path_cost_ns {
                above.path_cost_ns = reply_ns;
                self.view.touch(id);
            } else if told_ns == above.path_cost_ns {
                self.refresh_path(id);
            }
        }
    }

    /// What the operators below, on another machine, replied: C_o + C_path, the largest of theirs.
    pub fn on_reply(&mut self, id: OperatorId, path_cost_ns: u64) {
        let Some(operator) = self.operators.get_mut(id.index()).and_then(Option::as_mut) else { return };
        operator.links.remote_path_cost_ns = path_cost_ns;
        self.refresh_path(id);
        self.reply(id);
    }

    /// C_path: the maximum over the operators below of what they replied.
    fn refresh_path(&mut self, id: OperatorId) {
        let Some(operator) = self.operator(id) else { return };
        let replies =
            operator.links.downstream.iter().filter_map(|&below| self.operator(below)).map(|o| o.reply_ns);
        let path_cost_ns = replies.max().unwrap_or(0).max(operator.links.remote_path_cost_ns);
        if let Some(operator) = self.operators[id.index()].as_mut() {
            operator.path_cost_ns = path_cost_ns;
            self.view.touch(id);
        }
    }

    /// A new operator lengthens every path to it at once, so that priors count before the first reply.
    fn path_changed(&mut self, id: OperatorId) {
        let mut changed = vec![id];
        while let Some(id) = changed.pop() {
            let Some(operator) = self.operators[id.index()].as_mut() else { continue };
            operator.reply_ns = operator.cost.usual_ns() + operator.path_cost_ns;
            let reply_ns = operator.reply_ns;
            for above in operator.links.upstream.clone() {
                if let Some(operator) = self.operators[above.index()].as_mut()
                    && operator.path_cost_ns < reply_ns
                {
                    operator.path_cost_ns = reply_ns;
                    changed.push(above);
                }
            }
        }
    }

    pub(super) fn sources_of(&self, upstream: &[OperatorId]) -> Vec<OperatorId> {
        let mut sources = Vec::new();
        let mut seen = upstream.to_vec();
        let mut place = 0;
        while let Some(&id) = seen.get(place) {
            place += 1;
            let Some(operator) = self.operator(id) else { continue };
            if operator.links.upstream.is_empty() {
                sources.push(id);
            }
            for above in &operator.links.upstream {
                if !seen.contains(above) {
                    seen.push(*above);
                }
            }
        }
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    pub(super) fn unit_urgency(&self, unit: u32) -> f64 {
        let urgency = |id: &OperatorId| {
            self.operator(*id).filter(|o| !o.running && !o.blocked).and_then(|o| o.urgency(self.urgent_by))
        };
        match self.composition.unit {
            Unit::Operator => urgency(&OperatorId(unit)).unwrap_or(f64::INFINITY),
            _ => self.unit_operators(unit).iter().filter_map(urgency).fold(f64::INFINITY, f64::min),
        }
    }

    pub(super) fn unit_messages(&self, unit: u32) -> usize {
        let messages = |id: OperatorId| self.queued_messages(id);
        match self.composition.unit {
            Unit::Operator => messages(OperatorId(unit)),
            _ => self.unit_operators(unit).iter().map(|&id| messages(id)).sum(),
        }
    }

    /// Which operator of a held unit goes next. The unit has a ready operator.
    pub(super) fn choose(&mut self, place: usize, unit: u32, now: ProcessingTime) -> OperatorId {
        match (self.composition.unit, &self.composition.traversal) {
            (Unit::Operator, _) => OperatorId(unit),
            (_, Traversal::ByRank) => self.most_urgent(unit),
            (_, Traversal::Planned(_)) => {
                if let Some(id) = self.follow_plan(place) {
                    return id;
                }
                self.plan(place, unit, now);
                self.follow_plan(place).unwrap_or_else(|| self.most_urgent(unit))
            }
        }
    }

    /// Among equals the one nearest to a sink, so that rows leave before more come in.
    fn most_urgent(&self, unit: u32) -> OperatorId {
        let mut best: Option<(f64, OperatorId)> = None;
        for &id in self.unit_operators(unit) {
            let operator = self.operator(id).filter(|o| !o.running && !o.blocked);
            let urgency = operator.and_then(|o| o.urgency(self.urgent_by));
            if let Some(urgency) = urgency
                && best.is_none_or(|(least, _)| urgency <= least)
            {
                best = Some((urgency, id));
            }
        }
        best.expect("a unit is granted only while an operator of it is ready").1
    }

    fn unit_operators(&self, unit: u32) -> &[OperatorId] {
        self.query(QueryId(unit)).map_or(&[], |query| &query.operators)
    }
}
