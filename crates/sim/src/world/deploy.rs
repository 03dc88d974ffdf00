//! The start of a query: each machine that has a part of it hears of its operators and tables.

use std::collections::BTreeMap;

use laxity_graph::QueryId;
use laxity_runtime::Look;
use laxity_sched::{OperatorSpec, QuerySpec};

use super::World;
use crate::event::Event;
use crate::modelled::Modelled;

/// How a query starts.
impl<C: Modelled> World<C> {
    pub(super) fn deploy(&mut self, index: u32) {
        self.watch.on(self.now, Event::Deployed { query: index });
        let settings = &self.queries[index as usize].dataflow.settings;
        let operators = self.topology.queries[index as usize].clone();
        let mut here: BTreeMap<u32, Vec<OperatorSpec>> = BTreeMap::new();
        for operator in operators {
            let place = self.topology.operator(operator);
            // Those that are fed from other machines only are entries here, as sources are.
            let above = place.upstream.iter().map(|&above| self.topology.operator(above));
            let above = above.filter(|above| above.machine == place.machine).map(|above| above.local);
            here.entry(place.machine).or_default().push(OperatorSpec {
                id: place.local,
                query: QueryId(index),
                upstream: above.collect(),
                window: place.window.filter(|window| window.ends().is_some()),
                channels: place.channels.len() as u32,
            });
        }
        let query = QuerySpec {
            id: QueryId(index),
            target_ns: settings.latency_target.ns(),
            weight: settings.weight,
            qos: settings.qos.clone(),
        };
        let spans = here.len() > 1;
        for (machine, operators) in here {
            let sharing = &mut self.machines[machine as usize].sharing;
            sharing.add_query(query.clone(), operators);
            sharing.allow(query.id, self.setup.shed || settings.shed, settings.leaves_out);
        }
        if spans {
            self.tell_of_windows_elsewhere(index);
        }
        for table in self.tables_of[index as usize].clone() {
            let look = Look::due(self.now);
            if self.setup.sources.scheduled().is_some() {
                self.add_table(table);
                self.appoint_look(table, look);
                let machine = self.topology.operator(self.tables[table as usize].place).machine;
                self.dispatch(machine);
            } else {
                self.appoint(table, look);
            }
        }
    }

    /// A machine whose sources lead to windows on another one predicts their watermarks too.
    fn tell_of_windows_elsewhere(&mut self, index: u32) {
        for closing in self.topology.queries[index as usize].clone() {
            let place = self.topology.operator(closing);
            let Some(window) = place.window.filter(|window| window.ends().is_some()) else { continue };
            let machine = place.machine;
            let mut above = place.upstream.clone();
            let mut next = 0;
            while let Some(&operator) = above.get(next) {
                next += 1;
                let place = self.topology.operator(operator);
                for &further in &place.upstream {
                    if !above.contains(&further) {
                        above.push(further);
                    }
                }
                let elsewhere = place.machine != machine && self.topology.is_entry(operator);
                let sharing = &mut self.machines[place.machine as usize].sharing;
                if let Some(scheduler) = sharing.only()
                    && elsewhere
                {
                    scheduler.add_window_elsewhere(place.local, window);
                }
            }
        }
    }
}
