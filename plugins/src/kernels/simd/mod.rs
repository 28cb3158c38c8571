//! Vector instructions chosen at run time, and per-thread scratch memory.
//!
//! Kernels are written once over [`Isa`]. [`dispatch`] inlines a [`Task`] into functions compiled with the
//! instruction set's features, so that vectors stay in registers.

mod portable;
mod scratch;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::parallel::{Parallel, Serial};
use scratch::Scratch;
use std::sync::OnceLock;

/// An instruction set. A value of an implementing type is the proof that this machine has it. Every method
/// is `#[inline(always)]`: outside of a function with the features it would be a slow call.
pub(super) trait Isa: Copy + Send + Sync {
    /// Vector of [`Self::LANES`] floats.
    type V: Copy;
    /// The sixteen numbers that four bits stand for.
    type Table: Copy;
    /// Floats per vector.
    const LANES: usize;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::V;
    /// The first lanes' worth of `from`, which must be that long.
    fn load(self, from: &[f32]) -> Self::V;
    /// Writes the lanes to the start of `to`, which must be that long.
    fn store(self, to: &mut [f32], x: Self::V);
    /// `a + b`
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the machine can.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Larger of the two.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// Smaller of the two.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// Sum of the lanes.
    fn sum(self, x: Self::V) -> f32;
    /// Sums of the lanes of four vectors.
    fn sums(self, x: [Self::V; 4]) -> [f32; 4];
    /// The first lanes' worth of bytes, -128 to 127.
    fn bytes(self, from: &[u8]) -> Self::V;
    /// `scale * (q - 8)` for all four bits q.
    fn table(self, scale: f32) -> Self::Table;
    /// What the first lanes' worth of four bits stands for, the low half of a byte first.
    fn nibbles(self, from: &[u8], table: Self::Table) -> Self::V;
    /// Says that `from[at]` will be read soon; nothing happens where that is outside of the slice.
    fn prefetch<T>(self, from: &[T], at: usize);
    /// `x * 2^n` for integral `n` in -126..=127.
    fn scale_pow2(self, x: Self::V, n: Self::V) -> Self::V;
    /// `value` where `x >= limit`, else 0.
    fn keep_ge(self, x: Self::V, limit: Self::V, value: Self::V) -> Self::V;
}

/// Numbered pieces of a kernel's work.
pub(super) trait Task: Sync {
    /// Floats of scratch memory that one piece needs when vectors have `lanes` floats.
    fn scratch(&self, lanes: usize) -> usize;

    /// Multiply-adds of all pieces together, roughly.
    fn work(&self) -> usize;

    /// Does piece `index`. Implementations are `#[inline(always)]`, see [`Isa`].
    fn run<I: Isa>(&self, isa: I, index: usize, scratch: &mut [f32]);
}

/// A chosen instruction set.
#[derive(Clone, Copy, Debug)]
enum Level {
    Portable(portable::Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
        }
    }
}

/// The best level of this machine, or the one that [`VARIABLE`] names.
fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let named = requested().ok().flatten();
        named
            .or_else(|| supported().pop())
            .unwrap_or(Level::Portable(portable::Portable))
    })
}

/// Environment variable that names the instruction set to use, to compare them or to rule one out.
const VARIABLE: &str = "FORKCAST_SIMD";

/// What [`VARIABLE`] asks for.
///
/// # Errors
/// Says what can be asked for when it names something else.
pub(super) fn check_variable() -> Result<(), String> {
    requested().map(|_| ())
}

fn requested() -> Result<Option<Level>, String> {
    let Some(name) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let supported = supported();
    let found = supported.iter().find(|level| name.to_str() == Some(level.name()));
    found.copied().map(Some).ok_or_else(|| {
        let names: Vec<&str> = supported.iter().map(|level| level.name()).collect();
        format!("{VARIABLE}={} is not one of {}", name.display(), names.join(", "))
    })
}

/// What this machine has, slowest first.
fn supported() -> Vec<Level> {
    let mut levels = vec![Level::Portable(portable::Portable)];
    #[cfg(target_arch = "x86_64")]
    {
        levels.extend(x86::Avx2::detect().map(Level::Avx2));
        levels.extend(x86::Avx512::detect().map(Level::Avx512));
    }
    levels
}

/// Less work than this is done before other threads have woken up.
const WORTH_SPREADING: usize = 100_000;

/// Runs all pieces of a task with the best instruction set of this machine.
pub(super) fn dispatch<T: Task>(parallel: &dyn Parallel, pieces: usize, task: &T) {
    let small = task.work() < WORTH_SPREADING;
    dispatch_at(level(), if small { &Serial } else { parallel }, pieces, task);
}

fn dispatch_at<T: Task>(level: Level, parallel: &dyn Parallel, pieces: usize, task: &T) {
    parallel.run(pieces, &|index| match level {
        Level::Portable(isa) => {
            let mut scratch = Scratch::take(task.scratch(portable::Portable::LANES));
            task.run(isa, index, scratch.floats());
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(isa) => {
            let mut scratch = Scratch::take(task.scratch(x86::Avx2::LANES));
            x86::run_avx2(isa, task, index, scratch.floats());
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(isa) => {
            let mut scratch = Scratch::take(task.scratch(x86::Avx512::LANES));
            x86::run_avx512(isa, task, index, scratch.floats());
        }
    });
}

#[cfg(test)]
mod tests;
