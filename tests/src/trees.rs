//! Random trees for tests.

use rand::Rng;

/// A tree of rows in topological order with random tokens.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Token of each row.
    pub tokens: Vec<u32>,
    /// Parent of each row; row 0 has none.
    pub parents: Vec<Option<usize>>,
}

impl Rows {
    /// `n` rows over `vocab` tokens, at most `depth` below the anchor.
    pub fn random(rng: &mut impl Rng, n: usize, depth: usize, vocab: u32) -> Self {
        let mut rows = Self {
            tokens: vec![rng.random_range(0..vocab)],
            parents: vec![None],
        };
        while rows.tokens.len() < n {
            let parent = rng.random_range(0..rows.tokens.len());
            if rows.path(parent).len() <= depth {
                rows.tokens.push(rng.random_range(0..vocab));
                rows.parents.push(Some(parent));
            }
        }
        rows
    }

    /// Rows from the anchor to `row`, both included.
    #[must_use]
    pub fn path(&self, row: usize) -> Vec<usize> {
        let mut path = vec![row];
        while let Some(parent) = self.parents[path[path.len() - 1]] {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// Tokens along [`Self::path`].
    #[must_use]
    pub fn path_tokens(&self, row: usize) -> Vec<u32> {
        self.path(row).into_iter().map(|r| self.tokens[r]).collect()
    }

    /// Positions after `committed` rows, `[N]`.
    #[must_use]
    pub fn positions(&self, committed: usize) -> Vec<i64> {
        (0..self.tokens.len())
            .map(|r| (committed + self.path(r).len() - 1) as i64)
            .collect()
    }

    /// Visibility `[N, N]` row-major.
    #[must_use]
    pub fn ancestors(&self) -> Vec<bool> {
        let n = self.tokens.len();
        let mut out = vec![false; n * n];
        for row in 0..n {
            for seen in self.path(row) {
                out[row * n + seen] = true;
            }
        }
        out
    }
}
