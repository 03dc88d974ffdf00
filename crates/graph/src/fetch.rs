//! Memory that is asked for before it is needed: where thousands of operators have a row each, their state is in no cache,
//! and most of a worker's time is waiting for it.

use std::ptr;

/// Asks the processor for the memory that a value stands in: who touches it soon waits less. Nothing else comes of it, nor
/// of the rest of a value that is larger than some kilobytes.
#[inline]
pub fn fetch<T: ?Sized>(value: &T) {
    let begin = ptr::from_ref(value).cast::<i8>();
    let before = begin.addr() % LINE_BYTES;
    let bytes = (before + size_of_val(value)).min(BYTES_MAX);
    for offset in (0..bytes).step_by(LINE_BYTES) {
        fetch_line(begin.wrapping_sub(before).wrapping_add(offset));
    }
}

/// Of a cache.
const LINE_BYTES: usize = 64;

/// More than an operator touches at a row. Picked.
const BYTES_MAX: usize = 2_048;

#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code)]
fn fetch_line(at: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it changes no register and no memory, and faults at no address, mapped or not. It is part
    // of SSE, which every x86_64 processor has.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
}

/// Elsewhere there is no stable way to ask.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch_line(_: *const i8) {}

#[cfg(test)]
mod tests {
    use super::fetch;

    #[test]
    fn any_value_can_be_asked_for() {
        fetch(&());
        fetch(&7_u8);
        fetch("text");
        fetch::<[u64]>(&[]);
        fetch(&[1_u64; 4_096][..]);
        let boxed: Box<dyn Fn() -> u8> = Box::new(|| 3);
        fetch(&*boxed);
        assert_eq!(boxed(), 3);
    }
}
