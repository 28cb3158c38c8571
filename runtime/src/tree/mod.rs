//! Trees of drafted continuations: what one verify pass looks at.
//!
//! Row 0 is the anchor, the last emitted token; every other row is a node. Rows are numbered in the order in
//! which best-first search finds them, so scores do not increase and parents come before children.

mod build;
mod heap;
pub mod reference;
mod rows;

pub use build::{Certificate, TreeBuilder};
pub use rows::Rows;

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
    /// Rows by (parent, token): open addressing, a power of two in size, never more than half full.
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
        self.table.fill(NONE);
        self.push(-1, anchor, 0, 0.0, 0);
    }

    fn push(&mut self, parent: i32, token: u32, depth: u32, score: f64, mode: u32) {
        self.tokens.push(token);
        self.parents.push(parent);
        self.depths.push(depth);
        self.scores.push(score);
        self.modes.push(mode);
        self.first_child.push(NONE);
    }

    /// The row below `parent` that carries `token`; made with this score and mode if there is none.
    pub(crate) fn child_or_add(&mut self, parent: u32, token: u32, score: f64, mode: u32) -> u32 {
        if 2 * (self.len() + 1) > self.table.len() {
            self.grow_table();
        }
        let slot = match self.find(parent, token) {
            Ok(row) => return row,
            Err(slot) => slot,
        };
        let row = self.len() as u32;
        let p = parent as usize;
        self.table[slot] = row;
        self.push(parent as i32, token, self.depths[p] + 1, score, mode);
        if self.first_child[p] == NONE {
            self.first_child[p] = row;
        }
        row
    }

    fn grow_table(&mut self) {
        let size = (4 * (self.len() + 1)).next_power_of_two().max(64);
        self.table.clear();
        self.table.resize(size, NONE);
        for row in 1..self.len() {
            if let Err(slot) = self.find(self.parents[row] as u32, self.tokens[row]) {
                self.table[slot] = row as u32;
            }
        }
    }

    /// Keeps the first `rows` rows, the anchor at least; of a tree that grew best first that is the tree of a smaller budget.
    pub fn truncate(&mut self, rows: usize) {
        let rows = rows.max(1);
        if rows >= self.len() {
            return;
        }
        self.tokens.truncate(rows);
        self.parents.truncate(rows);
        self.depths.truncate(rows);
        self.scores.truncate(rows);
        self.modes.truncate(rows);
        self.first_child.truncate(rows);
        for child in &mut self.first_child {
            if *child as usize >= rows {
                *child = NONE;
            }
        }
        // Places behind the rows that go may depend on theirs.
        self.table.fill(NONE);
        for row in 1..rows {
            if let Err(slot) = self.find(self.parents[row] as u32, self.tokens[row]) {
                self.table[slot] = row as u32;
            }
        }
    }

    /// The row below `parent` with `token`, or the free slot where it belongs. The table has free slots.
    fn find(&self, parent: u32, token: u32) -> Result<u32, usize> {
        let key = (u64::from(parent) << 32) | u64::from(token);
        let mask = self.table.len() - 1;
        // Fibonacci hashing: the upper half of the product depends on all bits of the key.
        let mut slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let entry = self.table[slot];
            if entry == NONE {
                return Err(slot);
            }
            let e = entry as usize;
            if self.parents[e] == parent as i32 && self.tokens[e] == token {
                return Ok(entry);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The child of `row` that carries `token`.
    #[must_use]
    pub fn child(&self, row: u32, token: u32) -> Option<u32> {
        if self.table.is_empty() {
            return None;
        }
        self.find(row, token).ok()
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

    /// The child of `row` with the highest score: the one that was found first.
    #[must_use]
    pub fn best_child(&self, row: u32) -> Option<u32> {
        self.first_child
            .get(row as usize)
            .copied()
            .filter(|child| *child != NONE)
    }

    /// Rows from `row` down its best-scoring children, `row` first: where a walk most likely goes.
    pub fn likely_path(&self, row: u32, out: &mut Vec<u32>) {
        out.clear();
        let mut next = Some(row);
        while let Some(row) = next {
            out.push(row);
            next = self.best_child(row);
        }
    }

    /// Absolute positions `[N]`: `start` plus depth.
    pub fn fill_positions(&self, start: i64, out: &mut Vec<i64>) {
        out.clear();
        out.extend(self.depths.iter().map(|d| start.saturating_add(i64::from(*d))));
    }

    /// Visibility `[N, N]` row-major: each row is its parent's row plus itself.
    pub fn fill_ancestors(&self, out: &mut Vec<bool>) {
        let n = self.len();
        out.clear();
        out.resize(n * n, false);
        for (row, parent) in self.parents.iter().enumerate() {
            if let Ok(p) = usize::try_from(*parent) {
                let (above, own) = out.split_at_mut(row * n);
                own[..=p].copy_from_slice(&above[p * n..=p * n + p]);
            }
            out[row * n + row] = true;
        }
    }
}

#[cfg(test)]
mod tests;
