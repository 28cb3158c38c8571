//! How a kernel spreads its tasks over threads, and how tasks share one output.

use std::marker::PhantomData;

/// Runs independent tasks, possibly at the same time.
pub trait Parallel {
    /// Calls `task` once with every number below `tasks` and returns when all calls are done.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// One task after the other on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// A mutable slice that tasks write at the same time, each its own parts: outputs are [rows, heads, dim]
/// and a task owns a head, so that its parts cannot be split off as one slice.
pub(super) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

#[expect(unsafe_code, reason = "tasks write disjoint parts of one output")]
// SAFETY: a `Shared` only hands out parts through `part`, whose caller promises that no two tasks hold
// overlapping ones.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub(super) fn new(slice: &'a mut [f32]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            borrow: PhantomData,
        }
    }

    /// The elements `at..at + len`.
    ///
    /// # Safety
    /// While the returned part lives, no other part that overlaps it may be taken.
    #[expect(unsafe_code, clippy::mut_from_ref, reason = "see the safety contract")]
    #[inline(always)]
    pub(super) unsafe fn part(&self, at: usize, len: usize) -> &mut [f32] {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: inside the slice by the assertion; not aliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}
