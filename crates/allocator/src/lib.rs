//! The memory allocator of the programs, and when it gives memory back.
//!
//! A program has it with `#[global_allocator] static ALLOCATOR: MiMalloc = MiMalloc;` and calls [`keep_freed`] first.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};
pub use mimalloc::MiMalloc;

/// `mi_option_purge_delay`, which the crate leaves out.
const PURGE_DELAY: mi_option_t = 15;

/// How long memory that was freed stays with the program, ms; ten times that where it is 32 MiB in one piece. Batches come and
/// go faster, and what is given back between them costs a page fault for every 4 KiB. All CPU of 10 000 windows of a row each
/// beside four queries of 4 million rows/s, six runs in turn, and of the main job at one pace, four: 8.70 and 11.98 s with the
/// allocator's own 10 ms, 8.33 and 11.25 with 100, 8.05 and 11.23 with 1 000; memory at its most 327 and 242 MB, 347 and 260,
/// 356 and 264.
const FREED_STAYS_MS: c_long = 100;

/// Keeps freed memory for a tenth of a second before the system has it back, unless `MIMALLOC_PURGE_DELAY` says how long.
pub fn keep_freed() {
    set_default(PURGE_DELAY, FREED_STAYS_MS);
}

#[allow(unsafe_code)]
fn set_default(option: mi_option_t, value: c_long) {
    // SAFETY: it writes one word of a table of the allocator's, after a look whether `option` is inside it and not set yet.
    // Other threads read that word without a lock: they see the value of before or this one, both of which are valid.
    unsafe { mi_option_set_default(option, value) }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::{FREED_STAYS_MS, PURGE_DELAY, keep_freed};

    #[test]
    #[allow(unsafe_code)]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: it reads one word of a table of the allocator's, after a look whether the option is inside it.
        let get = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 10, "the allocator's own, documented default");
        keep_freed();
        assert_eq!(get(), FREED_STAYS_MS);
    }
}
