//! A binary heap whose order needs more than the entries themselves.
//!
//! Entries are compared by score first. Only equal scores look at the ranks along the path, which
//! live in the list of pops; `std`'s heap could not see that list.

/// One step of a mode's stream: take the token of `rank` below the node of pop `parent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) score: f64,
    pub(super) mode: u32,
    /// Pop of the parent in the same mode, or `u32::MAX` below the anchor.
    pub(super) parent: u32,
    pub(super) rank: u32,
    pub(super) depth: u32,
}

/// A finished entry: what later entries of the mode refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pop {
    pub(super) parent: u32,
    pub(super) rank: u32,
    pub(super) row: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
    left: Vec<u32>,
    right: Vec<u32>,
}

impl Heap {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn push(&mut self, entry: Entry, pops: &[Pop]) {
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > 0 {
            let up = (at - 1) / 2;
            if !self.before(at, up, pops) {
                break;
            }
            self.entries.swap(at, up);
            at = up;
        }
    }

    pub(super) fn pop(&mut self, pops: &[Pop]) -> Option<Entry> {
        let last = self.entries.pop()?;
        let Some(first) = self.entries.first_mut() else {
            return Some(last);
        };
        let top = std::mem::replace(first, last);
        let mut at = 0;
        loop {
            let (l, r) = (2 * at + 1, 2 * at + 2);
            if l >= self.entries.len() {
                return Some(top);
            }
            let best = if r < self.entries.len() && self.before(r, l, pops) {
                r
            } else {
                l
            };
            if !self.before(best, at, pops) {
                return Some(top);
            }
            self.entries.swap(best, at);
            at = best;
        }
    }

    /// Higher score first, then the lexicographically smaller ranks, then the lower mode
    /// (`algorithms.md` 3.3, 4.3).
    fn before(&mut self, a: usize, b: usize, pops: &[Pop]) -> bool {
        let (x, y) = (self.entries[a], self.entries[b]);
        if x.score != y.score {
            return x.score > y.score;
        }
        ranks(&x, pops, &mut self.left);
        ranks(&y, pops, &mut self.right);
        (&self.left, x.mode) < (&self.right, y.mode)
    }
}

fn ranks(entry: &Entry, pops: &[Pop], out: &mut Vec<u32>) {
    out.clear();
    out.push(entry.rank);
    let mut parent = entry.parent;
    while let Some(pop) = pops.get(parent as usize) {
        out.push(pop.rank);
        parent = pop.parent;
    }
    out.reverse();
}
