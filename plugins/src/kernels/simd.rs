//! Run-time choice of the instruction set, and per-thread scratch memory.
//!
//! Kernels are plain loops over arrays of fixed width which the compiler vectorises. A [`Task`] is
//! compiled once per instruction set by inlining it into functions that enable the features.

use super::parallel::Parallel;
use std::{cell::Cell, sync::OnceLock};

/// Widest register tile, in floats.
pub(super) const MAX_WIDTH: usize = 32;

/// Numbered pieces of a kernel's work.
pub(super) trait Task: Sync {
    /// Floats of scratch memory that one piece needs.
    fn scratch(&self) -> usize;

    /// Does piece `index`. `FMA`: fused multiply-add is an instruction; `W`: floats per register tile.
    /// Implementations are `#[inline(always)]`, or they would be compiled without the features.
    fn run<const FMA: bool, const W: usize>(&self, index: usize, scratch: &mut [f32]);
}

#[derive(Clone, Copy, Debug)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
            {
                return Level::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Level::Avx2;
            }
        }
        Level::Portable
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<T: Task>(task: &T, index: usize, scratch: &mut [f32]) {
    task.run::<true, 16>(index, scratch);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
fn run_avx512<T: Task>(task: &T, index: usize, scratch: &mut [f32]) {
    task.run::<true, MAX_WIDTH>(index, scratch);
}

/// Runs all pieces of a task with the best instruction set of this machine.
pub(super) fn dispatch<T: Task>(parallel: &dyn Parallel, pieces: usize, task: &T) {
    let level = level();
    parallel.run(pieces, &|index| {
        let mut scratch = Scratch::take(task.scratch());
        let scratch = scratch.floats.as_mut_slice();
        match level {
            Level::Portable => task.run::<false, 16>(index, scratch),
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls of functions with target features")]
            // SAFETY: `level` found the features on this machine.
            Level::Avx2 => unsafe { run_avx2(task, index, scratch) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls of functions with target features")]
            // SAFETY: `level` found the features on this machine.
            Level::Avx512 => unsafe { run_avx512(task, index, scratch) },
        }
    });
}

thread_local! {
    static POOL: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Memory of this thread, grown to the largest size ever asked for and never given back: a steady state
/// allocates nothing.
struct Scratch {
    floats: Vec<f32>,
}

impl Scratch {
    fn take(len: usize) -> Self {
        let mut floats = POOL.take();
        if floats.len() < len {
            floats.resize(len, 0.0);
        }
        Self { floats }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        POOL.set(std::mem::take(&mut self.floats));
    }
}
