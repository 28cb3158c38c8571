mod examples;
mod hostile;
mod properties;

use super::Tree;
use super::reference::Prefix;
use forkcast_engines::backend::Candidates;

/// Candidates from probabilities `[mode][position][token]`, the `k` best tokens listed.
fn best_of(p: &[Vec<Vec<f64>>], k: usize) -> Candidates {
    let mut c = Candidates {
        modes: p.len(),
        positions: p[0].len(),
        k,
        ..Candidates::default()
    };
    for row in p.iter().flatten() {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        order.truncate(k);
        c.ids.extend(order.iter().map(|i| *i as u32));
        c.logp.extend(order.iter().map(|i| row[*i].ln() as f32));
    }
    c
}

/// All tokens listed.
fn lists(p: &[Vec<Vec<f64>>]) -> Candidates {
    best_of(p, p[0][0].len())
}

fn path(tree: &Tree, mut row: usize) -> Vec<u32> {
    let mut tokens = Vec::new();
    while let Ok(parent) = usize::try_from(tree.parents()[row]) {
        tokens.push(tree.tokens()[row]);
        row = parent;
    }
    tokens.reverse();
    tokens
}

fn paths(tree: &Tree) -> Vec<Vec<u32>> {
    (1..tree.len()).map(|r| path(tree, r)).collect()
}

/// The nodes of a tree in order, as the references give them.
fn prefixes(tree: &Tree) -> Vec<Prefix> {
    (1..tree.len())
        .map(|row| Prefix {
            tokens: path(tree, row),
            score: tree.scores()[row],
            mode: tree.modes()[row] as usize,
        })
        .collect()
}
