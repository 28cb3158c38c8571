//! Values and sizes that no healthy engine sends.

use super::super::reference;
use super::super::{Tree, TreeBuilder};
use super::{paths, prefixes};
use forkcast_engines::backend::Candidates;
use proptest::prelude::*;

fn all_builders(c: &Candidates, budget: usize, check: impl Fn(&Tree)) {
    let (mut builder, mut tree) = (TreeBuilder::new(), Tree::new());
    builder.chain(c, 0, budget, 3, &mut tree);
    check(&tree);
    builder.ddtree(c, 0, budget, 3, &mut tree);
    check(&tree);
    builder.mixture(c, budget, 3, &mut tree);
    check(&tree);
}

#[test]
fn bad_scores_never_become_nodes() {
    let bad = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY];
    let c = Candidates {
        modes: 1,
        positions: 2,
        k: 3,
        ids: vec![0, 1, 2, 0, 1, 2],
        logp: [bad, bad].concat(),
    };
    all_builders(&c, 10, |tree| assert_eq!(tree.len(), 1));
}

#[test]
fn a_position_without_candidates_ends_every_path() {
    let c = Candidates {
        modes: 1,
        positions: 3,
        k: 2,
        ids: vec![4, 5, 4, 5, 4, 5],
        logp: vec![-0.5, -1.0, f32::NEG_INFINITY, f32::NEG_INFINITY, -0.5, -1.0],
    };
    let mut tree = Tree::new();
    TreeBuilder::new().ddtree(&c, 0, 10, 0, &mut tree);
    assert_eq!(paths(&tree), [vec![4], vec![5]]);
}

#[test]
fn short_or_absent_lists_and_absent_modes_give_small_trees() {
    let empty = Candidates::default();
    all_builders(&empty, 10, |tree| assert_eq!(tree.len(), 1));
    let short = Candidates {
        modes: 2,
        positions: 15,
        k: 256,
        ids: vec![1],
        logp: vec![-0.1, -0.2],
    };
    all_builders(&short, 10, |tree| assert_eq!(tree.len(), 2));
    let mut tree = Tree::new();
    TreeBuilder::new().ddtree(&short, usize::MAX, 10, 0, &mut tree);
    assert_eq!(tree.len(), 1);
    TreeBuilder::new().ddtree(&short, 2, usize::MAX, 0, &mut tree);
    assert_eq!(tree.len(), 1);
}

#[test]
fn a_tree_without_nodes_has_no_children() {
    let mut tree = Tree::new();
    assert!(tree.is_empty() && tree.child(0, 1).is_none() && tree.best_child(0).is_none());
    tree.reset(8);
    assert_eq!((tree.len(), tree.child(0, 8)), (1, None));
    let mut seen = vec![false; 9];
    tree.fill_ancestors(&mut seen);
    assert_eq!(seen, [true]);
}

fn any_logp() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -20.0f32..0.0,
        1 => Just(0.0f32),
        1 => Just(-0.0f32),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::MAX),
        1 => Just(f32::MIN),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Unsorted lists, repeated tokens, values that are no log-probability: still a tree, never a panic.
    #[test]
    fn anything_gives_a_tree(
        (modes, positions, k, logp, ids) in (1usize..4, 1usize..5, 1usize..5).prop_flat_map(|(m, p, k)| {
            let n = m * p * k;
            (Just(m), Just(p), Just(k), prop::collection::vec(any_logp(), n), prop::collection::vec(0u32..4, n))
        }),
        budget in 0usize..50,
    ) {
        let c = Candidates { modes, positions, k, ids, logp };
        all_builders(&c, budget, |tree| {
            assert!(tree.len() <= budget + 1);
            for row in 1..tree.len() {
                let parent = tree.parents()[row];
                assert!(parent >= 0 && (parent as usize) < row);
                assert_eq!(tree.depths()[row], tree.depths()[parent as usize] + 1);
                assert!(tree.depths()[row] as usize <= positions);
                assert_eq!(tree.child(parent as u32, tree.tokens()[row]), Some(row as u32));
            }
        });
    }

    /// Few distinct values, so that scores tie all the time: order and modes still equal enumeration.
    #[test]
    fn ties_are_ordered_as_enumerated(
        (modes, positions, k, steps) in (1usize..4, 1usize..5, 1usize..4).prop_flat_map(|(m, p, k)| {
            (Just(m), Just(p), Just(k), prop::collection::vec(0u8..3, m * p * k))
        }),
        budget in 0usize..60,
    ) {
        let mut logp: Vec<f32> = steps.iter().map(|s| -0.5 * f32::from(*s)).collect();
        for list in logp.chunks_mut(k) {
            list.sort_by(|a, b| b.total_cmp(a));
        }
        // Tokens are ranks, shifted from mode to mode so that prefixes are partly shared.
        let ids = (0..logp.len()).map(|i| (i % k + i / (positions * k)) as u32).collect();
        let c = Candidates { modes, positions, k, ids, logp };
        let mut tree = Tree::new();
        TreeBuilder::new().mixture(&c, budget, 0, &mut tree);
        prop_assert_eq!(prefixes(&tree), reference::enumerate(&c, budget));
        prop_assert_eq!(prefixes(&tree), reference::merge(&c, budget));
    }
}
