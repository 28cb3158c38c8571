//! What the operator tests share: random trees, one-node models, ways to run an operator, bounds.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file uses its own part of this module"
)]

pub mod bf16;
pub mod cases;
pub mod session;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// `len` numbers uniform in [-1, 1).
pub fn uniform(rng: &mut ChaCha8Rng, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.random_range(-1.0f32..1.0)).collect()
}

/// A tree as parents in topological order; row 0 is the root.
#[derive(Clone, Debug)]
pub struct Tree {
    pub parents: Vec<Option<usize>>,
}

impl Tree {
    pub fn chain(rows: usize) -> Self {
        Self {
            parents: (0..rows).map(|i| i.checked_sub(1)).collect(),
        }
    }

    /// A random tree whose paths have at most `depth` rows. With `deep` new rows prefer the newest
    /// ones as parents, which gives the long thin shapes of speculative decoding.
    pub fn random(rng: &mut ChaCha8Rng, rows: usize, depth: usize) -> Self {
        let deep = rng.random_bool(0.5);
        let mut parents: Vec<Option<usize>> = vec![None];
        let mut depths = vec![1];
        while parents.len() < rows {
            let newest = parents.len();
            let low = if deep { newest.saturating_sub(4) } else { 0 };
            let mut parent = rng.random_range(low..newest);
            while depths[parent] >= depth {
                parent = parents[parent].unwrap_or(0);
                if depth == 1 {
                    break;
                }
            }
            if depth == 1 {
                break;
            }
            depths.push(depths[parent] + 1);
            parents.push(Some(parent));
        }
        Self { parents }
    }

    pub fn rows(&self) -> usize {
        self.parents.len()
    }

    /// Rows from the root to `row`, inclusive.
    pub fn path(&self, row: usize) -> Vec<usize> {
        let mut path = vec![row];
        while let Some(parent) = self.parents[path[path.len() - 1]] {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// [N,N], inclusive.
    pub fn ancestors(&self) -> Vec<bool> {
        let rows = self.rows();
        let mut mask = vec![false; rows * rows];
        for row in 0..rows {
            for seen in self.path(row) {
                mask[row * rows + seen] = true;
            }
        }
        mask
    }

    /// Number of rows before each row on its path.
    pub fn depths(&self) -> Vec<usize> {
        (0..self.rows()).map(|row| self.path(row).len() - 1).collect()
    }
}

/// Asserts `|found - expected| <= bound * max(1, max |expected|)` everywhere; returns the largest error
/// on that scale.
#[track_caller]
pub fn assert_close(what: &str, found: &[f32], expected: &[f64], bound: f64) -> f64 {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    let scale = expected.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    let mut worst = 0.0f64;
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs() / scale;
        assert!(
            error <= bound,
            "{what}: element {at} is {found}, expected {expected} (error {error:.2e} on scale {scale:.2e}, bound {bound:.2e})"
        );
        worst = worst.max(error);
    }
    worst
}

/// The project's bound: 1e-5 + 2 eps max|G| (exp of a difference of cumulative gates loses that much).
pub fn bound(gates: &[f64]) -> f64 {
    1e-5 + 2.0 * f64::from(f32::EPSILON) * gates.iter().fold(0.0f64, |m, g| m.max(g.abs()))
}
