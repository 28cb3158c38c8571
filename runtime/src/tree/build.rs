//! Exact best-first tree builders (`algorithms.md` 3.3 for one mode, 4.3 for several).

use super::Tree;
use super::heap::{Entry, Heap, Pop};
use forkcast_engines::backend::Candidates;

/// Whether a tree is the exact one or might change with more candidates per position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// True when no entry that was taken had the last rank of its list. Lists of `min(budget, vocabulary)`
    /// candidates always suffice, whatever this says (`algorithms.md` 3.2).
    pub exact: bool,
}

/// Builds trees; keeps its buffers from round to round.
#[derive(Clone, Debug, Default)]
pub struct TreeBuilder {
    heap: Heap,
    pops: Vec<Pop>,
}

/// Log-probability of a candidate; `None` beyond the lists and for values that are no log-probability.
fn logp(c: &Candidates, mode: usize, depth: u32, rank: u32) -> Option<f64> {
    let (position, rank) = (depth as usize - 1, rank as usize);
    if position >= c.positions || rank >= c.k {
        return None;
    }
    let value = *c.logp.get((mode * c.positions + position) * c.k + rank)?;
    value.is_finite().then_some(f64::from(value))
}

impl TreeBuilder {
    /// A builder without buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The best token of each position, one path of at most `budget` nodes, read from list `mode` of `candidates`.
    pub fn chain(
        &mut self,
        c: &Candidates,
        mode: usize,
        budget: usize,
        anchor: u32,
        tree: &mut Tree,
    ) -> Certificate {
        tree.prepare(anchor, budget.min(c.positions));
        let (mut row, mut score) = (0, 0.0);
        for depth in 1..=budget.min(c.positions) as u32 {
            let Some(step) = logp(c, mode, depth, 0) else {
                break;
            };
            score += step;
            row = tree.add(
                row,
                c.ids[(mode * c.positions + depth as usize - 1) * c.k],
                score,
                mode as u32,
            );
        }
        Certificate { exact: true }
    }

    /// DDTree: the `budget` best-scoring prefixes of list `mode`.
    pub fn ddtree(
        &mut self,
        c: &Candidates,
        mode: usize,
        budget: usize,
        anchor: u32,
        tree: &mut Tree,
    ) -> Certificate {
        self.best_first(c, mode..mode + 1, budget, anchor, tree)
    }

    /// MFD: the `budget` prefixes with the best score over all lists; a prefix of several modes is one
    /// node with the best mode's score.
    pub fn mixture(&mut self, c: &Candidates, budget: usize, anchor: u32, tree: &mut Tree) -> Certificate {
        self.best_first(c, 0..c.modes, budget, anchor, tree)
    }

    fn best_first(
        &mut self,
        c: &Candidates,
        modes: std::ops::Range<usize>,
        budget: usize,
        anchor: u32,
        tree: &mut Tree,
    ) -> Certificate {
        tree.prepare(anchor, budget);
        self.heap.clear();
        self.pops.clear();
        for mode in modes {
            self.offer(c, mode as u32, u32::MAX, 1, 0, 0.0);
        }
        let mut exact = true;
        while tree.len() <= budget {
            let Some(entry) = self.heap.pop(&self.pops) else {
                break;
            };
            let Entry {
                score,
                mode,
                parent,
                rank,
                depth,
            } = entry;
            exact &= (rank as usize) + 1 < c.k;
            let above = self.pops.get(parent as usize).map_or(0, |p| p.row);
            let token = c.ids[(mode as usize * c.positions + depth as usize - 1) * c.k + rank as usize];
            // A prefix seen before keeps its score, the best; its mode's stream goes on below it all the same.
            let row = tree
                .child(above, token)
                .unwrap_or_else(|| tree.add(above, token, score, mode));
            let pop = self.pops.len() as u32;
            self.pops.push(Pop { parent, rank, row });
            let own = logp(c, mode as usize, depth, rank).unwrap_or(0.0);
            self.offer(c, mode, parent, depth, rank + 1, score - own);
            self.offer(c, mode, pop, depth + 1, 0, score);
        }
        Certificate { exact }
    }

    fn offer(&mut self, c: &Candidates, mode: u32, parent: u32, depth: u32, rank: u32, base: f64) {
        if let Some(step) = logp(c, mode as usize, depth, rank) {
            self.heap.push(
                Entry {
                    score: base + step,
                    mode,
                    parent,
                    rank,
                    depth,
                },
                &self.pops,
            );
        }
    }
}
