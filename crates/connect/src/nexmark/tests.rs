//! Shares, references, sizes and pace of Nexmark's events, and that they are the same however they are read. Cannot
//! catch: draws that are not those of Nexmark's own generator, which is not run here.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, TimestampMillisecondType};
use laxity_graph::{EventTime, ProcessingTime};
use proptest::prelude::*;
use tempfile::tempdir;

use super::event::{Event, Mix};
use crate::fixture::{TIMESTAMP, all_columns, table, take_due};
use crate::{Scan, ScanEnvironment, ScanEvent, TableSpec, open_scan, validate_source};

fn row(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(
        fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect(),
    )
}

fn nexmark(options: &[(&str, &str)]) -> Arc<TableSpec> {
    let bid = row(&[
        ("auction", DataType::Int64),
        ("price", DataType::Int64),
        ("channel", DataType::Utf8),
        ("dateTime", TIMESTAMP),
    ]);
    let person = row(&[("id", DataType::Int64), ("extra", DataType::Utf8)]);
    let columns = [("event_type", DataType::Int32), ("person", person), ("bid", bid)];
    let mut all = vec![("connector", "nexmark")];
    all.extend_from_slice(options);
    table(tempdir().unwrap().path(), &columns, &all)
}

fn open(table: &Arc<TableSpec>, skip_rows: u64) -> Box<dyn Scan> {
    let env = ScanEnvironment { skip_rows, ..ScanEnvironment::new(ProcessingTime(0), EventTime(1_000)) };
    open_scan(&all_columns(table), &env).unwrap()
}

fn all_rows(scan: &mut dyn Scan, now: ProcessingTime) -> RecordBatch {
    let (batches, _) = take_due(scan, now);
    concat_batches(&batches[0].rows.schema(), batches.iter().map(|batch| &batch.rows)).unwrap()
}

#[test]
fn of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids() {
    let table = nexmark(&[("events.num", "1000"), ("laxity.nexmark.base-time", "1970-01-01 00:00:05")]);
    let mut scan = open(&table, 0);
    let rows = all_rows(scan.as_mut(), ProcessingTime(0));
    assert!(matches!(scan.poll(ProcessingTime(0)).unwrap(), ScanEvent::End));
    let kinds = rows.column(0).as_primitive::<Int32Type>();
    for (row, kind) in kinds.values().iter().enumerate() {
        let expected = match row % 50 {
            0 => 0,
            1..=3 => 1,
            _ => 2,
        };
        assert_eq!(*kind, expected, "event {row}");
        assert_eq!(rows.column(1).is_null(row), expected != 0);
        assert_eq!(rows.column(2).is_null(row), expected != 2);
    }
    // Ten events in a millisecond, from the base time on.
    let bids = rows.column(2).as_struct();
    let times = bids.column(3).as_primitive::<TimestampMillisecondType>();
    assert_eq!((times.value(4), times.value(49), times.value(999)), (5_000, 5_004, 5_099));
    let ids = rows.column(1).as_struct().column(0).as_primitive::<Int64Type>();
    assert_eq!((ids.value(0), ids.value(50), ids.value(950)), (1_000, 1_001, 1_019));
}

#[test]
fn rows_that_are_paced_come_when_they_are_due() {
    let table = nexmark(&[("first-event.rate", "1000"), ("rate.limited", "true")]);
    let mut scan = open(&table, 0);
    let (batches, next) = take_due(scan.as_mut(), ProcessingTime(9_500_000));
    let rows: usize = batches.iter().map(|batch| batch.rows.num_rows()).sum();
    assert_eq!(rows, 10);
    assert_eq!(batches.last().unwrap().arrival, ProcessingTime(9_000_000));
    assert!(matches!(next, ScanEvent::NotBefore(ProcessingTime(10_000_000))));
}

