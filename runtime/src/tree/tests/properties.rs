use super::super::reference;
use super::super::{Tree, TreeBuilder};
use super::{best_of, lists, prefixes};
use forkcast_engines::backend::Candidates;
use proptest::prelude::*;

type Tables = Vec<Vec<Vec<f64>>>;

fn tables(modes: usize, positions: usize, vocab: usize) -> impl Strategy<Value = Tables> {
    let row = prop::collection::vec(0.01f64..1.0, vocab).prop_map(|w| {
        // Cubed, so that some tokens are much more likely than others.
        let sum: f64 = w.iter().map(|x| x * x * x).sum();
        w.iter().map(|x| x * x * x / sum).collect::<Vec<f64>>()
    });
    prop::collection::vec(prop::collection::vec(row, positions), modes)
}

fn small() -> impl Strategy<Value = Tables> {
    (1usize..4, 1usize..5, 2usize..5).prop_flat_map(|(m, p, v)| tables(m, p, v))
}

/// As large as real rounds, within what the slow merge can do.
fn large() -> impl Strategy<Value = Tables> {
    (1usize..9, 1usize..16, 2usize..40).prop_flat_map(|(m, p, v)| tables(m, p, v))
}

fn mixture(c: &Candidates, budget: usize) -> (Tree, bool) {
    let mut tree = Tree::new();
    let exact = TreeBuilder::new().mixture(c, budget, 0, &mut tree).exact;
    (tree, exact)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn equal_to_enumeration(p in small(), budget in 0usize..60) {
        let c = lists(&p);
        prop_assert_eq!(prefixes(&mixture(&c, budget).0), reference::enumerate(&c, budget));
    }

    #[test]
    fn a_cut_tree_is_the_tree_of_a_smaller_budget(p in large(), budget in 0usize..80, cut in 0usize..80) {
        let c = lists(&p);
        let (mut tree, _) = mixture(&c, budget);
        tree.truncate(cut + 1);
        let (small, _) = mixture(&c, cut.min(budget));
        prop_assert_eq!(tree.tokens(), small.tokens());
        prop_assert_eq!(tree.parents(), small.parents());
        prop_assert_eq!(tree.depths(), small.depths());
        prop_assert_eq!(tree.scores(), small.scores());
        prop_assert_eq!(tree.modes(), small.modes());
        for row in 0..tree.len() as u32 {
            prop_assert_eq!(tree.best_child(row), small.best_child(row));
            for token in 0..40 {
                prop_assert_eq!(tree.child(row, token), small.child(row, token));
            }
        }
        // It still grows.
        let row = tree.child_or_add(0, 1000, -1.0, 0);
        prop_assert_eq!(tree.child(0, 1000), Some(row));
    }

    #[test]
    fn one_mode_is_ddtree(p in small(), mode in 0usize..4, budget in 0usize..60) {
        let mode = mode % p.len();
        let (mut builder, mut tree) = (TreeBuilder::new(), Tree::new());
        builder.ddtree(&lists(&p), mode, budget, 0, &mut tree);
        let (alone, _) = mixture(&lists(&p[mode..=mode]), budget);
        prop_assert_eq!(tree.tokens(), alone.tokens());
        prop_assert_eq!(tree.parents(), alone.parents());
        prop_assert_eq!(tree.scores(), alone.scores());
        prop_assert!(tree.modes()[1..].iter().all(|m| *m as usize == mode));
    }

    #[test]
    fn collapsed_modes_add_nothing(p in small(), budget in 0usize..60) {
        let doubled: Tables = p.iter().chain(&p).cloned().collect();
        let (tree, _) = mixture(&lists(&doubled), budget);
        prop_assert_eq!(prefixes(&tree), prefixes(&mixture(&lists(&p), budget).0));
        prop_assert_eq!(prefixes(&tree), reference::merge(&lists(&doubled), budget));
    }

    #[test]
    fn a_certificate_is_never_wrong(p in small(), budget in 1usize..40, k in 1usize..5) {
        let k = k.min(p[0][0].len());
        let (full, _) = mixture(&lists(&p), budget);
        let (cut, exact) = mixture(&best_of(&p, k), budget);
        if exact {
            prop_assert_eq!(prefixes(&full), prefixes(&cut));
        }
        // As many candidates as nodes always suffice.
        let (enough, _) = mixture(&best_of(&p, budget.min(p[0][0].len())), budget);
        prop_assert_eq!(prefixes(&full), prefixes(&enough));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn equal_to_the_slow_merge(p in large(), budget in 0usize..300) {
        let c = lists(&p);
        prop_assert_eq!(prefixes(&mixture(&c, budget).0), reference::merge(&c, budget));
    }

    /// Buffers that served other rounds change nothing; smaller budgets give the first rows of larger ones.
    #[test]
    fn reuse_and_nesting(p in large(), q in large(), budget in 0usize..300) {
        let (mut builder, mut used) = (TreeBuilder::new(), Tree::new());
        builder.mixture(&lists(&q), 256, 1, &mut used);
        builder.mixture(&lists(&p), budget, 0, &mut used);
        let (fresh, _) = mixture(&lists(&p), budget);
        prop_assert_eq!(prefixes(&used), prefixes(&fresh));
        let (more, _) = mixture(&lists(&p), budget + 1);
        prop_assert_eq!(fresh.tokens(), &more.tokens()[..fresh.len()]);
        prop_assert_eq!(fresh.parents(), &more.parents()[..fresh.len()]);
        prop_assert!(more.len() <= fresh.len() + 1);
    }

    #[test]
    fn closed_sorted_and_found(p in large(), budget in 0usize..300) {
        let (tree, _) = mixture(&lists(&p), budget);
        for row in 1..tree.len() {
            let parent = tree.parents()[row] as usize;
            prop_assert!(parent < row && tree.scores()[row] <= tree.scores()[row - 1]);
            prop_assert_eq!(tree.child(parent as u32, tree.tokens()[row]), Some(row as u32));
            prop_assert_eq!(tree.child(row as u32, 1000), None);
            let first = (1..tree.len()).find(|r| tree.parents()[*r] == row as i32);
            prop_assert_eq!(tree.best_child(row as u32), first.map(|r| r as u32));
        }
    }

    #[test]
    fn ancestors_are_root_paths(p in large(), budget in 0usize..300) {
        let (tree, _) = mixture(&lists(&p), budget);
        let (mut seen, mut positions) = (Vec::new(), Vec::new());
        tree.fill_ancestors(&mut seen);
        tree.fill_positions(100, &mut positions);
        let n = tree.len();
        for row in 0..n {
            let mut expected = vec![false; n];
            let mut at = row as i32;
            while at >= 0 {
                expected[at as usize] = true;
                at = tree.parents()[at as usize];
            }
            prop_assert_eq!(&seen[row * n..(row + 1) * n], &expected[..]);
            prop_assert_eq!(positions[row], 99 + expected.iter().filter(|v| **v).count() as i64);
        }
    }
}
