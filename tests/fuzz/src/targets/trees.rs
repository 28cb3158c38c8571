//! Trees from any candidates.

use super::Bytes;
use forkcast::tree::{Rows, Tree, TreeBuilder};
use forkcast::walk::{Step, Walker, walk};
use forkcast_engines::backend::Candidates;

/// Four small sizes, then candidates: a byte for the token, a byte for the score, whose special values are NaN,
/// infinities, equal, denormal and positive numbers. What is missing at the end stays missing, as in a broken engine.
pub fn tree(data: &[u8]) {
    let mut bytes = Bytes(data);
    let candidates = candidates(&mut bytes);
    let budget = usize::from(bytes.next()) * 4;
    let mode = bytes.below(6);
    let mut tree = Tree::new();
    let mut builder = TreeBuilder::new();
    builder.chain(&candidates, mode, budget, 7, &mut tree);
    check(&tree, budget);
    builder.ddtree(&candidates, mode, budget, 7, &mut tree);
    check(&tree, budget);
    walks(&tree, bytes.0);
    builder.mixture(&candidates, budget, 7, &mut tree);
    check(&tree, budget);
    walks(&tree, bytes.0);
}

fn candidates(bytes: &mut Bytes<'_>) -> Candidates {
    let (modes, positions, k) = (bytes.below(6), bytes.below(20), bytes.below(40));
    let missing = bytes.below(8);
    let mut out = Candidates {
        modes,
        positions,
        k,
        ids: Vec::new(),
        logp: Vec::new(),
    };
    for _ in 0..(modes * positions * k).saturating_sub(missing) {
        out.ids.push(u32::from(bytes.next()) % 50);
        out.logp.push(score(bytes.next()));
    }
    out
}

fn score(byte: u8) -> f32 {
    match byte {
        0 => f32::NAN,
        1 => f32::NEG_INFINITY,
        2 => f32::INFINITY,
        3 => -f32::MAX,
        4 => f32::MAX,
        5 => -1e-45,
        6..=60 => -1.0,
        61..=100 => 0.0,
        101..=110 => 1.0,
        other => -f32::from(other) / 16.0,
    }
}

/// What every tree must be, whatever it was made from.
fn check(tree: &Tree, budget: usize) {
    let n = tree.len();
    assert!(n >= 1 && n <= budget + 1, "{n} rows for a budget of {budget}");
    assert_eq!((tree.parents()[0], tree.depths()[0]), (-1, 0));
    for row in 1..n {
        let parent = usize::try_from(tree.parents()[row]).expect("a parent");
        assert!(parent < row, "a row before its parent");
        assert_eq!(tree.depths()[row], tree.depths()[parent] + 1);
        assert_eq!(tree.child(parent as u32, tree.tokens()[row]), Some(row as u32));
        assert!(tree.scores()[row].is_finite(), "a score that is no number");
    }
    let mut rows = Rows::new();
    let batch = rows.of_tree(tree, i64::MAX - 3);
    assert_eq!((batch.positions.len(), batch.ancestors.len()), (n, n * n));
}

/// The walk in batches equals the walk row by row, for tokens that the bytes choose.
fn walks(tree: &Tree, choices: &[u8]) {
    let choose = |row: u32, step: usize| match choices.get(step) {
        Some(byte) if byte % 4 == 0 => u32::from(byte / 4),
        _ => tree
            .best_child(row)
            .map_or(u32::MAX, |child| tree.tokens()[child as usize]),
    };
    let mut path = Vec::new();
    let mut step = 0;
    let next = walk(tree, &mut path, |row| {
        step += 1;
        Ok::<_, ()>(choose(row, step - 1))
    });
    let mut walker = Walker::new();
    walker.start(tree);
    let mut step = 0;
    let found = loop {
        match walker.step() {
            Step::Fetch => walker.fetched(),
            Step::Draw { row, .. } => {
                walker.feed(tree, choose(row, step));
                step += 1;
            }
            Step::Done { next } => break next,
        }
    };
    assert_eq!((Ok(found), walker.path()), (next, path.as_slice()));
}
