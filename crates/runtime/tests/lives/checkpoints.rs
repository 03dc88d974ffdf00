//! Queries that are held, saved, let go and brought back from what was saved.

use super::*;

impl World {
    /// A checkpoint begins: the query takes nothing more in, and each of its tables says how much it was given.
    pub(super) fn hold(&mut self, id: QueryId) {
        let entry = self.registry.get(id).unwrap();
        if entry.query.stopped() || self.held.iter().any(|still| still.query == id) {
            return;
        }
        let query = entry.query.clone();
        query.hold();
        let (given, with_others) = match self.visit(&query, true) {
            Some(Visited::Given(given)) => {
                let with_others = given.taken.is_some();
                (Some(given), with_others)
            }
            Some(Visited::Later) => (None, true),
            // It has come to its end, or is on its way to a copy.
            None => return self.let_go(&query),
        };
        let of_others = self.written_by_others(id);
        let (rows_given, held, saved, is_as_one) = (None, Vec::new(), None, false);
        self.held.push(Still { query: id, rows_given, held, saved, is_as_one, count: None, of_others });
        if let Some(given) = given {
            self.on_given(self.held.len() - 1, given);
        }
        self.seen.held += 1;
        self.seen.held_with_others += u64::from(with_others);
    }

    /// It is known where a held query stands.
    pub(super) fn on_given(&mut self, place: usize, given: Given<Numbers>) {
        let still = &mut self.held[place];
        still.rows_given = Some(given.position.rows);
        if let Some(DoneByOthers { held, member, .. }) = given.work {
            still.held = Every::of_member(&held, member).unwrap();
            still.is_as_one = true;
            self.seen.held_as_one += 1;
        }
        still.saved = given.taken.map(|taken| (given.position, taken));
    }

    /// Asks the tables of a held query how far it has come.
    pub(super) fn visit(&mut self, query: &Arc<Query>, is_first: bool) -> Option<Visited<Numbers>> {
        let now = self.now.now();
        for id in self.registry.get(query.id)?.tables() {
            let Some(table) = self.tables.get_mut(id) else { continue };
            let is_reader = |reader: &&Reader<Numbers>| Arc::ptr_eq(&reader.query, query);
            let Some(source) = table.intake.readers().find(is_reader).map(|reader| reader.source) else {
                continue;
            };
            let visited = table.intake.visit(query, source, is_first);
            if matches!(visited, Some(Visited::Later)) {
                table.look = Some(now);
            }
            return visited;
        }
        None
    }

    pub(super) fn written_by_others(&self, id: QueryId) -> u64 {
        self.outputs.values().filter(|output| output.outlet.query.id != id).map(|output| output.count).sum()
    }

    /// All that a held query was given has come out, and nothing else, for as long as it is held.
    pub(super) fn look_at_held(&mut self, pick: usize) {
        if self.held.is_empty() {
            return;
        }
        let place = pick % self.held.len();
        let Still { query: id, rows_given, count, of_others, is_as_one, .. } = self.held[place];
        let query = self.registry.get(id).map(|entry| entry.query.clone());
        let Some(query) = query.filter(|query| !query.stopped()) else {
            self.held.swap_remove(place);
            self.seen.stopped_while_held += 1;
            return;
        };
        let Some(rows_given) = rows_given else {
            match self.visit(&query, false) {
                Some(Visited::Given(given)) => self.on_given(place, given),
                Some(Visited::Later) => {}
                // It ends.
                None => {
                    self.held.swap_remove(place);
                    self.let_go(&query);
                }
            }
            return;
        };
        if !query.drained() {
            assert_eq!(count, None, "{id} got something while it was held and drained");
            return;
        }
        let own: Vec<u64> = self
            .registry
            .get(id)
            .unwrap()
            .instances
            .iter()
            .flat_map(|instance| instance.save().unwrap().operator)
            .collect();
        assert!(
            own.is_empty() || self.of_template.contains(&id),
            "{id} has numbers left between two messages"
        );
        assert!(own.is_empty() || !is_as_one, "{id}: others do its work");
        let held = if is_as_one { &self.held[place].held } else { &own };
        let output = self.outputs.values().find(|output| output.outlet.query.id == id).unwrap();
        let last = output.out.iter().copied().flatten().chain(held.iter().copied()).max();
        let first = output.first.or(held.iter().copied().min());
        let all = output.count + held.len() as u64;
        if let (Some(first), Some(last)) = (first, last) {
            assert_eq!((last + 1, all), (rows_given, rows_given - first), "{id}: lost or ahead");
        }
        match count {
            None => {
                self.held[place].count = Some(output.count);
                self.seen.drained_while_held += 1;
            }
            Some(count) => {
                assert_eq!(output.count, count, "{id} wrote while it was held");
                self.seen.others_went_on += u64::from(self.written_by_others(id) > of_others);
                let still = self.held.swap_remove(place);
                self.save(&query, still, own);
                self.let_go(&query);
            }
        }
    }

