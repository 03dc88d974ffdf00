//! Which promises can be kept, as arithmetic on a list of deadlines: it knows no queries and no scheduler.

use laxity_graph::ProcessingTime;

/// Work that must be done by a deadline, and what it is worth to do it in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Demand {
    /// Whose, for the caller.
    pub of: u32,
    pub deadline: ProcessingTime,
    pub work_ns: u64,
    /// Utility lost for each ns of work that is late. Positive.
    pub worth: f64,
}

/// Picks what to give up so that the rest can be done in time on `workers` equal workers.
///
/// Processor demand test: in order of deadline, the work due by each deadline must not exceed the capacity until
/// then. Where it does, what was worth least per unit of work among that due by then is given up, until it fits.
/// With equal values of jobs this is Moore and Hodgson's rule (Moore 1968), which gives up the fewest; with other values
/// that problem is NP-hard and this is its greedy form. Workers are taken as one that is `workers` times as fast,
/// so that with several a job that fits may still be late.
///
/// Leaves in `demands` what is kept, by deadline, and appends to `given_up` the rest. O(n log n).
pub(super) fn give_up(
    demands: &mut Vec<Demand>,
    given_up: &mut Vec<Demand>,
    workers: usize,
    now: ProcessingTime,
) {
    demands.sort_unstable_by_key(|demand| (demand.deadline, demand.of));
    let workers = workers.max(1) as f64;
    let mut work_ns = 0.0;
    // A heap by worth of all that is due so far, least first.
    let mut due: std::collections::BinaryHeap<Worth> = std::collections::BinaryHeap::new();
    let mut is_given_up = vec![false; demands.len()];
    for (place, demand) in demands.iter().enumerate() {
        work_ns += demand.work_ns as f64;
        due.push(Worth { per_work: demand.worth, place });
        let capacity_ns = demand.deadline.since_ns(now) as f64 * workers;
        while work_ns > capacity_ns {
            let Some(least) = due.pop() else { break };
            is_given_up[least.place] = true;
            work_ns -= demands[least.place].work_ns as f64;
        }
    }
    let mut place = 0;
    demands.retain(|demand| {
        let goes = is_given_up[place];
        place += 1;
        if goes {
            given_up.push(*demand);
        }
        !goes
    });
}

/// Where what was given up may stand so that all that is kept is still done in time, as early as that goes: `put` is
/// told the first of those kept that it goes before, `None` where it must go behind all. `kept` is by deadline,
/// `given_up` by work, shortest first.
pub(super) fn put_before(
    kept: &[Demand],
    given_up: &[Demand],
    workers: usize,
    now: ProcessingTime,
    mut put: impl FnMut(&Demand, Option<&Demand>),
) {
    let workers = workers.max(1) as f64;
    let mut work_ns = 0.0;
    // By place: what more could be done before it and all after it were still in time.
    let mut spare_ns: Vec<f64> = kept
        .iter()
        .map(|kept| {
            work_ns += kept.work_ns as f64;
            kept.deadline.since_ns(now) as f64 * workers - work_ns
        })
        .collect();
    for place in (1..spare_ns.len()).rev() {
        spare_ns[place - 1] = spare_ns[place - 1].min(spare_ns[place]);
    }
    let (mut more_ns, mut place) = (0.0, 0);
    for given_up in given_up {
        more_ns += given_up.work_ns as f64;
        while spare_ns.get(place).is_some_and(|&spare_ns| spare_ns < more_ns) {
            place += 1;
        }
        put(given_up, kept.get(place));
    }
}

#[derive(Debug, PartialEq)]
struct Worth {
    per_work: f64,
    place: usize,
}

impl Eq for Worth {}

