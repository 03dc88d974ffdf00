//! The Yahoo Streaming Benchmark as SQL: the original's query and Klink's, with the answers expected of them.

use rand_distr::{Distribution, Uniform};

use super::{
    Expected, InputFile, OutputFile, Pace, Written, counted, queries, source, times, timestamp,
    written_timestamp,
};
use crate::{Delay, WorkloadError, seed};

/// Views per campaign and 10 s, as yahoo/streaming-benchmarks counts them. The campaign of an advertisement is part
/// of its id here: the original's look-up in Redis would be a look-up join, which Laxity does not have.
pub(super) fn original(seed: u64, pace: Pace) -> Written {
    let mut sql = events(pace);
    queries(
        &mut sql,
        "views_per_campaign",
        "1 s",
        "campaign STRING, window_start TIMESTAMP(3), viewed BIGINT",
        pace.queries,
        |_| {
            "SELECT campaign, window_start, COUNT(*)\nFROM TABLE(TUMBLE(TABLE ad_events, DESCRIPTOR(event_time), \
             INTERVAL '10' SECOND))\nWHERE event_type = 'view'\nGROUP BY window_start, window_end, campaign"
                .into()
        },
    );
    Ok((sql, vec![rows(seed, pace)?]))
}

/// All events of 3 s, as the Klink evaluation counts them.
pub(super) fn klink(seed: u64, pace: Pace) -> Written {
    let mut sql = events(pace);
    queries(
        &mut sql,
        "events_per_window",
        "1 s",
        "window_start TIMESTAMP(3), events BIGINT",
        pace.queries,
        |_| {
            "SELECT window_start, COUNT(*)\nFROM TABLE(TUMBLE(TABLE ad_events, DESCRIPTOR(event_time), INTERVAL '3' \
             SECOND))\nGROUP BY window_start, window_end"
                .into()
        },
    );
    Ok((sql, vec![rows(seed, pace)?]))
}

fn events(pace: Pace) -> String {
    let columns = "event_time TIMESTAMP(3), user_id STRING, page_id STRING, ad_id STRING, ad_type STRING,\n  \
                   event_type STRING, ip_address STRING,\n  campaign AS SPLIT_INDEX(ad_id, '/', 0)";
    source("ad_events", columns, "event_time AS event_time - INTERVAL '0.1' SECOND", pace)
}

/// Views by campaign and start of the window.
pub(super) fn expected_original(seed: u64, pace: Pace) -> Expected {
    let views = ad_events(seed, pace)?
        .filter(|event| event.event_type == "view")
        .map(|event| (event.event_ms, format!("campaign{}", event.ad / 10)));
    let lines = counted(views, 10, |start_s, campaign, count| {
        format!("{campaign},{},{count}", written_timestamp(start_s))
    });
    Ok(vec![OutputFile::new("views_per_campaign", pace.queries, lines)])
}

/// Events by start of the window.
pub(super) fn expected_klink(seed: u64, pace: Pace) -> Expected {
    let events = ad_events(seed, pace)?.map(|event| (event.event_ms, String::new()));
    let lines = counted(events, 3, |start_s, _, count| format!("{},{count}", written_timestamp(start_s)));
    Ok(vec![OutputFile::new("events_per_window", pace.queries, lines)])
}

struct AdEvent {
    ingest_ms: u64,
    event_ms: u64,
    user: u32,
    page: u32,
    ad: u32,
    ad_type: &'static str,
    event_type: &'static str,
}

fn ad_events(seed: u64, pace: Pace) -> Result<impl Iterator<Item = AdEvent> + Send, WorkloadError> {
    let mut rng = seed::generator(seed, 1);
    let times = times(seed, pace, Delay::KLINK_UNIFORM)?;
    Ok(times.map(move |(ingest_ms, event_ms)| {
        let mut below = |bound: u32| Uniform::new(0, bound).map_or(0, |uniform| uniform.sample(&mut rng));
        AdEvent {
            ingest_ms,
            event_ms,
            user: below(100),
            page: below(100),
            ad: below(1_000),
            ad_type: ["banner", "modal", "sponsored-search", "mail", "mobile"][below(5) as usize],
            event_type: ["view", "click", "purchase"][below(3) as usize],
        }
    }))
}

fn rows(seed: u64, pace: Pace) -> Result<InputFile, WorkloadError> {
    let lines = ad_events(seed, pace)?.map(|event| {
        let AdEvent { user, page, ad, ad_type, event_type, .. } = event;
        // 100 campaigns of 10 advertisements.
        format!(
            "{},{},user{user},page{page},campaign{}/{ad},{ad_type},{event_type},1.2.3.4",
            timestamp(event.ingest_ms),
            timestamp(event.event_ms),
            ad / 10
        )
    });
    Ok(InputFile::new("ad_events", lines))
}
