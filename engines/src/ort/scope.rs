//! Marks calls into the library, so that a counting allocator can tell its allocations from ours.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While one lives, the thread is inside the library or the binding to it.
#[derive(Debug)]
pub struct LibraryScope(Instant);

impl LibraryScope {
    /// Enters.
    #[must_use]
    pub fn enter() -> Self {
        DEPTH.with(|d| d.set(d.get() + 1));
        Self(Instant::now())
    }

    /// Whether the calling thread is inside.
    #[must_use]
    pub fn active() -> bool {
        DEPTH.try_with(|d| d.get() > 0).unwrap_or(false)
    }

    /// Time since this scope was entered.
    #[must_use]
    pub fn elapsed(&self) -> std::time::Duration {
        self.0.elapsed()
    }
}

impl Drop for LibraryScope {
    fn drop(&mut self) {
        DEPTH.with(|d| d.set(d.get().saturating_sub(1)));
    }
}
