//! Slow and obvious trees to test the builders against.

use forkcast_engines::backend::Candidates;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// A node, by the tokens that lead to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    /// Tokens from the first drafted position.
    pub tokens: Vec<u32>,
    /// Best sum of log-probabilities over the modes.
    pub score: f64,
    /// Mode with that sum; the first of several.
    pub mode: usize,
}

/// Place in the order of nodes: smaller comes first (`algorithms.md` 3.3, 4.3).
#[derive(Clone, Debug, PartialEq)]
struct Key {
    score: f64,
    ranks: Vec<usize>,
    mode: usize,
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then_with(|| self.ranks.cmp(&other.ranks))
            .then_with(|| self.mode.cmp(&other.mode))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Log-probability and token of a candidate, if it may become a node.
fn entry(c: &Candidates, mode: usize, position: usize, rank: usize) -> Option<(f64, u32)> {
    if position >= c.positions || rank >= c.k {
        return None;
    }
    let at = (mode * c.positions + position) * c.k + rank;
    c.logp[at].is_finite().then(|| (f64::from(c.logp[at]), c.ids[at]))
}

/// The `budget` best prefixes by enumeration of every path of every mode: for tiny lists only.
#[must_use]
pub fn enumerate(c: &Candidates, budget: usize) -> Vec<Prefix> {
    let mut best = BTreeMap::new();
    for mode in 0..c.modes {
        let start = Key {
            score: 0.0,
            ranks: Vec::new(),
            mode,
        };
        extend(c, &start, &mut Vec::new(), &mut best);
    }
    let mut all: Vec<(Key, Vec<u32>)> = best.into_iter().map(|(tokens, key)| (key, tokens)).collect();
    all.sort();
    all.truncate(budget);
    all.into_iter()
        .map(|(key, tokens)| Prefix {
            tokens,
            score: key.score,
            mode: key.mode,
        })
        .collect()
}

fn extend(c: &Candidates, key: &Key, tokens: &mut Vec<u32>, best: &mut BTreeMap<Vec<u32>, Key>) {
    for rank in 0..c.k {
        let Some((step, token)) = entry(c, key.mode, tokens.len(), rank) else {
            break;
        };
        let mut next = key.clone();
        next.score += step;
        next.ranks.push(rank);
        tokens.push(token);
        let known = best.entry(tokens.clone()).or_insert_with(|| next.clone());
        if next < *known {
            *known = next.clone();
        }
        extend(c, &next, tokens, best);
        tokens.pop();
    }
}

/// The merge of streams as written in `algorithms.md` 4.3, with vectors for rank tuples and a map for the trie.
#[must_use]
pub fn merge(c: &Candidates, budget: usize) -> Vec<Prefix> {
    let mut found: Vec<Prefix> = Vec::new();
    let mut known: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
    let mut heap: BinaryHeap<Reverse<(Key, Vec<u32>)>> = BinaryHeap::new();
    let push = |heap: &mut BinaryHeap<_>, parent: &Key, above: &[u32], base: f64, rank: usize| {
        if let Some((step, token)) = entry(c, parent.mode, above.len(), rank) {
            let key = Key {
                score: base + step,
                ranks: [&parent.ranks[..above.len()], &[rank]].concat(),
                mode: parent.mode,
            };
            heap.push(Reverse((key, [above, &[token]].concat())));
        }
    };
    for mode in 0..c.modes {
        let root = Key {
            score: 0.0,
            ranks: Vec::new(),
            mode,
        };
        push(&mut heap, &root, &[], 0.0, 0);
    }
    while found.len() < budget {
        let Some(Reverse((key, tokens))) = heap.pop() else {
            break;
        };
        if !known.contains_key(&tokens) {
            known.insert(tokens.clone(), found.len());
            found.push(Prefix {
                tokens: tokens.clone(),
                score: key.score,
                mode: key.mode,
            });
        }
        let depth = tokens.len();
        let base: f64 = (0..depth - 1).fold(0.0, |sum, p| {
            sum + entry(c, key.mode, p, key.ranks[p]).map_or(0.0, |e| e.0)
        });
        push(
            &mut heap,
            &key,
            &tokens[..depth - 1],
            base,
            key.ranks[depth - 1] + 1,
        );
        push(&mut heap, &key, &tokens, key.score, 0);
    }
    found
}
