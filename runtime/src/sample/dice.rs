//! One number per position.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A counter-based source of numbers: ChaCha with 8 rounds, keyed by the seed, stream = position. The number of a
/// position does not depend on which others were asked for, or in which order.
#[derive(Clone, Debug)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// The number in [0, 1) that belongs to `position`: a multiple of 2^-53.
    pub(super) fn uniform(&self, position: u64) -> f64 {
        // A generator that has produced nothing moves to another stream for free; a used one computes
        // its old block again first.
        let mut fresh = self.0.clone();
        fresh.set_stream(position);
        (fresh.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}
