mod chi_square;

use super::{Step, Walker, walk};
use crate::tree::{Tree, TreeBuilder};
use forkcast_engines::backend::Candidates;
use proptest::prelude::*;

fn tree(modes: usize, positions: usize, vocab: usize, seed: u64, budget: usize) -> Tree {
    let mut state = seed;
    let mut c = Candidates {
        modes,
        positions,
        k: vocab,
        ..Candidates::default()
    };
    for _ in 0..modes * positions {
        let mut row: Vec<(f32, u32)> = (0..vocab as u32)
            .map(|id| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (-((state >> 40) as f32) / 4e6, id)
            })
            .collect();
        row.sort_by(|a, b| b.0.total_cmp(&a.0));
        c.logp.extend(row.iter().map(|e| e.0));
        c.ids.extend(row.iter().map(|e| e.1));
    }
    let mut tree = Tree::new();
    TreeBuilder::new().mixture(&c, budget, 0, &mut tree);
    tree
}

/// Runs the state machine; `draw` sees the row whose logits lie in the slot that was named.
fn run(walker: &mut Walker, tree: &Tree, mut draw: impl FnMut(u32) -> u32) -> (u32, Vec<u32>) {
    let (mut held, mut read) = (Vec::new(), Vec::new());
    walker.start(tree);
    loop {
        match walker.step() {
            Step::Fetch => {
                held = walker.needs().to_vec();
                read.extend_from_slice(&held);
                walker.fetched();
            }
            Step::Draw { row, slot } => {
                assert_eq!(held[slot], row, "the slot holds another row");
                walker.feed(tree, draw(row));
            }
            Step::Done { next } => return (next, read),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_walker_walks_as_the_rule_says(
        (modes, positions, vocab) in (1usize..4, 1usize..9, 1usize..6),
        seed in any::<u64>(),
        budget in 0usize..80,
        tokens in prop::collection::vec(0u32..6, 100),
    ) {
        let tree = tree(modes, positions, vocab, seed, budget);
        let draw = |row: u32| tokens[row as usize % tokens.len()];
        let mut path = Vec::new();
        let next = walk(&tree, &mut path, |row| Ok::<u32, ()>(draw(row))).expect("no error");
        let mut walker = Walker::new();
        let (same, mut read) = run(&mut walker, &tree, draw);
        prop_assert_eq!((next, &path[..]), (same, walker.path()));
        prop_assert!(walker.fetches() <= path.len());
        // Row 0, then every row below the one before it; the next token is no child of the last.
        prop_assert_eq!(path[0], 0);
        for pair in path.windows(2) {
            prop_assert_eq!(tree.parents()[pair[1] as usize], pair[0] as i32);
        }
        prop_assert_eq!(tree.child(path[path.len() - 1], next), None);
        let all = read.len();
        read.sort_unstable();
        read.dedup();
        prop_assert_eq!(read.len(), all, "a row was read twice");
    }
}

#[test]
fn the_likeliest_path_costs_one_fetch() {
    let tree = tree(3, 8, 5, 9, 60);
    let mut walker = Walker::new();
    let best = |row| tree.best_child(row).map_or(99, |c| tree.tokens()[c as usize]);
    let (next, _) = run(&mut walker, &tree, best);
    assert_eq!((next, walker.fetches()), (99, 1));
    let mut likely = Vec::new();
    tree.likely_path(0, &mut likely);
    assert_eq!(walker.path(), likely);
}

#[test]
fn errors_stop_tokens_and_bare_anchors() {
    let bare = tree(1, 3, 4, 1, 0);
    let mut walker = Walker::new();
    assert_eq!(walker.step(), Step::Done { next: 0 });
    assert_eq!(run(&mut walker, &bare, |_| 3), (3, vec![0]));
    assert_eq!(walker.path(), [0]);
    let mut path = Vec::new();
    assert_eq!(walk(&bare, &mut path, |_| Err("bad row")), Err("bad row"));

    let full = tree(1, 3, 4, 1, 30);
    walker.start(&full);
    // Out of turn: nothing happens.
    walker.feed(&full, 1);
    walker.end(1);
    assert_eq!(walker.step(), Step::Fetch);
    walker.fetched();
    walker.fetched();
    let stop = full.tokens()[1];
    walker.end(stop);
    assert_eq!(walker.step(), Step::Done { next: stop });
    walker.feed(&full, 0);
    assert_eq!(
        (walker.step(), walker.path()),
        (Step::Done { next: stop }, &[0][..])
    );
}