impl Ord for Worth {
    fn cmp(&self, other: &Worth) -> std::cmp::Ordering {
        // Least worth on top; among equals the one due last.
        other.per_work.total_cmp(&self.per_work).then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Worth {
    fn partial_cmp(&self, other: &Worth) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jobs(of: &[(u64, u64, f64)]) -> Vec<Demand> {
        let made = |(of, &(due, work_ns, value)): (usize, &(u64, u64, f64))| Demand {
            of: of as u32,
            deadline: ProcessingTime(due),
            work_ns,
            worth: value / work_ns.max(1) as f64,
        };
        of.iter().enumerate().map(made).collect()
    }

    fn given_up(of: &[(u64, u64, f64)], workers: usize) -> Vec<u32> {
        let (mut demands, mut gone) = (jobs(of), Vec::new());
        give_up(&mut demands, &mut gone, workers, ProcessingTime::ZERO);
        assert_eq!(demands.len() + gone.len(), of.len());
        let mut gone: Vec<u32> = gone.iter().map(|demand| demand.of).collect();
        gone.sort_unstable();
        gone
    }

    #[test]
    fn the_longest_goes_where_all_are_worth_the_same() {
        // Moore's example in spirit: 6 + 4 fit by 10; with 7 more by 12 one is too much, and it is the 7.
        assert_eq!(given_up(&[(8, 6, 1.0), (10, 4, 1.0), (12, 7, 1.0), (16, 3, 1.0)], 1), [2]);
    }

    #[test]
    fn worth_protects() {
        assert_eq!(given_up(&[(10, 8, 10.0), (11, 4, 1.0)], 1), [1]);
        assert_eq!(given_up(&[(10, 8, 1.0), (11, 4, 10.0)], 1), [0]);
    }

    #[test]
    fn more_workers_more_capacity() {
        let both = [(10, 8, 1.0), (11, 8, 1.0)];
        assert_eq!(given_up(&both, 1).len(), 1);
        assert!(given_up(&both, 2).is_empty());
    }

    #[test]
    fn what_is_past_cannot_be_kept() {
        assert_eq!(given_up(&[(0, 1, 100.0), (10, 5, 1.0)], 1), [0]);
    }

    /// The most jobs that one worker can finish in time, by trying every subset in order of deadline.
    fn most_in_time(jobs: &[Demand]) -> usize {
        let mut sorted = jobs.to_vec();
        sorted.sort_by_key(|job| job.deadline);
        let fits = |subset: u32| {
            let mut work_ns = 0;
            sorted.iter().enumerate().filter(|(place, _)| subset >> place & 1 == 1).all(|(_, job)| {
                work_ns += job.work_ns;
                work_ns <= job.deadline.0
            })
        };
        (0u32..1 << jobs.len()).filter(|&s| fits(s)).map(|s| s.count_ones() as usize).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn as_few_as_possible_are_given_up(
            of in prop::collection::vec((0u64..40, 1u64..15, Just(1.0)), 0..9)
        ) {
            prop_assert_eq!(of.len() - given_up(&of, 1).len(), most_in_time(&jobs(&of)));
        }

        #[test]
        fn what_is_kept_fits(of in prop::collection::vec((0u64..40, 1u64..15, 0.1f64..9.0), 0..9), m in 1usize..4) {
            let (mut demands, mut gone) = (jobs(&of), Vec::new());
            give_up(&mut demands, &mut gone, m, ProcessingTime::ZERO);
            let mut work_ns = 0;
            for demand in &demands {
                work_ns += demand.work_ns;
                prop_assert!(work_ns <= demand.deadline.0 * m as u64);
            }
        }

        #[test]
        fn what_is_kept_fits_with_what_goes_before_it(
            of in prop::collection::vec((0u64..40, 1u64..15, 0.1f64..9.0), 0..9), m in 1usize..4
        ) {
            let (mut kept, mut gone) = (jobs(&of), Vec::new());
            give_up(&mut kept, &mut gone, m, ProcessingTime::ZERO);
            gone.sort_unstable_by_key(|gone| (gone.work_ns, gone.of));
            let mut before = vec![0; kept.len()];
            put_before(&kept, &gone, m, ProcessingTime::ZERO, |gone, kept_of| {
                let Some(kept_of) = kept_of else { return };
                before[kept.iter().position(|kept| kept.of == kept_of.of).unwrap()] += gone.work_ns;
            });
            let mut work_ns = 0;
            for (kept, before_ns) in kept.iter().zip(before) {
                work_ns += before_ns + kept.work_ns;
                prop_assert!(work_ns <= kept.deadline.0 * m as u64);
            }
        }

        #[test]
        fn the_shortest_goes_first_where_there_is_room(
            of in prop::collection::vec((20u64..60, 1u64..15, 0.1f64..9.0), 1..9)
        ) {
            // One that is past beside others that fit: before the first that leaves room for it.
            let (mut kept, mut gone) = (jobs(&of), Vec::new());
            give_up(&mut kept, &mut gone, 1, ProcessingTime::ZERO);
            let late = Demand { of: 99, deadline: ProcessingTime(0), work_ns: 3, worth: 1.0 };
            let mut place = None;
            put_before(&kept, &[late], 1, ProcessingTime::ZERO, |_, before| place = Some(before.map(|b| b.of)));
            let fits = |at: usize| {
                let mut work_ns = 0;
                kept.iter().enumerate().all(|(of, kept)| {
                    work_ns += kept.work_ns + if of == at { 3 } else { 0 };
                    work_ns <= kept.deadline.0
                })
            };
            let first = (0..kept.len()).find(|&at| fits(at)).map(|at| kept[at].of);
            prop_assert_eq!(place, Some(first));
        }
    }
}
