//! Properties that speculative decoding rests on: a chain is sequential decoding, any root path of any tree
//! is decoding that path, a commit is the state after decoding the path.

mod common;

use common::{
    Tree, assert_close, bound,
    cases::{AttentionCase, ConvCase, DeltaCase, Regime, UpdateCase},
    rng,
};
use forkcast_plugins::{args::AttentionArgs, kernels, reference};
use proptest::prelude::*;
use rand::Rng;

/// Rows `rows` of a tensor [N,width].
fn pick<T: Copy>(values: &[T], width: usize, rows: &[usize]) -> Vec<T> {
    rows.iter()
        .flat_map(|row| values[row * width..][..width].to_vec())
        .collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|x| f64::from(*x)).collect()
}

fn regime() -> impl Strategy<Value = Regime> {
    prop_oneof![
        Just(Regime::Random),
        Just(Regime::AlikeKeys),
        Just(Regime::StrongDecay)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn delta_rule_on_a_tree_is_decoding_each_path(
        seed in any::<u64>(), rows in 1usize..120, depth in 1usize..=16, ratio in 1usize..=4, regime in regime(),
    ) {
        let mut rng = rng(seed);
        let tree = Tree::random(&mut rng, rows, depth);
        let case = DeltaCase::new(&mut rng, &tree, (1, ratio), (16, 24), regime);
        let whole = case.kernel();
        let last = rng.random_range(0..tree.rows());
        let path = tree.path(last);

        // One row at a time, each committed before the next: plain decoding.
        let (key, value, size) = (16, ratio * 24, ratio * 16 * 24);
        let mut state = case.state.clone();
        let mut total = vec![0.0f64; ratio];
        for row in &path {
            let step = DeltaCase {
                rows: 1,
                q: pick(&case.q, key, &[*row]),
                k: pick(&case.k, key, &[*row]),
                v: pick(&case.v, value, &[*row]),
                g: pick(&case.g, ratio, &[*row]),
                beta: pick(&case.beta, ratio, &[*row]),
                state: state.clone(),
                ancestors: vec![true],
                ..case.clone()
            };
            for (total, g) in total.iter_mut().zip(&step.g) {
                *total += f64::from(*g);
            }
            let found = step.kernel();
            let bound = 4.0 * bound(&total);
            assert_close("o", &pick(&whole.o, value, &[*row]), &wide(&found.o), bound);
            assert_close("u", &pick(&whole.u, value, &[*row]), &wide(&found.u), bound);
            state = UpdateCase::new(&step, &found, &[0]).kernel();
        }
        let committed = UpdateCase::new(&case, &whole, &path).kernel();
        prop_assert_eq!(committed.len(), size);
        assert_close("committed state", &committed, &wide(&state), 4.0 * bound(&total));
    }

    #[test]
    fn conv_on_a_tree_is_conv_on_each_path(
        seed in any::<u64>(), rows in 1usize..120, depth in 1usize..=16, taps in 1usize..=5,
    ) {
        let mut rng = rng(seed);
        let tree = Tree::random(&mut rng, rows, depth);
        let case = ConvCase::new(&mut rng, &tree, 20, taps);
        let path = tree.path(rng.random_range(0..tree.rows()));
        let alone = ConvCase {
            rows: path.len(),
            x: pick(&case.x, 20, &path),
            ancestors: Tree::chain(path.len()).ancestors(),
            ..case.clone()
        };
        // The same operations in the same order: equal to the last bit.
        prop_assert_eq!(pick(&case.kernel(), 20, &path), alone.kernel());
    }

    #[test]
    fn attention_on_a_tree_is_attention_on_each_path(
        seed in any::<u64>(), rows in 1usize..120, depth in 1usize..=16, past in 0usize..300,
        group in 1usize..=4, window in prop_oneof![Just(0i64), 1i64..40],
    ) {
        let mut rng = rng(seed);
        let tree = Tree::random(&mut rng, rows, depth);
        let case = AttentionCase::new(&mut rng, &tree, (2 * group, 2), 16, (past + 3, past), window);
        let path = tree.path(rng.random_range(0..tree.rows()));
        let alone = AttentionCase {
            rows: path.len(),
            q: pick(&case.q, 2 * group * 16, &path),
            k: pick(&case.k, 32, &path),
            v: pick(&case.v, 32, &path),
            positions: pick(&case.positions, 1, &path),
            visible: Tree::chain(path.len()).ancestors(),
            ..case.clone()
        };
        let found = pick(&case.kernel(), 2 * group * 16, &path);
        assert_close("attention", &found, &wide(&alone.kernel()), 2e-6);
    }

    #[test]
    fn attention_takes_any_mask(
        seed in any::<u64>(), rows in 1usize..90, density in 0.0f64..1.0, past in 0usize..40, heads in 1usize..=9,
    ) {
        let mut rng = rng(seed);
        let mut case = AttentionCase::new(&mut rng, &Tree::chain(rows), (heads, 1), 24, (past, past), 0);
        for seen in &mut case.visible {
            *seen = rng.random_bool(density);
        }
        // A row that sees nothing gives zeros.
        assert_close("attention", &case.kernel(), &reference::tree_attention(&case.args()), 1e-5);
    }
}

#[test]
fn rows_that_are_not_committed_are_never_read() {
    let mut rng = rng(50);
    let tree = Tree::random(&mut rng, 70, 12);
    let case = AttentionCase::new(&mut rng, &tree, (4, 2), 64, (400, 300), 0);
    let args = AttentionArgs {
        past_k: &case.past_k[..300 * 128],
        past_v: &case.past_v[..300 * 128],
        ..case.args()
    };
    let expected = reference::tree_attention(&args);
    assert_close("attention", &case.kernel(), &expected, 1e-5);
}

/// The tests above ran with the machine's best instruction set; this runs them again with the others.
#[test]
fn every_instruction_set_has_the_same_properties() {
    let variable = "FORKCAST_SIMD";
    if std::env::var_os(variable).is_some() {
        return;
    }
    let run = |level: &str| {
        let program = std::env::current_exe().expect("a test binary");
        std::process::Command::new(program)
            .env(variable, level)
            .output()
            .expect("the test binary runs")
    };
    let mut levels = vec!["portable"];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        levels.push("avx2");
    }
    for level in levels {
        let done = run(level);
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{level}: {text}");
    }
    assert!(
        !run("mmx").status.success(),
        "an unknown instruction set is refused"
    );
}

#[test]
fn the_choice_of_instruction_set_is_valid() {
    kernels::check_environment().expect("a known instruction set");
}