    /// It may go, and come back later as what was saved of it.
    pub(super) fn save(&mut self, query: &Arc<Query>, still: Still, own: Vec<u64>) {
        let Some((position, taken)) = still.saved else { return };
        let comes_back = self.saved.len() < 3 * AT_ONCE && self.random.next_u32().is_multiple_of(2);
        if !comes_back || !self.of_template.contains(&query.id) {
            return;
        }
        let output = self.outputs.values().find(|output| output.outlet.query.id == query.id).unwrap();
        let (out, first, count) = (output.out.clone(), output.first, output.count);
        let held = if still.is_as_one { still.held } else { own };
        // What is held comes first when it is restored.
        let first = first.or(held.iter().copied().min());
        self.seen.saved += 1;
        self.seen.saved_as_one += u64::from(still.is_as_one);
        self.saved.push(Saved { position, taken, held, out, first, count });
        query.end(Outcome::Cancelled);
    }

    pub(super) fn let_go(&mut self, query: &Query) {
        self.wake(query.let_go());
        query.let_end();
    }

    /// Those that were saved at places near each other come back, by one table.
    pub(super) fn restore(&mut self) {
        if self.living.len() > AT_ONCE {
            return;
        }
        const NEAR_ROWS: u64 = 500;
        self.saved.sort_by_key(|saved| saved.position.rows);
        let near = |first: &Saved| {
            let from = first.position.rows;
            self.saved.iter().filter(move |saved| (from..from + NEAR_ROWS).contains(&saved.position.rows))
        };
        let Some(first) = self.saved.iter().max_by_key(|first| near(first).count()) else { return };
        let (least, count) = (first.position.rows, near(first).count());
        let place = self.saved.iter().position(|saved| saved.position.rows == least).unwrap();
        let saved: Vec<Saved> = self.saved.drain(place..place + count).collect();
        // Each as several that go on from there, so that there are enough to be done as one.
        let copies = 1 + 6 / count;
        let saved = saved.iter().flat_map(|saved| std::iter::repeat_n(saved.clone(), copies));
        let saved: Vec<Saved> = saved.collect();
        let latest = saved.iter().map(|saved| saved.position.rows).max().unwrap();
        let now = self.now.now();
        let (mut readers, mut queries) = (Vec::new(), Vec::new());
        for saved in saved {
            let settings = QuerySettings::named(format!("r{}", self.random.next_u32()));
            let Some(reserved) = self.registry.reserve(&settings.name, 2) else { continue };
            let made = self.make(&reserved, settings, 1, true, Some(&saved));
            let (query, outlet, source) = made.expect("it can be");
            let Saved { position, taken, held, .. } = saved;
            self.seen.restored += 1;
            self.seen.restored_with_windows += u64::from(!held.is_empty());
            let skips = Position { rows: position.rows - least, dead_rows: 0 };
            let reader = Reader::new(query.clone(), source, None, false, now);
            let reader = of_template(reader, outlet).skipping(skips).going_on(taken);
            readers.push(reader.holding(Some(held)));
            queries.push(query);
        }
        let id = self.registry.table_id();
        let more = u64::from(self.random.next_u32() % 500);
        let feed = Fickle::new(Counting {
            start: now,
            next: least,
            end: if more < 100 { latest + more } else { u64::MAX },
            // Soon where the last of them was.
            gap_ns: 20_000,
            at_once: 1 + u64::from(self.random.next_u32() % 40),
        });
        let begins = Position { rows: least, dead_rows: 0 };
        let mut intake = Intake::new(id, readers).from(begins);
        let seated = intake.take_seated();
        self.open(id, intake, feed, now);
        for query in queries {
            assert!(self.registry.reads(query.id, id));
        }
        self.seen.restored_as_one += seated.len() as u64;
        self.relieve(seated);
    }
}
