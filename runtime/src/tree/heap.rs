//! A binary heap whose order needs more than the entries themselves.
//!
//! Entries are compared by score first. Only equal scores look at the ranks along the path, which
//! live in the list of pops; `std`'s heap could not see that list.

use std::cmp::Ordering;

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
    pub(super) score: f64,
    pub(super) parent: u32,
    pub(super) rank: u32,
    pub(super) row: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    /// Empties the heap and makes room for `entries`.
    pub(super) fn clear(&mut self, entries: usize) {
        self.entries.clear();
        self.entries.reserve(entries);
    }

    /// The first entry, which stays.
    pub(super) fn peek(&self) -> Option<Entry> {
        self.entries.first().copied()
    }

    pub(super) fn push(&mut self, entry: Entry, pops: &[Pop]) {
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > 0 {
            let up = (at - 1) / 2;
            if !before(&entry, &self.entries[up], pops) {
                break;
            }
            self.entries[at] = self.entries[up];
            at = up;
        }
        self.entries[at] = entry;
    }

    /// Removes the first entry.
    pub(super) fn drop_first(&mut self, pops: &[Pop]) {
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.replace_first(last, pops);
        }
    }

    /// Puts `entry` in the place of the first one. One descent instead of a removal and a push: the next sibling
    /// always follows the entry that was taken.
    pub(super) fn replace_first(&mut self, entry: Entry, pops: &[Pop]) {
        let entries = &mut self.entries[..];
        let mut at = 0;
        // The better child is chosen by arithmetic: which one it is cannot be predicted.
        while let [left, right, ..] = &entries[(2 * at + 1).min(entries.len())..] {
            let best = 2 * at + 1 + usize::from(before(right, left, pops));
            let next = entries[best];
            if !before(&next, &entry, pops) {
                entries[at] = entry;
                return;
            }
            entries[at] = next;
            at = best;
        }
        if let Some(only) = entries.get(2 * at + 1).copied()
            && before(&only, &entry, pops)
        {
            entries[at] = only;
            at = 2 * at + 1;
        }
        entries[at] = entry;
    }
}

/// Higher score first, then the lexicographically smaller ranks, then the lower mode
/// (`algorithms.md` 3.3, 4.3).
#[inline]
fn before(a: &Entry, b: &Entry, pops: &[Pop]) -> bool {
    if a.score == b.score {
        return ranks(a, b, pops).then(a.mode.cmp(&b.mode)) == Ordering::Less;
    }
    a.score > b.score
}

/// Order of the ranks along two paths, from the anchor; a prefix comes before its extensions.
///
/// Walks both paths upwards at equal depth, so that the last difference seen is the one nearest the anchor.
#[cold]
fn ranks(a: &Entry, b: &Entry, pops: &[Pop]) -> Ordering {
    let climb = |(parent, _): (u32, u32)| {
        pops.get(parent as usize)
            .map_or((u32::MAX, 0), |p| (p.parent, p.rank))
    };
    let (mut x, mut y) = ((a.parent, a.rank), (b.parent, b.rank));
    for _ in b.depth..a.depth {
        x = climb(x);
    }
    for _ in a.depth..b.depth {
        y = climb(y);
    }
    let mut order = a.depth.cmp(&b.depth);
    for _ in 0..a.depth.min(b.depth) {
        if x.1 != y.1 {
            order = x.1.cmp(&y.1);
        }
        if x.0 == y.0 {
            break;
        }
        (x, y) = (climb(x), climb(y));
    }
    order
}
