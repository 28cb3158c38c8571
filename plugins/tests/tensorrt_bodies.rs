//! The function bodies for TensorRT, run by ONNX Runtime's standard operators, against the references.

mod common;

use common::{
    Tree, assert_close, bound,
    cases::{AttentionCase, ConvCase, DeltaCase, DeltaFound, Regime, UpdateCase},
    rng,
    session::Take,
};
use forkcast_plugins::{bodies::tensorrt, reference};

const REGIMES: [Regime; 3] = [Regime::Random, Regime::AlikeKeys, Regime::StrongDecay];

#[test]
fn attention_masks_what_is_not_committed() {
    let mut rng = rng(30);
    for (rows, window, past) in [(1, 0, (8, 0)), (33, 0, (64, 50)), (20, 7, (40, 33))] {
        let tree = Tree::random(&mut rng, rows, 8);
        let mut case = AttentionCase::new(&mut rng, &tree, (4, 2), 32, past, window);
        let committed = past.1 * 2 * 32;
        case.past_k[committed..].fill(5.0);
        case.past_v[committed..].fill(5.0);
        let found = case.in_session(tensorrt::trees(), Take::Body);
        assert_close(
            "attention",
            &found,
            &reference::tree_attention(&case.args()),
            1e-5,
        );
    }
}

/// The body's numbers are the CPU kernel's, within invariant 4.
fn same_as_kernel(case: &DeltaCase, found: &DeltaFound, bound: f64) {
    let kernel = case.kernel();
    let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    assert_close("u of body and kernel", &found.u, &wide(&kernel.u), bound);
    assert_close("o of body and kernel", &found.o, &wide(&kernel.o), bound);
    assert_close("G of body and kernel", &found.gates, &wide(&kernel.gates), 1e-6);
}

#[test]
fn trees_of_sixteen_rows_depth_agree() {
    let mut rng = rng(31);
    for (rows, depth) in [(1, 1), (40, 16), (257, 16)] {
        for regime in REGIMES {
            let tree = Tree::random(&mut rng, rows, depth);
            let case = DeltaCase::new(&mut rng, &tree, (2, 4), (32, 16), regime);
            let found = case.in_session(tensorrt::trees(), Take::Body);
            let expected = reference::tree_delta_rule(&case.args());
            let bound = bound(&expected.gates);
            same_as_kernel(&case, &found, bound);
            assert_close("u", &found.u, &expected.u, bound);
            assert_close("o", &found.o, &expected.o, bound);

            let path = tree.path(rows - 1);
            let update = UpdateCase::new(&case, &found, &path);
            let state = update.in_session(tensorrt::trees(), Take::Body);
            let size = state.len();
            assert_close(
                "state",
                &state,
                &expected.states[(rows - 1) * size..][..size],
                bound,
            );
            let conv = ConvCase::new(&mut rng, &tree, 24, 4);
            let found = conv.in_session(tensorrt::trees(), Take::Body);
            assert_close("conv", &found, &reference::tree_causal_conv(&conv.args()), 1e-5);
        }
    }
}

#[test]
fn chains_of_any_length_up_to_the_bound_agree() {
    let mut rng = rng(32);
    for (rows, most) in [(1, 64), (63, 64), (64, 64), (65, 128), (300, 512), (512, 512)] {
        for regime in REGIMES {
            let tree = Tree::chain(rows);
            let case = DeltaCase::new(&mut rng, &tree, (2, 6), (32, 16), regime);
            let found = case.in_session(tensorrt::chains(most), Take::Body);
            let expected = reference::tree_delta_rule(&case.args());
            let bound = bound(&expected.gates);
            let label = format!("{rows} of {most}, {regime:?}");
            same_as_kernel(&case, &found, bound);
            assert_close(&format!("G, {label}"), &found.gates, &expected.gates, 1e-6);
            assert_close(&format!("u, {label}"), &found.u, &expected.u, bound);
            assert_close(&format!("o, {label}"), &found.o, &expected.o, bound);
        }
    }
}
