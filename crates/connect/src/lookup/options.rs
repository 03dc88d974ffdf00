//! When a table that rows are looked up in is read again: at intervals, or at a time of the day in UTC.

use std::time::Duration;

use crate::OptionError;
use crate::options::OptionReader;

/// When the files of a table are looked at again, by Flink's `lookup.` options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupOptions {
    /// So long after the look before ended, or began.
    Periodic { interval: Duration, from_start: bool },
    /// At this second of the UTC day, every so many days.
    Timed { second_of_day: u64, days: u64 },
}

/// Flink has no default and asks for an interval. Files that have not changed cost no more than a look.
const INTERVAL: Duration = Duration::from_secs(10);

pub(super) const DAY_SECONDS: u64 = 86_400;

impl LookupOptions {
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<LookupOptions, OptionError> {
        options.parsed("lookup.cache", "'FULL': a file is kept in memory as a whole", |text| {
            text.eq_ignore_ascii_case("full").then_some(())
        })?;
        // Flink's; a read that failed is tried again at the next look.
        options.count("lookup.max-retries", 0)?;
        let upper = |key: &str| options.text(key).map(str::to_ascii_uppercase);
        let interval = options.duration("lookup.full-cache.periodic-reload.interval")?;
        if interval.is_some_and(|interval| interval.is_zero()) {
            return Err(options.error("lookup.full-cache.periodic-reload.interval", "must be more than zero"));
        }
        let mode = "lookup.full-cache.periodic-reload.schedule-mode";
        let from_start = match upper(mode).as_deref() {
            None | Some("FIXED_DELAY") => false,
            Some("FIXED_RATE") => true,
            Some(other) => {
                return Err(options
                    .error(mode, format!("'{other}' is not known; expected 'FIXED_DELAY' or 'FIXED_RATE'")));
            }
        };
        let time = "lookup.full-cache.timed-reload.iso-time";
        let second =
            options.parsed(time, "a time of the day in UTC such as '10:15' or '10:15:30Z'", second_of_day)?;
        let days = options.count("lookup.full-cache.timed-reload.interval-in-days", 1)?.unwrap_or(1);
        let strategy = "lookup.full-cache.reload-strategy";
        match upper(strategy).as_deref() {
            None | Some("PERIODIC") => {
                Ok(LookupOptions::Periodic { interval: interval.unwrap_or(INTERVAL), from_start })
            }
            Some("TIMED") => match second {
                Some(second_of_day) => Ok(LookupOptions::Timed { second_of_day, days }),
                None => {
                    Err(options.error(time, "missing; 'TIMED' asks for a time of the day such as '10:15'"))
                }
            },
            Some(other) => {
                Err(options
                    .error(strategy, format!("'{other}' is not known; expected 'PERIODIC' or 'TIMED'")))
            }
        }
    }

    /// How long to wait from now, a Unix time, behind a look that took so long.
    pub(super) fn wait(&self, now: Duration, took: Duration) -> Duration {
        match *self {
            LookupOptions::Periodic { interval, from_start: false } => interval,
            LookupOptions::Periodic { interval, from_start: true } => interval.saturating_sub(took),
            LookupOptions::Timed { second_of_day, days } => {
                let time = Duration::from_secs(now.as_secs() / DAY_SECONDS * DAY_SECONDS + second_of_day);
                match time > now {
                    true => time - now,
                    false => time + Duration::from_secs(days.saturating_mul(DAY_SECONDS)) - now,
                }
            }
        }
    }
}

fn second_of_day(text: &str) -> Option<u64> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let parts: Vec<u64> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts[..] {
        [hours @ 0..24, minutes @ 0..60] => Some(hours * 3_600 + minutes * 60),
        [hours @ 0..24, minutes @ 0..60, seconds @ 0..60] => Some(hours * 3_600 + minutes * 60 + seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableSpec;
    use arrow::datatypes::Schema;
    use std::sync::Arc;

    fn read(options: &[(&str, &str)]) -> Result<LookupOptions, String> {
        let table = TableSpec {
            name: "dim".into(),
            schema: Arc::new(Schema::empty()),
            options: options.iter().map(|(k, v)| (format!("lookup.{k}"), v.to_string())).collect(),
            base: Default::default(),
        };
        LookupOptions::read(&OptionReader::new(&table)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_flinks() {
        let every = |seconds, from_start| {
            Ok(LookupOptions::Periodic { interval: Duration::from_secs(seconds), from_start })
        };
        assert_eq!(read(&[]), every(10, false));
        assert_eq!(
            read(&[
                ("cache", "FULL"),
                ("full-cache.reload-strategy", "PERIODIC"),
                ("full-cache.periodic-reload.interval", "2 min"),
                ("full-cache.periodic-reload.schedule-mode", "FIXED_RATE"),
                ("max-retries", "3"),
            ]),
            every(120, true)
        );
        let timed = [
            ("full-cache.reload-strategy", "TIMED"),
            ("full-cache.timed-reload.iso-time", "10:15:30Z"),
            ("full-cache.timed-reload.interval-in-days", "2"),
        ];
        assert_eq!(read(&timed), Ok(LookupOptions::Timed { second_of_day: 36_930, days: 2 }));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let fails = |options: &[(&str, &str)], part: &str| {
            let error = read(options).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        fails(&[("cache", "PARTIAL")], "'FULL': a file is kept in memory");
        fails(&[("full-cache.reload-strategy", "NEVER")], "'PERIODIC' or 'TIMED'");
        fails(&[("full-cache.reload-strategy", "TIMED")], "asks for a time of the day");
        fails(&[("full-cache.timed-reload.iso-time", "25:00")], "a time of the day");
        fails(&[("full-cache.periodic-reload.interval", "0 s")], "more than zero");
        fails(&[("full-cache.periodic-reload.schedule-mode", "NOW")], "'FIXED_DELAY' or 'FIXED_RATE'");
    }

    #[test]
    fn a_time_of_the_day_is_the_next_one() {
        let at = |hours: u64| Duration::from_secs(20_000 * DAY_SECONDS + hours * 3_600);
        let timed = LookupOptions::Timed { second_of_day: 10 * 3_600, days: 2 };
        assert_eq!(timed.wait(at(9), Duration::ZERO), Duration::from_secs(3_600));
        assert_eq!(timed.wait(at(10), Duration::ZERO), Duration::from_secs(2 * DAY_SECONDS));
        let hour = Duration::from_secs(3_600);
        let took = Duration::from_secs(600);
        let periodic = |from_start| LookupOptions::Periodic { interval: hour, from_start };
        assert_eq!(periodic(false).wait(at(9), took), hour);
        assert_eq!(periodic(true).wait(at(9), took), hour - took);
        assert_eq!(periodic(true).wait(at(9), 2 * hour), Duration::ZERO);
    }
}
