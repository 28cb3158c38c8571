//! Trees of drafted continuations: what one verify pass looks at.
//!
//! Row 0 is the anchor, the last emitted token; every other row is a node. Rows are numbered in the order in
//! which best-first search finds them, so scores do not increase and parents come before children.

mod build;
mod heap;
pub mod reference;

pub use build::{Certificate, TreeBuilder};

const NONE: u32 = u32::MAX;

/// A prefix tree in topological order, as arrays over rows.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    tokens: Vec<u32>,
    parents: Vec<i32>,
    depths: Vec<u32>,
    scores: Vec<f64>,
    modes: Vec<u32>,
    first_child: Vec<u32>,
    last_child: Vec<u32>,
    next_sibling: Vec<u32>,
    table: Vec<u32>,
}

impl Tree {
    /// A tree without rows; [`Self::reset`] gives it an anchor.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all nodes and sets the anchor. Keeps the memory.
    pub fn reset(&mut self, anchor: u32) {
        self.tokens.clear();
        self.parents.clear();
        self.depths.clear();
        self.scores.clear();
        self.modes.clear();
        self.first_child.clear();
        self.last_child.clear();
        self.next_sibling.clear();
        self.table.fill(NONE);
        self.push(-1, anchor, 0, 0.0, 0);
    }

    /// Makes room for `nodes` nodes and for finding children among them.
    pub(crate) fn prepare(&mut self, anchor: u32, nodes: usize) {
        let slots = (4 * (nodes + 1)).next_power_of_two();
        if self.table.len() < slots {
            self.table.resize(slots, NONE);
        }
        self.reset(anchor);
    }

    fn push(&mut self, parent: i32, token: u32, depth: u32, score: f64, mode: u32) {
        self.tokens.push(token);
        self.parents.push(parent);
        self.depths.push(depth);
        self.scores.push(score);
        self.modes.push(mode);
        self.first_child.push(NONE);
        self.last_child.push(NONE);
        self.next_sibling.push(NONE);
    }

    /// Appends a node below `parent` and returns its row. The caller knows that `parent` has no such child.
    pub(crate) fn add(&mut self, parent: u32, token: u32, score: f64, mode: u32) -> u32 {
        let row = self.tokens.len() as u32;
        let p = parent as usize;
        self.push(parent as i32, token, self.depths[p] + 1, score, mode);
        let last = std::mem::replace(&mut self.last_child[p], row);
        if last == NONE {
            self.first_child[p] = row;
        } else {
            self.next_sibling[last as usize] = row;
        }
        let mut slot = self.slot(parent, token);
        while let Some(entry) = self.table.get_mut(slot) {
            if *entry == NONE {
                *entry = row;
                break;
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
        row
    }

    fn slot(&self, parent: u32, token: u32) -> usize {
        let key = (u64::from(parent) << 32) | u64::from(token);
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & self.table.len().saturating_sub(1)
    }

    /// The child of `row` that carries `token`.
    #[must_use]
    pub fn child(&self, row: u32, token: u32) -> Option<u32> {
        let mut slot = self.slot(row, token);
        loop {
            let entry = *self.table.get(slot)?;
            if entry == NONE {
                return None;
            }
            let e = entry as usize;
            if self.parents[e] == row as i32 && self.tokens[e] == token {
                return Some(entry);
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
    }

    /// Number of rows, the anchor included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is not even an anchor.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Token of each row, `[N]`.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Parent of each row, `[N]`; -1 for the anchor.
    #[must_use]
    pub fn parents(&self) -> &[i32] {
        &self.parents
    }

    /// Edges from the anchor to each row, `[N]`.
    #[must_use]
    pub fn depths(&self) -> &[u32] {
        &self.depths
    }

    /// Sum of draft log-probabilities from the anchor, `[N]`; that of the best mode.
    #[must_use]
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Mode that gave each row its score, `[N]`.
    #[must_use]
    pub fn modes(&self) -> &[u32] {
        &self.modes
    }

    /// Absolute positions `[N]`: `start` plus depth.
    pub fn fill_positions(&self, start: i64, out: &mut Vec<i64>) {
        out.clear();
        out.extend(self.depths.iter().map(|d| start + i64::from(*d)));
    }

    /// Visibility `[N, N]` row-major: each row is its parent's row plus itself.
    pub fn fill_ancestors(&self, out: &mut Vec<bool>) {
        let n = self.len();
        out.clear();
        out.resize(n * n, false);
        for (row, parent) in self.parents.iter().enumerate() {
            if let Ok(p) = usize::try_from(*parent) {
                let (above, own) = out.split_at_mut(row * n);
                own[..=p].copy_from_slice(&above[p * n..p * n + p + 1]);
            }
            out[row * n + row] = true;
        }
    }

    /// Rows from `row` down its best-scoring children, `row` first: where a walk most likely goes.
    pub fn likely_path(&self, row: u32, out: &mut Vec<u32>) {
        out.clear();
        let mut next = row;
        while next != NONE {
            out.push(next);
            next = self.first_child[next as usize];
        }
    }
}

#[cfg(test)]
mod tests;
