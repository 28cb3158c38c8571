//! Slow and obvious trees to test the builders against: every prefix is enumerated and sorted.

use forkcast_engines::backend::Candidates;
use std::collections::BTreeMap;

/// A prefix with its best score.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    /// Tokens from the first drafted position.
    pub tokens: Vec<u32>,
    /// Best sum of log-probabilities over the modes.
    pub score: f64,
}

/// The `budget` best prefixes over all modes by enumeration of the whole tree: for tiny vocabularies only.
/// Sorted by score, then by length; the order among equal scores of equal length is by tokens.
#[must_use]
pub fn best_prefixes(c: &Candidates, budget: usize) -> Vec<Prefix> {
    let mut best: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
    for mode in 0..c.modes {
        extend(c, mode, &mut Vec::new(), 0.0, &mut best);
    }
    let mut all: Vec<Prefix> = best
        .into_iter()
        .map(|(tokens, score)| Prefix { tokens, score })
        .collect();
    all.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then(a.tokens.len().cmp(&b.tokens.len()))
            .then(a.tokens.cmp(&b.tokens))
    });
    all.truncate(budget);
    all
}

fn extend(
    c: &Candidates,
    mode: usize,
    prefix: &mut Vec<u32>,
    score: f64,
    best: &mut BTreeMap<Vec<u32>, f64>,
) {
    let position = prefix.len();
    if position == c.positions {
        return;
    }
    for rank in 0..c.k {
        let at = (mode * c.positions + position) * c.k + rank;
        let sum = score + f64::from(c.logp[at]);
        prefix.push(c.ids[at]);
        let entry = best.entry(prefix.clone()).or_insert(f64::NEG_INFINITY);
        *entry = entry.max(sum);
        extend(c, mode, prefix, sum, best);
        prefix.pop();
    }
}
