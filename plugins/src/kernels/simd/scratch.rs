//! Memory of a thread.

use std::cell::Cell;

thread_local! {
    static POOL: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// This thread's memory, grown to the largest size ever asked for and never given back: a steady state
/// allocates nothing. Contents are whatever the last user left.
pub(super) struct Scratch {
    memory: Vec<f32>,
    len: usize,
}

impl Scratch {
    pub(super) fn take(len: usize) -> Self {
        let mut memory = POOL.take();
        if memory.len() < len {
            memory.resize(len, 0.0);
        }
        Self { memory, len }
    }

    pub(super) fn floats(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        POOL.set(std::mem::take(&mut self.memory));
    }
}
