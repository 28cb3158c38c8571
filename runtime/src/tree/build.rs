//! Exact best-first tree builders (`algorithms.md` 3.3 for one mode, 4.3 for several).

use super::Tree;
use super::heap::{Entry, Heap, Pop};
use forkcast_engines::backend::Candidates;

/// Whether a tree is the exact one or might change with more candidates per position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// True when nothing was taken after an entry with the last rank of its list: whatever that list
    /// left out scores no higher than that entry. Lists of `min(budget, vocabulary)`
    /// candidates always suffice, whatever this says (`algorithms.md` 3.2).
    pub exact: bool,
}

/// Builds trees; keeps its buffers from round to round.
#[derive(Clone, Debug, Default)]
pub struct TreeBuilder {
    heap: Heap,
    pops: Vec<Pop>,
}

/// Pops that buffers are made for at once; 8 modes of 1024 nodes.
const MOST_POPS: usize = 8 * 1024;

impl TreeBuilder {
    /// A builder without buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The best token of each position, one path of at most `budget` nodes, read from list `mode` of `candidates`.
    pub fn chain(
        &mut self,
        candidates: &Candidates,
        mode: usize,
        budget: usize,
        anchor: u32,
        tree: &mut Tree,
    ) -> Certificate {
        let lists = Lists(candidates);
        tree.reset(anchor);
        let (mut row, mut score) = (0, 0.0);
        for depth in 1..=budget.min(candidates.positions) as u32 {
            let Some((step, token)) = lists.get(mode as u32, depth, 0) else {
                break;
            };
            score += step;
            row = tree.child_or_add(row, token, score, mode as u32);
        }
        Certificate { exact: true }
    }

    /// DDTree: the `budget` best-scoring prefixes of list `mode`.
    pub fn ddtree(
        &mut self,
        candidates: &Candidates,
        mode: usize,
        budget: usize,
        anchor: u32,
        tree: &mut Tree,
    ) -> Certificate {
        self.best_first(candidates, mode..mode.saturating_add(1), budget, anchor, tree)
    }

    /// MFD: the `budget` prefixes with the best score over all lists; a prefix of several modes is one
    /// node with the best mode's score.
    pub fn mixture(
        &mut self,
        candidates: &Candidates,
        budget: usize,
        anchor: u32,
        tree: &mut Tree,
    ) -> Certificate {
        self.best_first(candidates, 0..candidates.modes, budget, anchor, tree)
    }

    /// Scores are sums from the anchor down, in float64: adding a value that is not positive never
    /// raises a sum, rounding included, so parents come first and siblings keep the order of their list.
    fn best_first(
        &mut self,
        candidates: &Candidates,
        modes: std::ops::Range<usize>,
        budget: usize,
        anchor: u32,
        tree: &mut Tree,
    ) -> Certificate {
        let lists = Lists(candidates);
        tree.reset(anchor);
        // A prefix is popped at most once a mode, and a pop leaves at most one entry more than before.
        let most = budget.saturating_mul(modes.len());
        self.heap.clear(most.min(MOST_POPS) + modes.len());
        self.pops.clear();
        self.pops.reserve(most.min(MOST_POPS));
        for mode in modes.clone() {
            // Collapsed modes would pop every prefix once each, all of them ties, and add nothing.
            if (modes.start..mode).any(|earlier| lists.same(earlier, mode)) {
                continue;
            }
            if let Some((step, _)) = lists.get(mode as u32, 1, 0) {
                let first = Entry {
                    score: step,
                    mode: mode as u32,
                    parent: u32::MAX,
                    rank: 0,
                    depth: 1,
                };
                self.heap.push(first, &self.pops);
            }
        }
        let mut exact = true;
        let mut cut = false;
        // Lists that name a token twice, as no engine should, would pop prefixes without end and add nothing.
        while tree.len() <= budget && self.pops.len() < most {
            let Some(entry) = self.heap.peek() else {
                exact &= !cut;
                break;
            };
            exact &= !cut;
            cut |= entry.rank as usize + 1 == candidates.k;
            let (above, base) = self
                .pops
                .get(entry.parent as usize)
                .map_or((0, 0.0), |p| (p.row, p.score));
            let token = lists.token(&entry);
            // A prefix seen before keeps its score, the best; its mode's stream goes on below it all the same.
            let row = tree.child_or_add(above, token, entry.score, entry.mode);
            let pop = self.pops.len() as u32;
            self.pops.push(Pop {
                score: entry.score,
                parent: entry.parent,
                rank: entry.rank,
                row,
            });
            match lists.get(entry.mode, entry.depth, entry.rank + 1) {
                Some((step, _)) => {
                    let sibling = Entry {
                        score: base + step,
                        rank: entry.rank + 1,
                        ..entry
                    };
                    self.heap.replace_first(sibling, &self.pops);
                }
                None => self.heap.drop_first(&self.pops),
            }
            if let Some((step, _)) = lists.get(entry.mode, entry.depth + 1, 0) {
                let child = Entry {
                    score: entry.score + step,
                    parent: pop,
                    rank: 0,
                    depth: entry.depth + 1,
                    ..entry
                };
                self.heap.push(child, &self.pops);
            }
        }
        Certificate { exact }
    }
}

/// Candidates by mode, depth (from 1) and rank.
#[derive(Clone, Copy)]
struct Lists<'a>(&'a Candidates);

impl Lists<'_> {
    fn at(&self, mode: u32, depth: u32, rank: u32) -> usize {
        (mode as usize * self.0.positions + depth as usize - 1) * self.0.k + rank as usize
    }

    /// Log-probability and token of a candidate; `None` beyond the lists and for values that are no
    /// log-probability. Lists are sorted, so nothing behind such a value is a node either.
    fn get(&self, mode: u32, depth: u32, rank: u32) -> Option<(f64, u32)> {
        if mode as usize >= self.0.modes || depth as usize > self.0.positions || rank as usize >= self.0.k {
            return None;
        }
        let at = self.at(mode, depth, rank);
        let logp = *self.0.logp.get(at)?;
        let token = *self.0.ids.get(at)?;
        logp.is_finite().then_some((f64::from(logp), token))
    }

    /// Whether two modes list the same tokens with the same values.
    fn same(&self, a: usize, b: usize) -> bool {
        let size = self.0.positions * self.0.k;
        let span = |mode: usize| mode * size..(mode + 1) * size;
        let (ids, logp) = (&self.0.ids, &self.0.logp);
        matches!((ids.get(span(a)), ids.get(span(b))), (Some(x), Some(y)) if x == y)
            && matches!((logp.get(span(a)), logp.get(span(b))), (Some(x), Some(y)) if x == y)
    }

    fn token(&self, entry: &Entry) -> u32 {
        self.0.ids[self.at(entry.mode, entry.depth, entry.rank)]
    }
}
