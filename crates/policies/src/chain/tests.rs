use super::*;

fn slopes(operators: &[(&[u32], f64, f64)]) -> Vec<f64> {
    let snapshot = Snapshot::of_query(operators);
    let mut priorities = vec![0.0; operators.len()];
    Chain::default().cycle(&snapshot, &mut priorities);
    priorities.into_iter().map(|priority: f64| (-priority).exp()).collect()
}

fn near(got: &[f64], expected: &[f64]) {
    let close = |(got, expected): (&f64, &f64)| (got - expected).abs() <= 1e-9;
    assert!(got.len() == expected.len() && got.iter().zip(expected).all(close), "{got:?} for {expected:?}");
}

#[test]
fn the_papers_first_example() {
    // §2: two operators of unit cost; the first keeps 0.2, the second nothing more to the system. One row of
    // size 1 is at (1, 0.2), then at (1.2, 0): slopes 0.8, and 0.2 / 0.2 = 1. From the start the end is at 1
    // / 1.2 = 0.833, steeper than 0.8: one segment.
    near(&slopes(&[(&[], 1.0, 0.2), (&[0], 1.0, 1.0)]), &[1.0 / 1.2, 1.0 / 1.2]);
    // A dear second operator, 10 ns per row: (1, 0.2), (3, 0): 0.8, then 0.1.
    near(&slopes(&[(&[], 1.0, 0.2), (&[0], 10.0, 1.0)]), &[0.8, 0.1]);
}

#[test]
fn a_flat_operator_before_a_steep_one_shares_its_segment() {
    // Points (0, 1), (1, 1), (2, 0.1), (2.4, 0): from the start the slopes are 0, 0.45, 0.417. So the first
    // two are one segment of 0.45, and the sink has 0.1 / 0.4 = 0.25.
    let operators: [(&[u32], f64, f64); 3] = [(&[], 1.0, 1.0), (&[0], 1.0, 0.1), (&[1], 4.0, 1.0)];
    near(&slopes(&operators), &[0.45, 0.45, 0.25]);
}

#[test]
fn an_operator_on_two_paths_goes_by_the_steeper() {
    // Source 1 ns; one branch frees at once: (1, 1), (2, 0): 0.5. The other is dear: (1, 1), (11, 0): 1 / 11.
    near(&slopes(&[(&[], 1.0, 1.0), (&[0], 1.0, 1.0), (&[0], 10.0, 1.0)]), &[0.5, 0.5, 1.0 / 11.0]);
}

#[test]
fn rows_that_only_grow_free_nothing_before_the_sink() {
    // (0, 1), (1, 3), (4, 0): 1 / 4 to the end from the start.
    near(&slopes(&[(&[], 1.0, 3.0), (&[0], 1.0, 1.0)]), &[0.25, 0.25]);
    // A filter that lets nothing through: what stands behind it has nothing to free.
    near(&slopes(&[(&[], 1.0, 0.0), (&[0], 1.0, 1.0)]), &[1.0, 0.0]);
}

#[test]
fn more_paths_than_are_looked_at_leave_nobody_without_a_slope() {
    // Six diamonds one behind the other: 2^6 paths and a sink, then one more diamond: 128.
    let mut inputs: Vec<Vec<u32>> = vec![vec![]];
    for _ in 0..7 {
        let top = inputs.len() as u32 - 1;
        inputs.extend([vec![top], vec![top], vec![top + 1, top + 2]]);
    }
    let operators: Vec<(&[u32], f64, f64)> =
        inputs.iter().map(|input| (input.as_slice(), 1.0, 0.5)).collect();
    assert!(slopes(&operators).iter().all(|slope| slope.is_finite() && *slope > 0.0));
}
