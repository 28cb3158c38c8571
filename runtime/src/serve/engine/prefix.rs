//! What the engine still knows of the request before, and how much of it a new prompt can use.

use forkcast_engines::backend::{Backend, BackendError, Snapshot};
use std::collections::VecDeque;

/// Tokens whose state the engine holds, and snapshots of the recurrent part at turn boundaries.
///
/// Caches of attention layers can be cut anywhere; recurrent states only go back to a snapshot. Snapshots
/// ascend in length and belong to the tokens held.
#[derive(Debug)]
pub struct Prefix {
    tokens: Vec<u32>,
    snapshots: VecDeque<Snapshot>,
    limit: usize,
    /// The engine has no recurrent state: every length can be gone back to.
    stateless: bool,
}

impl Prefix {
    /// An empty prefix that keeps at most `limit` bytes of snapshots; 0 forgets everything between requests.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            tokens: Vec::new(),
            snapshots: VecDeque::new(),
            limit,
            stateless: false,
        }
    }

    /// Brings the engine to the longest state that `prompt` can go on from; at least one token is left
    /// to compute. Gives the number of tokens kept.
    ///
    /// # Errors
    /// The engine fails.
    pub fn reuse<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        prompt: &[u32],
    ) -> Result<usize, BackendError> {
        let usable = self.common(prompt).min(prompt.len().saturating_sub(1));
        if self.limit == 0 || usable == 0 || backend.committed() != self.tokens.len() {
            self.forget(backend)?;
        } else if self.tokens.len() > usable {
            self.go_back(backend, usable)?;
        }
        Ok(self.tokens.len())
    }

    fn common(&self, prompt: &[u32]) -> usize {
        self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count()
    }

    fn go_back<B: Backend + ?Sized>(&mut self, backend: &mut B, usable: usize) -> Result<(), BackendError> {
        self.snapshots.retain(|s| s.committed <= usable);
        let length = if self.stateless {
            let cut = Snapshot {
                committed: usable,
                states: Vec::new(),
            };
            backend.rewind(&cut)?;
            usable
        } else if let Some(snapshot) = self.snapshots.back() {
            backend.rewind(snapshot)?;
            snapshot.committed
        } else {
            return self.forget(backend);
        };
        self.tokens.truncate(length);
        Ok(())
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// The engine fails.
    pub fn forget<B: Backend + ?Sized>(&mut self, backend: &mut B) -> Result<(), BackendError> {
        self.tokens.clear();
        self.snapshots.clear();
        backend.reset()
    }

    /// Notes tokens that the engine has committed since.
    pub fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Keeps the present state, if there is room; older ones make room, shortest first.
    ///
    /// # Errors
    /// The engine fails.
    pub fn keep<B: Backend + ?Sized>(&mut self, backend: &mut B) -> Result<(), BackendError> {
        let present = self.snapshots.back().map(|s| s.committed);
        if self.limit == 0 || self.stateless || present == Some(self.tokens.len()) {
            return Ok(());
        }
        let snapshot = backend.snapshot()?;
        if snapshot.states.is_empty() {
            self.stateless = true;
            return Ok(());
        }
        self.snapshots.push_back(snapshot);
        while self.bytes() > self.limit {
            self.snapshots.pop_front();
        }
        Ok(())
    }

    /// Bytes of all snapshots.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.snapshots.iter().map(Snapshot::bytes).sum()
    }

    /// Tokens whose state the engine holds.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}
