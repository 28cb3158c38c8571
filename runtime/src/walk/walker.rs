//! The walk as a state machine that says which logits it needs.

use crate::tree::Tree;

/// What a [`Walker`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Logits of [`Walker::needs`], in that order; then [`Walker::fetched`].
    Fetch,
    /// The token after `row`, drawn from logits number `slot` of the last fetch; then [`Walker::feed`] or [`Walker::end`].
    Draw {
        /// Row that the walk has reached.
        row: u32,
        /// Place of its logits among those fetched last.
        slot: usize,
    },
    /// Nothing: the walk ended, `next` is the next anchor.
    Done {
        /// Token drawn last.
        next: u32,
    },
}

/// A walk that reads logits in batches.
///
/// Reading the head is the dear part on a CPU, so rows are asked for along the likeliest path from where the
/// walk stands: usually the walk follows it, and leaves it once at most before the round ends. The
/// head is read about twice a round (`DESIGN` 5) and never for a row twice.
///
/// ```
/// # use forkcast::{tree::Tree, walk::{Step, Walker}};
/// # let mut tree = Tree::new();
/// # tree.reset(5);
/// # let (read, draw) = (|_rows: &[u32]| (), |_row: u32, _slot: usize| 7);
/// let mut walker = Walker::new();
/// walker.start(&tree);
/// let next = loop {
///     match walker.step() {
///         Step::Fetch => {
///             read(walker.needs());
///             walker.fetched();
///         }
///         Step::Draw { row, slot } => walker.feed(&tree, draw(row, slot)),
///         Step::Done { next } => break next,
///     }
/// };
/// assert_eq!((next, walker.path()), (7, &[0][..]));
/// ```
#[derive(Clone, Debug)]
pub struct Walker {
    step: Step,
    path: Vec<u32>,
    needs: Vec<u32>,
    fetches: usize,
}

impl Default for Walker {
    fn default() -> Self {
        Self {
            step: Step::Done { next: 0 },
            path: Vec::new(),
            needs: Vec::new(),
            fetches: 0,
        }
    }
}

impl Walker {
    /// A walker without a walk: [`Self::start`] begins one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins at the anchor of `tree`. Keeps the buffers.
    pub fn start(&mut self, tree: &Tree) {
        self.path.clear();
        self.fetches = 0;
        self.ask(tree, 0);
    }

    /// What to do now.
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }

    /// Rows to read at [`Step::Fetch`], otherwise those read last: the present row first, then down
    /// its best-scoring children.
    #[must_use]
    pub fn needs(&self) -> &[u32] {
        &self.needs
    }

    /// The logits asked for are there. Without effect in other states.
    pub fn fetched(&mut self) {
        if let (Step::Fetch, Some(row)) = (self.step, self.needs.first()) {
            self.fetches += 1;
            self.path.push(*row);
            self.step = Step::Draw { row: *row, slot: 0 };
        }
    }

    /// `token` was drawn at the present row: descends, asks for more logits, or ends. Without effect in other states.
    pub fn feed(&mut self, tree: &Tree, token: u32) {
        let Step::Draw { row, slot } = self.step else {
            return;
        };
        match tree.child(row, token) {
            None => self.step = Step::Done { next: token },
            // The likeliest path is one path, so the child is the next row of the batch or in none.
            Some(child) if self.needs.get(slot + 1) == Some(&child) => {
                self.path.push(child);
                self.step = Step::Draw {
                    row: child,
                    slot: slot + 1,
                };
            }
            Some(child) => self.ask(tree, child),
        }
    }

    /// `token` was drawn at the present row and ends the walk even if it is a child: a stop token.
    /// Without effect in other states.
    pub fn end(&mut self, token: u32) {
        if let Step::Draw { .. } = self.step {
            self.step = Step::Done { next: token };
        }
    }

    /// Accepted rows so far, row 0 first; the present row is the last.
    #[must_use]
    pub fn path(&self) -> &[u32] {
        &self.path
    }

    /// Batches of logits read since [`Self::start`].
    #[must_use]
    pub fn fetches(&self) -> usize {
        self.fetches
    }

    fn ask(&mut self, tree: &Tree, row: u32) {
        tree.likely_path(row, &mut self.needs);
        self.step = Step::Fetch;
    }
}
