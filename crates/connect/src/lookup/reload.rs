#![expect(clippy::disallowed_methods, reason = "reloads are timed by the clock, and need not be exact")]

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use super::Followed;

/// When each table is looked at next. A table that nobody reads any more leaves at its time.
static DUE: Mutex<Due> = Mutex::new(Due { tables: Vec::new(), is_watched: false });

/// Signalled when a table is added.
static ADDED: Condvar = Condvar::new();

struct Due {
    tables: Vec<(Instant, Weak<Followed>)>,
    /// Whether the thread runs.
    is_watched: bool,
}

/// Has a table looked at from now on, for as long as it lives.
pub(super) fn register(table: &Arc<Followed>) {
    let mut due = DUE.lock();
    due.tables.push((next(table, Duration::ZERO), Arc::downgrade(table)));
    if !due.is_watched {
        let thread = std::thread::Builder::new().name("lookup-reload".into()).spawn(watch);
        match thread {
            Ok(_) => due.is_watched = true,
            Err(error) => tracing::warn!("no thread to reload tables with, which stay as they are: {error}"),
        }
    }
    ADDED.notify_one();
}

fn next(table: &Followed, took: Duration) -> Instant {
    let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::now() + table.options.wait(unix_time, took)
}

/// Looks at tables when they are due, until there is none.
fn watch() {
    let mut due = DUE.lock();
    loop {
        due.tables.retain(|(_, table)| table.strong_count() > 0);
        let nearest = due.tables.iter().enumerate().min_by_key(|(_, (at, _))| *at);
        let Some((index, &(at, _))) = nearest else {
            due.is_watched = false;
            return;
        };
        if at > Instant::now() {
            ADDED.wait_until(&mut due, at);
            continue;
        }
        let (_, table) = due.tables.swap_remove(index);
        parking_lot::MutexGuard::unlocked(&mut due, || {
            let table = table.upgrade()?;
            let began = Instant::now();
            if let Err(error) = table.look() {
                tracing::warn!(table = %table.spec.table.name, "kept as it was: {error}");
            }
            Some((next(&table, began.elapsed()), Arc::downgrade(&table)))
        })
        .into_iter()
        .for_each(|entry| due.tables.push(entry));
    }
}