#[test]
fn some_are_hot_and_nobody_refers_to_who_will_not_be() {
    let mix = Mix::default();
    let (mut people, mut auctions, mut hot_bids, mut bids) = (0, 0, 0, 0);
    for number in 0..200_000 {
        match mix.event(number, 0) {
            Event::Person(person) => {
                assert_eq!(person.id, 1_000 + people);
                people += 1;
            }
            Event::Auction(auction) => {
                assert_eq!(auction.id, 1_000 + auctions);
                auctions += 1;
                assert!(auction.seller < 1_000 + people + 10 && auction.reserve > auction.initial_bid);
                assert!(auction.expires_ms > auction.time_ms && (10..15).contains(&auction.category));
            }
            Event::Bid(bid) => {
                bids += 1;
                hot_bids += i64::from((bid.auction - 1_000) % 100 == 0);
                assert!(bid.auction < 1_000 + auctions + 10 && bid.bidder < 1_000 + people + 10);
                assert!((100..=100_000_000).contains(&bid.price));
                let is_hot = !bid.channel.starts_with("channel-");
                assert!(!(is_hot && bid.url.contains("channel_id=")));
                assert_eq!(bid.url.split('/').count(), 7, "{}", bid.url);
            }
        }
    }
    assert_eq!((people, auctions, bids), (4_000, 12_000, 184_000));
    // Half of them by draw, and a few by chance.
    assert!((0.5..0.52).contains(&(hot_bids as f64 / bids as f64)), "{hot_bids}");
}

#[test]
fn sizes_are_as_asked_for_on_average() {
    let mix = Mix { bid_bytes: 300, ..Mix::default() };
    let extras = (0..20_000).filter_map(|number| match mix.event(number, 0) {
        Event::Bid(bid) => Some(bid.extra.len()),
        _ => None,
    });
    let extras: Vec<usize> = extras.collect();
    let mean = extras.iter().sum::<usize>() as f64 / extras.len() as f64;
    assert!((mean - 268.0).abs() < 3.0, "{mean}");
}

#[test]
fn wrong_options_and_columns_are_refused() {
    let wrong = |options: &[(&str, &str)]| validate_source(&nexmark(options)).unwrap_err().to_string();
    assert!(wrong(&[("person.proportion", "0")]).contains("a whole number from 1 on"));
    assert!(wrong(&[("event.num", "5")]).contains("did you mean 'events.num'?"));
    assert!(wrong(&[("keep-alive", "true")]).contains("take 'events.num' out"));
    assert!(wrong(&[("laxity.nexmark.base-time", "noon")]).contains("a time such as"));
    let folder = tempdir().unwrap();
    let options = [("connector", "nexmark")];
    let odd = table(folder.path(), &[("bid", row(&[("price", DataType::Utf8)]))], &options);
    let said = validate_source(&odd).unwrap_err().to_string();
    assert!(said.contains("no such field 'price'; it has auction BIGINT"), "{said}");
    let odd = table(folder.path(), &[("offer", DataType::Int64)], &options);
    assert!(validate_source(&odd).unwrap_err().to_string().contains("column 'offer' is none of 'nexmark'"));
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_they_are_read(skip in 0_u64..500, seed in 0_u64..4, pause_us in 1_u64..40_000) {
        let seed = seed.to_string();
        let options = [("events.num", "500"), ("laxity.nexmark.seed", &seed), ("laxity.nexmark.base-time", "2024-01-01 00:00:00")];
        let whole = all_rows(open(&nexmark(&options), 0).as_mut(), ProcessingTime(0));
        let paced = nexmark(&[&options[..], &[("rate.limited", "true")]].concat());
        let mut scan = open(&paced, skip);
        let mut parts = vec![RecordBatch::new_empty(whole.schema())];
        let mut now = ProcessingTime(0);
        while parts.iter().map(RecordBatch::num_rows).sum::<usize>() < 500 - skip as usize {
            parts.extend(take_due(scan.as_mut(), now).0.into_iter().map(|batch| batch.rows));
            now = now.plus_ns(pause_us * 1_000);
        }
        let read = concat_batches(&whole.schema(), &parts).unwrap();
        prop_assert_eq!(read, whole.slice(skip as usize, 500 - skip as usize));
    }
}
