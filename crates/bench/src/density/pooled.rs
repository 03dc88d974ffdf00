//! Latencies of many queries as one distribution.

use super::engine_run::QueryFigures;

/// Results of several queries together.
///
/// The engine gives five percentiles of each query, not every latency: a result between two of them counts as the
/// upper one. So a pooled percentile is never less than the true one, and exact where a query has few results.
#[derive(Clone, Debug, Default)]
pub struct Pooled {
    /// Latency and how many results have it.
    counts_by_ns: Vec<(u64, u64)>,
}

impl Pooled {
    /// Adds the results of a query.
    pub fn add(&mut self, query: &QueryFigures) {
        let steps = [
            (0.5, query.p50_ns),
            (0.9, query.p90_ns),
            (0.99, query.p99_ns),
            (0.999, query.p999_ns),
            (1.0, query.max_ns),
        ];
        let mut below = 0;
        for (quantile, ns) in steps {
            // The rank that the histogram reads the quantile off.
            let rank = (quantile * query.results as f64).ceil() as u64;
            self.add_equal(rank.saturating_sub(below), ns);
            below = below.max(rank);
        }
    }

    /// Adds results that took the same.
    pub fn add_equal(&mut self, results: u64, ns: u64) {
        if results > 0 {
            self.counts_by_ns.push((ns, results));
        }
    }

    /// The latency that this share of the results keeps within, ns; 0 without results.
    pub fn quantile_ns(&mut self, quantile: f64) -> u64 {
        self.counts_by_ns.sort_unstable();
        let total: u64 = self.counts_by_ns.iter().map(|(_, count)| count).sum();
        let rank = ((quantile * total as f64).ceil() as u64).max(1);
        let mut below = 0;
        for &(ns, count) in &self.counts_by_ns {
            below += count;
            if below >= rank {
                return ns;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(results: u64, ns: [u64; 5]) -> QueryFigures {
        let [p50_ns, p90_ns, p99_ns, p999_ns, max_ns] = ns;
        QueryFigures { results, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, ..QueryFigures::default() }
    }

    #[test]
    fn few_results_are_exact() {
        // Latencies 1, 2, 3, 4 and 10: the median is the third, everything above the largest.
        let mut pooled = Pooled::default();
        pooled.add(&query(5, [3, 10, 10, 10, 10]));
        assert_eq!([pooled.quantile_ns(0.6), pooled.quantile_ns(0.61), pooled.quantile_ns(1.0)], [3, 10, 10]);
    }

    #[test]
    fn each_query_counts_by_its_results() {
        let mut pooled = Pooled::default();
        // 50 at 1, 40 at 2, 9 at 3, 1 at 4.
        pooled.add(&query(100, [1, 2, 3, 4, 4]));
        // 900 more at 1.
        pooled.add_equal(900, 1);
        let at = |pooled: &mut Pooled, q| pooled.quantile_ns(q);
        assert_eq!([at(&mut pooled, 0.95), at(&mut pooled, 0.951)], [1, 2]);
        assert_eq!([at(&mut pooled, 0.99), at(&mut pooled, 0.999), at(&mut pooled, 0.9999)], [2, 3, 4]);
        assert_eq!(Pooled::default().quantile_ns(0.5), 0);
    }
}
