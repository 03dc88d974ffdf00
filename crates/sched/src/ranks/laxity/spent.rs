use laxity_graph::QueryId;

use crate::QuerySnapshot;

/// CPU time that a row from the sources costs a query, with all that is done for it further down: the work behind a
/// backlog, most of which stands before the sources. Costs along the path would count windows at every message.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent {
    /// By query id.
    queries: Vec<OfQuery>,
    /// Those of which something ran since the last look, each once.
    ran: Vec<QueryId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfQuery {
    /// Since the last look.
    has_run: bool,
    new_rows: u64,
    new_ns: u64,
    /// Decayed sums of those before.
    rows: f64,
    ns: f64,
}

/// What a look keeps of those before: a memory of some three hundred, of 10 ms or more each. Picked: longer than the slides
/// of most windows, whose firing is a part of it.
const KEEP: f64 = 0.9965;

impl Spent {
    /// So many queries from now on.
    pub fn grow(&mut self, queries: usize) {
        self.queries.resize(queries, OfQuery::default());
    }

    /// An operator of that query ran so long; if a source, it took in so many rows.
    #[inline]
    pub fn ran(&mut self, query: QueryId, source_rows: u32, cpu_ns: u64) {
        if let Some(of) = self.queries.get_mut(query.index()) {
            if !of.has_run {
                of.has_run = true;
                self.ran.push(query);
            }
            of.new_rows += u64::from(source_rows);
            of.new_ns += cpu_ns;
        }
    }

    /// The id is another query's from now on.
    pub fn forget(&mut self, query: QueryId) {
        if let Some(of) = self.queries.get_mut(query.index()) {
            *of = OfQuery { has_run: of.has_run, ..OfQuery::default() };
        }
    }

    /// Takes in what came since the last look.
    pub fn look(&mut self) {
        for query in self.ran.drain(..) {
            let Some(of) = self.queries.get_mut(query.index()) else { continue };
            // Work without new rows belongs to rows before.
            let keep = if of.new_rows > 0 { KEEP } else { 1.0 };
            of.rows = keep * of.rows + of.new_rows as f64;
            of.ns = keep * of.ns + of.new_ns as f64;
            (of.has_run, of.new_rows, of.new_ns) = (false, 0, 0);
        }
    }

    /// ns per row; 0 while no row has come.
    pub fn row_ns(&self, query: &QuerySnapshot) -> f64 {
        match self.queries.get(query.id.index()) {
            Some(of) if of.rows > 0.0 => of.ns / of.rows,
            _ => 0.0,
        }
    }
}
