use super::reference::best_prefixes;
use super::{Tree, TreeBuilder};
use forkcast_engines::backend::Candidates;
use proptest::prelude::*;

/// Candidates from probabilities `[mode][position][token]`, all tokens listed.
fn lists(p: &[Vec<Vec<f64>>]) -> Candidates {
    let (modes, positions, k) = (p.len(), p[0].len(), p[0][0].len());
    let mut c = Candidates {
        modes,
        positions,
        k,
        ..Candidates::default()
    };
    for row in p.iter().flatten() {
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        c.ids.extend(order.iter().map(|i| *i as u32));
        c.logp.extend(order.iter().map(|i| row[*i].ln() as f32));
    }
    c
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

#[test]
fn example_of_section_3_3() {
    let c = lists(&[vec![vec![0.6, 0.4], vec![0.7, 0.3]]]);
    let mut tree = Tree::new();
    let mut builder = TreeBuilder::new();
    builder.ddtree(&c, 0, 5, 9, &mut tree);
    assert_eq!(
        paths(&tree),
        [vec![0], vec![0, 0], vec![1], vec![1, 0], vec![0, 1]]
    );
    let expected = [0.0, 0.60, 0.42, 0.40, 0.28, 0.18];
    for (score, p) in tree.scores().iter().zip(expected).skip(1) {
        assert!((score.exp() - p).abs() < 1e-6, "{score} {p}");
    }
    assert_eq!(tree.tokens()[0], 9);
}

#[test]
fn example_of_section_4_3() {
    // Tokens x = 0, y = 1, p = 2, q = 3; impossible ones have probability zero.
    let a = vec![vec![0.6, 0.4, 0.0, 0.0], vec![0.0, 0.0, 0.55, 0.45]];
    let b = vec![vec![0.1, 0.9, 0.0, 0.0], vec![0.0, 0.0, 0.2, 0.8]];
    let mut tree = Tree::new();
    TreeBuilder::new().mixture(&lists(&[a, b]), 6, 7, &mut tree);
    assert_eq!(
        paths(&tree),
        [vec![1], vec![1, 3], vec![0], vec![0, 2], vec![0, 3], vec![1, 2]]
    );
    assert_eq!(&tree.modes()[1..], [1, 1, 0, 0, 0, 0]);
    for (score, p) in tree.scores()[1..]
        .iter()
        .zip([0.90, 0.72, 0.60, 0.33, 0.27, 0.22])
    {
        assert!((score.exp() - p).abs() < 1e-6);
    }
}

fn mixtures() -> impl Strategy<Value = Vec<Vec<Vec<f64>>>> {
    (1usize..4, 1usize..4, 2usize..5).prop_flat_map(|(modes, positions, k)| {
        let row = prop::collection::vec(0.01f64..1.0, k).prop_map(|w| {
            let sum: f64 = w.iter().sum();
            w.iter().map(|x| x / sum).collect::<Vec<f64>>()
        });
        prop::collection::vec(prop::collection::vec(row, positions), modes)
    })
}

fn truncate(c: &Candidates, k: usize) -> Candidates {
    let keep = |len: usize| (0..len).filter(move |i| i % c.k < k);
    Candidates {
        k,
        ids: keep(c.ids.len()).map(|i| c.ids[i]).collect(),
        logp: keep(c.logp.len()).map(|i| c.logp[i]).collect(),
        ..*c
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mixture_equals_enumeration(p in mixtures(), budget in 0usize..40) {
        let c = lists(&p);
        let mut tree = Tree::new();
        TreeBuilder::new().mixture(&c, budget, 0, &mut tree);
        let expected = best_prefixes(&c, budget);
        prop_assert_eq!(tree.len() - 1, expected.len());
        for (score, prefix) in tree.scores()[1..].iter().zip(&expected) {
            prop_assert!((score - prefix.score).abs() < 1e-9);
        }
        // Parents come first, scores never rise, every row is found under its parent.
        for row in 1..tree.len() {
            let parent = tree.parents()[row] as usize;
            prop_assert!(parent < row && tree.scores()[row] <= tree.scores()[row - 1]);
            prop_assert_eq!(tree.child(parent as u32, tree.tokens()[row]), Some(row as u32));
        }
    }

    #[test]
    fn one_mode_is_ddtree_and_budgets_nest(p in mixtures(), budget in 1usize..40) {
        let c = lists(&p[..1]);
        let (mut one, mut two, mut more) = (Tree::new(), Tree::new(), Tree::new());
        let mut builder = TreeBuilder::new();
        builder.mixture(&c, budget, 0, &mut one);
        builder.ddtree(&c, 0, budget, 0, &mut two);
        builder.mixture(&c, budget + 1, 0, &mut more);
        prop_assert_eq!(one.tokens(), two.tokens());
        prop_assert_eq!(one.parents(), two.parents());
        prop_assert_eq!(one.tokens(), &more.tokens()[..one.len()]);
        prop_assert_eq!(one.parents(), &more.parents()[..one.len()]);
    }

    #[test]
    fn a_certificate_is_never_wrong(p in mixtures(), budget in 1usize..30, k in 1usize..4) {
        let c = lists(&p);
        let short = truncate(&c, k.min(c.k));
        let (mut full, mut cut) = (Tree::new(), Tree::new());
        let mut builder = TreeBuilder::new();
        builder.mixture(&c, budget, 0, &mut full);
        if builder.mixture(&short, budget, 0, &mut cut).exact {
            prop_assert_eq!(full.tokens(), cut.tokens());
            prop_assert_eq!(full.parents(), cut.parents());
        }
    }

    #[test]
    fn ancestors_are_root_paths(p in mixtures(), budget in 0usize..40) {
        let mut tree = Tree::new();
        TreeBuilder::new().mixture(&lists(&p), budget, 0, &mut tree);
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
    let mut tree = Tree::new();
    let mut builder = TreeBuilder::new();
    builder.mixture(&c, 10, 0, &mut tree);
    assert_eq!(tree.len(), 1);
    builder.chain(&c, 0, 10, 0, &mut tree);
    assert_eq!(tree.len(), 1);
}

#[test]
fn equal_scores_follow_the_rank_tuple() {
    let flat = vec![vec![1.0 / 3.0; 3]; 2];
    let mut tree = Tree::new();
    TreeBuilder::new().ddtree(&lists(&[flat]), 0, 12, 0, &mut tree);
    let expected: Vec<Vec<u32>> = vec![
        vec![0],
        vec![1],
        vec![2],
        vec![0, 0],
        vec![0, 1],
        vec![0, 2],
        vec![1, 0],
        vec![1, 1],
        vec![1, 2],
        vec![2, 0],
        vec![2, 1],
        vec![2, 2],
    ];
    assert_eq!(paths(&tree), expected);
}
