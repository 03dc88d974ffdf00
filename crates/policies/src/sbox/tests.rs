use laxity_graph::ProcessingTime;

use super::*;
use crate::klink::tests::{chain, snapshot, stream};
use laxity_sched::Sweeping;

fn first(sbox: &mut Sbox, snapshot: &Snapshot) -> Vec<usize> {
    let mut priorities = vec![0.0; snapshot.queries.len()];
    sbox.cycle(snapshot, &mut priorities);
    let mut order: Vec<usize> = (0..priorities.len()).collect();
    order.sort_by(|&a, &b| priorities[a].total_cmp(&priorities[b]));
    order
}

#[test]
fn the_nearest_window_is_kept_until_its_watermark_is_out() {
    let one = [(1, 10.0, 1.0)];
    let at = |mean: f64| chain(&one, Some((mean, 0.0)));
    let mut snapshot = snapshot(0, &[at(9e9), at(5e9), chain(&one, None), at(7e9)]);
    let mut sbox = Sbox::default();
    assert_eq!(first(&mut sbox, &snapshot), [1, 3, 0, 2], "by window, and those without any last");
    // Another window comes nearer; its watermark comes; the queue is empty: 1 is kept.
    snapshot.queries[0].streams[0].forecast.as_mut().unwrap().mean_ns = 1e9;
    assert_eq!(first(&mut sbox, &snapshot), [1, 0, 3, 2]);
    let end = snapshot.queries[1].streams[0].end;
    snapshot.queries[1].sweeping = Some(Sweeping { end, ingested: ProcessingTime(5_000_000_000) });
    snapshot.queries[1].streams[0].end.0 += 1_000;
    snapshot.operators[1].queued_messages = 0;
    assert_eq!(first(&mut sbox, &snapshot), [1, 0, 3, 2]);
    // Its watermark has left the sink.
    snapshot.queries[1].sweeping = None;
    snapshot.queries[1].streams[0].forecast.as_mut().unwrap().mean_ns = 10e9;
    assert_eq!(first(&mut sbox, &snapshot), [0, 3, 1, 2]);
}

#[test]
fn as_many_are_kept_as_there_are_workers() {
    let one = [(1, 10.0, 1.0)];
    let mut snapshot = snapshot(0, &[9e9, 5e9, 7e9].map(|mean| chain(&one, Some((mean, 0.0)))));
    snapshot.workers = 2;
    let mut sbox = Sbox::default();
    assert_eq!(first(&mut sbox, &snapshot), [1, 2, 0]);
    snapshot.queries[0].streams[0].forecast.as_mut().unwrap().mean_ns = 1e9;
    assert_eq!(first(&mut sbox, &snapshot), [1, 2, 0]);
    // The nearest, but it has no work: it is not taken.
    snapshot.queries[1].streams = vec![stream((8e9, 0.0))];
    snapshot.queries[1].streams[0].end.0 += 1_000;
    snapshot.operators[0].queued_messages = 0;
    assert_eq!(first(&mut sbox, &snapshot), [2, 1, 0]);
}
