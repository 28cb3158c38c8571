//! Acceptance as asked for: what a round costs, without the luck of a drafter.
//!
//! Everything is computed as always - draft, candidates, tree, verify, head, commit - but the drafted log-probabilities
//! are replaced by those of a confident drafter, and in the logits of the rows on a chosen path the next token of the
//! path wins. Rounds then accept as many rows as the path has, and the text means nothing.

use forkcast_engines::backend::{
    Backend, BackendError, Candidates, Counters, LogitNeeds, RowBatch, Shape, Snapshot,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::ops::Range;
use std::time::Duration;

/// Probability of a drafted position's first candidate; the others halve what is left.
const FIRST: f32 = 0.8;
/// Log-probability that each mode lies behind the one before it.
const MODE_STEP: f32 = 0.02;
/// Logit that beats every real one, at every temperature.
const CERTAIN: f32 = 1e30;
/// Most rows that are made up for later, when trees were too shallow or lengths rounded.
const MOST_OWED: f64 = 2.0;

/// An engine whose rounds accept a chosen number of rows on average.
#[derive(Debug)]
pub struct Synthetic<'a, B: Backend + ?Sized> {
    inner: &'a mut B,
    tau: f64,
    owed: f64,
    dice: ChaCha8Rng,
    drafted: bool,
    /// Token that follows each row of the chosen path.
    forced: Vec<(u32, u32)>,
}

impl<'a, B: Backend + ?Sized> Synthetic<'a, B> {
    /// Rounds of `inner` accept `tau` rows (at least 1) on average, as far as trees are deep enough.
    pub fn new(inner: &'a mut B, tau: f64, seed: u64) -> Self {
        Self {
            inner,
            tau: tau.max(1.0),
            owed: 0.0,
            dice: ChaCha8Rng::seed_from_u64(seed),
            drafted: false,
            forced: Vec::new(),
        }
    }

    /// A number in [0, 1).
    fn uniform(&mut self) -> f64 {
        f64::from(self.dice.next_u32()) / (f64::from(u32::MAX) + 1.0)
    }

    /// Chooses the path of a tree: its length around tau, each child by chance among those below which the tree is deep
    /// enough.
    fn choose(&mut self, batch: &RowBatch<'_>) {
        let parents = parents(batch);
        let heights = heights(&parents);
        let wanted = self.tau + self.owed;
        let spread = (self.uniform() - 0.5) * (self.tau - 1.0);
        let length = (wanted + spread).round().clamp(1.0, f64::from(heights[0]) + 1.0);
        self.owed = (wanted - length).clamp(-MOST_OWED * self.tau, MOST_OWED);
        let mut row = 0;
        self.forced.clear();
        for left in (1..length as u32).rev() {
            let deep = |c: &usize| parents[*c] == Some(row) && heights[*c] + 1 >= left;
            let children: Vec<usize> = (row + 1..batch.len()).filter(deep).collect();
            // Rows are numbered best first, so the first child is the likeliest.
            let mut pick = 0;
            while pick + 1 < children.len() && self.uniform() > f64::from(FIRST) {
                pick += 1;
            }
            let Some(child) = children.get(pick) else { break };
            self.forced.push((row as u32, batch.tokens[*child]));
            row = *child;
        }
        let taken =
            |id: u32| (row + 1..batch.len()).any(|c| parents[c] == Some(row) && batch.tokens[c] == id);
        let start = self.dice.next_u32() % self.inner.shape().vocab as u32;
        let ids = (start..self.inner.shape().vocab as u32).chain(0..start);
        if let Some(id) = ids.into_iter().find(|id| !taken(*id)) {
            self.forced.push((row as u32, id));
        }
    }
}

/// Nearest ancestor of each row; none for the first.
fn parents(batch: &RowBatch<'_>) -> Vec<Option<usize>> {
    let n = batch.len();
    (0..n)
        .map(|i| (0..i).rev().find(|j| batch.ancestors[i * n + j]))
        .collect()
}

/// Rows below each row on the longest path down.
fn heights(parents: &[Option<usize>]) -> Vec<u32> {
    let mut heights = vec![0; parents.len()];
    for row in (1..parents.len()).rev() {
        if let Some(p) = parents[row] {
            heights[p] = heights[p].max(heights[row] + 1);
        }
    }
    heights
}

impl<B: Backend + ?Sized> Backend for Synthetic<'_, B> {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn committed(&self) -> usize {
        self.inner.committed()
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        self.drafted = false;
        self.forced.clear();
        self.owed = 0.0;
        self.inner.reset()
    }

    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        self.inner.reserve(rows)
    }

    fn set_drafting(&mut self, on: bool) {
        self.inner.set_drafting(on);
    }

    fn limit_depth(&mut self, depth: usize) {
        self.inner.limit_depth(depth);
    }

    fn set_needs(&mut self, needs: LogitNeeds) {
        self.inner.set_needs(needs);
    }

    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        self.forced.clear();
        if std::mem::take(&mut self.drafted) {
            self.choose(batch);
        }
        self.inner.verify(batch)
    }

    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        self.inner.logits(rows, out)?;
        let vocab = self.inner.shape().vocab;
        for (line, row) in out.chunks_exact_mut(vocab).zip(rows) {
            if let Some((_, id)) = self.forced.iter().find(|(r, _)| r == row) {
                line[*id as usize] = CERTAIN;
            }
        }
        Ok(())
    }

    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        self.inner.features(hidden, taps)
    }

    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        self.inner.commit(path)
    }

    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
        self.inner.draft(anchor)?;
        self.drafted = true;
        Ok(())
    }

    fn candidates(
        &mut self,
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        self.inner.candidates(modes, k, out)?;
        let row = out.positions * out.k;
        for (place, logp) in out.logp.iter_mut().enumerate() {
            let (mode, rank) = (place / row.max(1), place % out.k.max(1));
            let share = if rank == 0 {
                FIRST.ln()
            } else {
                (1.0 - FIRST).ln() - rank as f32 * std::f32::consts::LN_2
            };
            *logp = share - mode as f32 * MODE_STEP;
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Snapshot, BackendError> {
        self.inner.snapshot()
    }

    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.inner.rewind(snapshot)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn library_time(&self) -> Duration {
        self.inner.library_time()
    }
}
