//! How much of its stack the current thread has left.
//!
//! # Place
//! Part of `complete::native`: a question is answered on the asking thread when there is room, since a
//! new thread may wait a whole time slice for a busy processor.
#![allow(unsafe_code)] // the thread library is asked where the stack lies

use std::cell::Cell;

thread_local! {
    /// Lowest address of this thread's stack; the highest possible one when it is not known.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Bytes between here and the end of the stack; none when the system does not tell.
pub(super) fn left() -> usize {
    let marker = 0_u8;
    let here = std::hint::black_box(&raw const marker).addr();
    let lowest = LOWEST.get().unwrap_or_else(|| {
        let found = lowest().unwrap_or(usize::MAX);
        LOWEST.set(Some(found));
        found
    });
    here.saturating_sub(lowest)
}

#[cfg(target_os = "linux")]
fn lowest() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attributes are initialised by the call when it returns 0, and only then read and
    // destroyed, once. The thread asked about is the running one, which exists.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut lowest = std::ptr::null_mut();
        let mut n_bytes = 0;
        let told = libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut n_bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (told == 0).then(|| lowest.addr())
    }
}

#[cfg(not(target_os = "linux"))]
fn lowest() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::left;

    #[test]
    fn a_thread_knows_about_how_much_stack_it_has() {
        let told =
            std::thread::Builder::new().stack_size(8 << 20).spawn(left).unwrap().join().unwrap();
        if cfg!(target_os = "linux") {
            assert!((7 << 20..=9 << 20).contains(&told), "{told}");
        }
    }

    #[test]
    fn deeper_frames_have_less() {
        #[inline(never)]
        fn inner() -> usize {
            let room = std::hint::black_box([0_u8; 4096]);
            left() + usize::from(room[0])
        }
        assert!(left() == 0 || inner() < left());
    }
}
