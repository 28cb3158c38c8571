//! The rows of a verify pass in the form that engines take.

use super::Tree;
use forkcast_engines::backend::RowBatch;

/// Positions and visibility of one pass, in buffers that are reused from round to round.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    positions: Vec<i64>,
    ancestors: Vec<bool>,
}

impl Rows {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All rows of `tree`, whose anchor stands at absolute position `start`.
    pub fn of_tree<'a>(&'a mut self, tree: &'a Tree, start: i64) -> RowBatch<'a> {
        tree.fill_positions(start, &mut self.positions);
        tree.fill_ancestors(&mut self.ancestors);
        self.batch(tree.tokens())
    }

    /// A piece of text: `tokens[0]` stands at absolute position `start`, every token sees those before it.
    pub fn of_chain<'a>(&'a mut self, tokens: &'a [u32], start: i64) -> RowBatch<'a> {
        let n = tokens.len();
        self.positions.clear();
        self.positions
            .extend((0..n as i64).map(|p| start.saturating_add(p)));
        self.ancestors.clear();
        self.ancestors.resize(n * n, false);
        for row in 0..n {
            self.ancestors[row * n..=row * n + row].fill(true);
        }
        self.batch(tokens)
    }

    fn batch<'a>(&'a self, tokens: &'a [u32]) -> RowBatch<'a> {
        RowBatch {
            tokens,
            positions: &self.positions,
            ancestors: &self.ancestors,
        }
    }
}
