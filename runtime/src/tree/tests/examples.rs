use super::super::{Rows, Tree, TreeBuilder};
use super::{lists, path, paths};

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
    assert_eq!(tree.parents(), [-1, 0, 1, 0, 3, 1]);
    assert_eq!(tree.depths(), [0, 1, 2, 1, 2, 2]);
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
    // The last: mode A gives `yp` its score although `y` itself came from B.
    assert_eq!(&tree.modes()[1..], [1, 1, 0, 0, 0, 0]);
    let scores = &tree.scores()[1..];
    for (score, p) in scores.iter().zip([0.90, 0.72, 0.60, 0.33, 0.27, 0.22]) {
        assert!((score.exp() - p).abs() < 1e-6);
    }
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

#[test]
fn sure_tokens_tie_along_the_path_and_the_prefix_comes_first() {
    // Log-probability zero everywhere on the best path: five prefixes with one score.
    let sure = vec![vec![1.0, 0.0]; 5];
    let mut tree = Tree::new();
    TreeBuilder::new().mixture(&lists(&[sure.clone(), sure]), 9, 0, &mut tree);
    assert_eq!(
        paths(&tree),
        (1..6).map(|n| vec![0; n]).collect::<Vec<Vec<u32>>>()
    );
    assert!(tree.modes().iter().all(|mode| *mode == 0));
}

#[test]
fn a_chain_is_the_best_token_of_each_position() {
    let p = vec![
        vec![vec![0.2, 0.8], vec![0.9, 0.1], vec![0.4, 0.6]],
        vec![vec![0.7, 0.3], vec![0.2, 0.8], vec![0.4, 0.6]],
    ];
    let mut tree = Tree::new();
    let mut builder = TreeBuilder::new();
    for (budget, expected) in [(0, 0), (1, 1), (2, 2), (3, 3), (50, 3)] {
        builder.chain(&lists(&p), 1, budget, 4, &mut tree);
        assert_eq!(tree.len(), 1 + expected);
        assert_eq!(path(&tree, expected), [0, 1, 1][..expected]);
    }
    let mut likely = Vec::new();
    tree.likely_path(0, &mut likely);
    assert_eq!(likely, [0, 1, 2, 3]);
}

#[test]
fn siblings_share_a_position_and_do_not_see_each_other() {
    let mut tree = Tree::new();
    let c = lists(&[vec![vec![0.6, 0.4], vec![0.7, 0.3]]]);
    TreeBuilder::new().ddtree(&c, 0, 3, 9, &mut tree);
    let mut rows = Rows::new();
    let batch = rows.of_tree(&tree, 40);
    assert_eq!(batch.tokens, [9, 0, 0, 1]);
    assert_eq!(batch.positions, [40, 41, 42, 41]);
    let seen: Vec<u8> = batch.ancestors.iter().map(|v| u8::from(*v)).collect();
    assert_eq!(seen, [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1]);
    let chain = rows.of_chain(&[5, 6], 7);
    assert_eq!((chain.positions, chain.len()), (&[7, 8][..], 2));
    assert_eq!(chain.ancestors, [true, false, true, true]);
}
