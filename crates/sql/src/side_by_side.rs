//! Threads for planning: many queries at a time, and each on a stack that is deep enough. Answers and errors come in
//! the order of the script, as if there were one thread.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Enough, without optimisation, for the deepest statement that is accepted. Only what is used is ever mapped.
const STACK_BYTES: usize = 256 << 20;

/// Does something on a stack that is deep enough for any plan: planner and optimiser walk trees by recursion, deeper than
/// the stack a caller may have.
pub(crate) fn on_deep_stack<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    // Where no thread is to be had, this one's stack does for all but extreme statements.
    let mut work = Some(work);
    let done = thread::scope(|scope| {
        let work = &mut work;
        let spawned = deep().spawn_scoped(scope, move || work.take().map(|work| work()));
        spawned.ok().and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    match done {
        Some(done) => done,
        None => work.take().expect("no thread has taken it")(),
    }
}

/// As many threads as there are cores: nothing runs yet.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Answers for all items, in their order, found by so many threads.
///
/// # Errors
/// That of the first item that has one. Items behind it may have been passed over.
///
/// # Panics
/// If `work` does.
pub(crate) fn side_by_side<T: Sync, R: Send, E: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let take = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(index).filter(|_| index < failed.load(Relaxed)) else { return done };
            let answer = work(item);
            if answer.is_err() {
                failed.fetch_min(index, Relaxed);
            }
            done.push((index, answer));
        }
    };
    let mut answers = thread::scope(|scope| {
        // Fewer where there are no more to be had.
        let others: Vec<_> = (1..threads).map_while(|_| deep().spawn_scoped(scope, take).ok()).collect();
        let mut answers = take();
        for other in others {
            answers.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        answers
    });
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn deep() -> thread::Builder {
    thread::Builder::new().name("compile".into()).stack_size(STACK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_and_the_first_error_is_told() {
        let items: Vec<u32> = (0..1_000).collect();
        for threads in [0, 1, 2, 7] {
            let doubled = side_by_side(&items, threads, |&item| Ok::<u32, u32>(2 * item)).unwrap();
            assert!(doubled.iter().zip(&items).all(|(&answer, &item)| answer == 2 * item));
            let odd = |&item: &u32| if item < 300 || item % 2 == 0 { Ok(item) } else { Err(item) };
            assert_eq!(side_by_side(&items, threads, odd), Err(301), "{threads} threads");
        }
        assert_eq!(side_by_side(&[] as &[u32], 4, |&item| Ok::<u32, u32>(item)), Ok(vec![]));
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let items: Vec<u32> = (0..100).collect();
        let caught = std::panic::catch_unwind(|| {
            side_by_side(
                &items,
                4,
                |&item| if item == 40 { panic!("at {item}") } else { Ok::<u32, ()>(item) },
            )
        });
        assert!(caught.is_err());
        let caught = std::panic::catch_unwind(|| on_deep_stack(|| -> u32 { panic!("deep") }));
        assert!(caught.is_err());
        assert_eq!(on_deep_stack(|| 7), 7);
    }
}
