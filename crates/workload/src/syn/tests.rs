//! The table of seed 0 as the shared references have it: C, S, then cost and selectivity of each filter, cost of the
//! sink, share of tuples that reach it, and multiplications per tuple, all rounded as printed.

use super::*;
use crate::offered_load;

type Row = (i32, f64, [(i32, f64); 3], i32, f64, f64);

const SEED_0: [Row; 20] = [
    (400, 0.8678, [(416, 0.8916), (386, 0.8013), (416, 0.8388)], 362, 0.5993, 1274.0),
    (6400, 0.9881, [(5812, 0.8939), (6551, 0.9436), (6680, 0.9620)], 6217, 0.8114, 22347.0),
    (3200, 0.2165, [(2998, 0.2366), (3252, 0.2058), (3302, 0.2127)], 2890, 0.0104, 3958.0),
    (3200, 0.9927, [(3264, 1.0657), (3401, 1.0390), (3277, 0.8960)], 3142, 0.8960, 12757.0),
    (1600, 0.7849, [(1606, 0.7274), (1698, 0.7356), (1747, 0.8198)], 1545, 0.4386, 4453.0),
    (3200, 0.3278, [(3033, 0.3130), (3108, 0.2997), (3126, 0.3485)], 3382, 0.0327, 4410.0),
    (800, 0.9469, [(754, 1.0162), (809, 0.8608), (790, 0.8935)], 765, 0.7690, 2831.0),
    (6400, 0.2230, [(6068, 0.2120), (5994, 0.2325), (6419, 0.2029)], 6764, 0.0100, 7722.0),
    (3200, 0.8180, [(3488, 0.8007), (2953, 0.7402), (3247, 0.8987)], 3463, 0.5327, 9622.0),
    (800, 0.3490, [(804, 0.3274), (800, 0.3614), (871, 0.3600)], 871, 0.0426, 1206.0),
    (400, 0.2909, [(374, 0.2910), (431, 0.2948), (396, 0.2823)], 392, 0.0242, 543.0),
    (12800, 0.2716, [(13109, 0.2506), (13836, 0.2973), (13106, 0.2635)], 12095, 0.0196, 17790.0),
    (6400, 0.7168, [(7035, 0.6894), (6441, 0.7493), (6014, 0.6466)], 6158, 0.3340, 16639.0),
    (6400, 0.2835, [(6206, 0.3025), (6667, 0.2726), (6948, 0.2723)], 6441, 0.0225, 8940.0),
    (6400, 0.9520, [(6974, 0.9730), (6527, 0.8851), (5947, 0.9800)], 6706, 0.8440, 24106.0),
    (1600, 0.6130, [(1737, 0.5763), (1514, 0.6102), (1575, 0.5782)], 1459, 0.2033, 3460.0),
    (12800, 0.9661, [(13934, 1.0135), (12518, 0.9626), (11831, 0.9447)], 12857, 0.9094, 49532.0),
    (1600, 0.3468, [(1571, 0.3533), (1506, 0.3740), (1715, 0.3274)], 1584, 0.0433, 2398.0),
    (3200, 0.5135, [(3306, 0.4984), (3055, 0.4978), (3000, 0.5540)], 3213, 0.1374, 6014.0),
    (12800, 0.6162, [(14058, 0.6344), (13302, 0.6745), (12893, 0.6055)], 12202, 0.2591, 31175.0),
];

/// C, S and blocking filters of the blocking variant.
const BLOCKING: [(i32, f64, &[usize]); 20] = [
    (400, 0.8678, &[]),
    (1600, 0.4312, &[1, 2]),
    (12800, 0.4138, &[]),
    (3200, 0.6287, &[]),
    (1600, 0.7386, &[]),
    (800, 0.8858, &[0]),
    (800, 0.2266, &[]),
    (6400, 0.4407, &[]),
    (12800, 0.2716, &[0]),
    (3200, 0.4580, &[]),
    (400, 0.4528, &[]),
    (6400, 0.6240, &[]),
    (3200, 0.6626, &[0]),
    (400, 0.5076, &[]),
    (400, 0.6393, &[]),
    (800, 0.8358, &[0]),
    (12800, 0.6373, &[2]),
    (1600, 0.6226, &[2]),
    (400, 0.7707, &[1]),
    (3200, 0.9015, &[]),
];

fn close(a: f64, b: f64) -> bool {
    // Printed with four digits.
    (a - b).abs() <= 0.000_050_001
}

