//! Kernel, kernel inside ONNX Runtime, and function body against the sequential float64 references.

mod common;

use common::{
    Tree, assert_close, bound,
    cases::{AttentionCase, ConvCase, DeltaCase, Regime, UpdateCase, cpu},
    rng,
    session::Take,
};
use forkcast_plugins::reference;
use rand::Rng;

#[test]
fn attention_agrees_on_random_trees() {
    let mut rng = rng(1);
    let sizes = [
        (1, 1, 16),
        (2, 2, 24),
        (7, 3, 64),
        (33, 16, 128),
        (65, 16, 256),
        (257, 16, 64),
    ];
    for (rows, depth, head_dim) in sizes {
        for (heads, kv_heads) in [(2, 2), (4, 2), (3, 1), (8, 2)] {
            let tree = Tree::random(&mut rng, rows, depth);
            let past_len = rng.random_range(0..150);
            let window = [0, 0, 1, 5, 64][rng.random_range(0..5)];
            let past = (past_len + rng.random_range(0..9), past_len);
            let case = AttentionCase::new(&mut rng, &tree, (heads, kv_heads), head_dim, past, window);
            let expected = reference::tree_attention(&case.args());
            let label =
                format!("N {rows} D {head_dim} heads {heads}/{kv_heads} past {past_len} window {window}");
            assert_close(&format!("kernel, {label}"), &case.kernel(), &expected, 1e-5);
            for take in [Take::Kernel, Take::Body] {
                let found = case.in_session(cpu(), take);
                assert_close(
                    &format!("{take:?} in a session, {label}"),
                    &found,
                    &expected,
                    1e-5,
                );
            }
        }
    }
}

#[test]
fn conv_agrees_on_random_trees() {
    let mut rng = rng(2);
    for (rows, depth, channels, taps) in [
        (1, 1, 3, 4),
        (2, 2, 16, 1),
        (5, 3, 300, 2),
        (33, 16, 64, 4),
        (257, 16, 520, 4),
        (64, 8, 17, 5),
    ] {
        let tree = Tree::random(&mut rng, rows, depth);
        let case = ConvCase::new(&mut rng, &tree, channels, taps);
        let expected = reference::tree_causal_conv(&case.args());
        let label = format!("N {rows} CH {channels} K {taps}");
        assert_close(&format!("kernel, {label}"), &case.kernel(), &expected, 1e-5);
        for take in [Take::Kernel, Take::Body] {
            let found = case.in_session(cpu(), take);
            assert_close(
                &format!("{take:?} in a session, {label}"),
                &found,
                &expected,
                1e-5,
            );
        }
    }
}

#[test]
fn delta_rule_and_commit_agree_on_random_trees() {
    let mut rng = rng(3);
    for (rows, depth, dims) in [
        (1, 1, (16, 16)),
        (2, 2, (16, 24)),
        (9, 4, (64, 32)),
        (65, 16, (128, 128)),
        (257, 16, (64, 64)),
        (64, 64, (32, 16)),
    ] {
        for (key_heads, value_heads) in [(2, 2), (1, 2), (1, 3), (2, 8)] {
            for regime in [Regime::Random, Regime::AlikeKeys, Regime::StrongDecay] {
                let tree = Tree::random(&mut rng, rows, depth);
                let case = DeltaCase::new(&mut rng, &tree, (key_heads, value_heads), dims, regime);
                check_delta(&case, &tree, regime);
            }
        }
    }
}

#[test]
fn delta_rule_agrees_on_chains() {
    let mut rng = rng(4);
    for rows in [64, 65, 200, 512] {
        for regime in [Regime::Random, Regime::AlikeKeys, Regime::StrongDecay] {
            let tree = Tree::chain(rows);
            let case = DeltaCase::new(&mut rng, &tree, (1, 2), (16, 16), regime);
            check_delta(&case, &tree, regime);
        }
    }
}

fn check_delta(case: &DeltaCase, tree: &Tree, regime: Regime) {
    let expected = reference::tree_delta_rule(&case.args());
    let bound = bound(&expected.gates);
    let label = format!(
        "N {} heads {}/{} dims {}x{} {regime:?}",
        case.rows, case.key_heads, case.value_heads, case.key_dim, case.value_dim
    );
    let kernel = case.kernel();
    let ways = [
        ("kernel", kernel.clone()),
        ("kernel in a session", case.in_session(cpu(), Take::Kernel)),
        ("body", case.in_session(cpu(), Take::Body)),
    ];
    for (way, found) in ways {
        assert_close(&format!("{way}: G, {label}"), &found.gates, &expected.gates, 1e-6);
        assert_close(&format!("{way}: u, {label}"), &found.u, &expected.u, bound);
        assert_close(&format!("{way}: o, {label}"), &found.o, &expected.o, bound);
    }

    let last = case.rows - 1;
    let size = case.value_heads * case.key_dim * case.value_dim;
    let state = &expected.states[last * size..][..size];
    let update = UpdateCase::new(case, &kernel, &tree.path(last));
    let stepwise = reference::delta_branch_update(&update.args());
    let ways = [
        ("kernel", update.kernel()),
        ("kernel in a session", update.in_session(cpu(), Take::Kernel)),
        ("body", update.in_session(cpu(), Take::Body)),
    ];
    for (way, found) in ways {
        assert_close(&format!("{way}: commit, {label}"), &found, &stepwise, bound);
        assert_close(&format!("{way}: state, {label}"), &found, state, bound);
    }
}