#[test]
fn seed_0_gives_the_published_table() {
    let table = Syn::default().table();
    assert_eq!(table.len(), 20);
    let mut total = 0.0;
    for (query, (cost, selectivity, filters, sink, reach, multiplications)) in table.iter().zip(SEED_0) {
        assert_eq!(query.cost, cost);
        assert!(close(query.selectivity, selectivity), "{query:?}");
        for (filter, (cost, selectivity)) in query.filters.iter().zip(filters) {
            assert_eq!(filter.cost, cost, "{query:?}");
            assert!(close(filter.selectivity, selectivity), "{query:?}");
            assert!(!filter.is_blocking);
        }
        assert_eq!(query.sink_cost, sink);
        let mut share = 1.0;
        let mut work = 0.0;
        for filter in &query.filters {
            work += share * f64::from(filter.cost);
            share *= filter.selectivity.min(1.0);
        }
        work += share * f64::from(query.sink_cost);
        assert!(close(share, reach), "{share} {query:?}");
        assert!((work - multiplications).abs() <= 0.5, "{work} {query:?}");
        total += work;
    }
    assert!((total - 231_179.0).abs() < 1.0, "{total}");
}

#[test]
fn blocking_variant_has_its_marks() {
    let table = Syn { is_blocking: true, ..Syn::default() }.table();
    let mut count = 0;
    for (query, (cost, selectivity, marks)) in table.iter().zip(BLOCKING) {
        assert_eq!(query.cost, cost);
        assert!(close(query.selectivity, selectivity), "{query:?}");
        let blocking: Vec<usize> = (0..3).filter(|&i| query.filters[i].is_blocking).collect();
        assert_eq!(blocking, marks);
        for &mark in marks {
            assert_eq!(
                (query.filters[mark].cost, query.filters[mark].selectivity),
                (cost, query.selectivity)
            );
        }
        count += blocking.len();
    }
    assert_eq!(count, 9);
}

#[test]
fn workload_asks_for_the_multiplications_of_the_table() {
    let syn = Syn { multiplication_ns: 1.0, ..Syn::default() };
    let workload = syn.build(0).unwrap();
    assert_eq!(workload.queries.len(), 20);
    assert!(workload.queries.iter().all(|query| query.dataflow.nodes().len() == 5));
    // 231 179 multiplications of 1 ns at 1 000 tuples per second.
    let cores = offered_load(&workload).unwrap().cores();
    assert!((cores - 0.231_179).abs() < 1e-6, "{cores}");
}

#[test]
fn blocking_filters_sleep_and_ask_for_no_core_meanwhile() {
    let syn = Syn { is_blocking: true, multiplication_ns: 1.0, ..Syn::default() };
    let workload = syn.build(0).unwrap();
    let nodes = workload.queries.iter().flat_map(|query| query.dataflow.nodes());
    let sleeps: Vec<&Sleep> = nodes.filter_map(|node| node.stage.sleep.as_ref()).collect();
    assert_eq!(sleeps.len(), 9);
    // 0, 1 … 199 ms.
    let mut sampler = sleeps[0].length.sampler(1).unwrap();
    let drawn: Vec<u64> = (0..20_000).map(|_| sampler.sample_ns()).collect();
    assert!(drawn.iter().all(|ns| ns % 1_000_000 == 0));
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&199_000_000)));
    let mean_ms = drawn.iter().sum::<u64>() as f64 / 20_000.0 / 1e6;
    assert!((mean_ms - 99.5).abs() < 1.5, "{mean_ms}");
    // The multiplications of the table, each of 1 ns, at 1 000 tuples per second.
    // And 99.5 ms at one in a thousand of what reaches a blocking filter.
    let (mut multiplications, mut asleep) = (0.0, 0.0);
    for query in syn.table() {
        let mut share = 1.0;
        for filter in &query.filters {
            multiplications += share * f64::from(filter.cost);
            asleep += if filter.is_blocking { share * 0.0995 } else { 0.0 };
            share *= filter.selectivity.min(1.0);
        }
        multiplications += share * f64::from(query.sink_cost);
    }
    let load = offered_load(&workload).unwrap();
    assert!((load.cores() - multiplications * 1e-6).abs() < 1e-9, "{load:?}");
    assert!((load.asleep - asleep).abs() < 1e-9, "{load:?}");
    assert_eq!(load.workers(), load.cores() + load.asleep);
}
