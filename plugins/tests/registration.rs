//! ONNX Runtime takes a registered kernel although the model has a body, and the body otherwise; calls that
//! do not fit are refused with a message.

mod common;

use common::{
    Tree, assert_close,
    cases::{AttentionCase, ConvCase, DeltaCase, Feeds, Regime, UpdateCase, cpu},
    rng,
    session::{Data, Take, one_node, run, session},
};
use forkcast_plugins::{onnx::GraphBuilder, ops, reference};

/// A body of `TreeCausalConv` that says its input is the result.
fn lying_body() -> forkcast_plugins::onnx::proto::FunctionProto {
    let mut b = GraphBuilder::new("lie");
    b.named("Identity", &["x"], &["y"], vec![]);
    let inputs = ["x", "past", "weight", "ancestors"];
    b.into_function(ops::TREE_CAUSAL_CONV, &inputs, &["y"], &[])
}

#[test]
fn a_registered_kernel_wins_over_the_body() {
    let mut rng = rng(10);
    let tree = Tree::random(&mut rng, 9, 4);
    let case = ConvCase::new(&mut rng, &tree, 8, 4);
    let truth = reference::tree_causal_conv(&case.args());
    let by_kernel = case.in_session(vec![lying_body()], Take::Kernel);
    assert_close("kernel", &by_kernel, &truth, 1e-5);
    let by_body = case.in_session(vec![lying_body()], Take::Body);
    assert_eq!(by_body, case.x, "without a kernel the body is inlined");
}

#[test]
fn kernels_run_without_any_body() {
    let mut rng = rng(11);
    let tree = Tree::random(&mut rng, 5, 3);
    let attention = AttentionCase::new(&mut rng, &tree, (2, 1), 16, (4, 3), 0);
    let expected = reference::tree_attention(&attention.args());
    assert_close(
        "attention",
        &attention.in_session(vec![], Take::Kernel),
        &expected,
        1e-5,
    );
    let delta = DeltaCase::new(&mut rng, &tree, (1, 2), (16, 16), Regime::Random);
    let expected = reference::tree_delta_rule(&delta.args());
    let found = delta.in_session(vec![], Take::Kernel);
    assert_close("delta rule", &found.o, &expected.o, 1e-5);
}

#[test]
fn no_rows_are_no_error() {
    let mut rng = rng(14);
    let none = Tree { parents: vec![] };
    let attention = AttentionCase::new(&mut rng, &none, (2, 1), 16, (4, 3), 0);
    assert!(attention.in_session(cpu(), Take::Kernel).is_empty());
    let conv = ConvCase::new(&mut rng, &none, 8, 4);
    assert!(conv.in_session(cpu(), Take::Kernel).is_empty());
    let delta = DeltaCase::new(&mut rng, &none, (1, 2), (16, 16), Regime::Random);
    assert!(delta.in_session(cpu(), Take::Kernel).o.is_empty());
}

/// Runs a node on feeds it was not opened for and returns the error's text.
fn refusal(
    op: &str,
    opened: &Feeds,
    given: &Feeds,
    outputs: &[(&str, usize)],
    case: &AttentionCase,
) -> String {
    let attributes = if op == ops::TREE_ATTENTION {
        case.attributes()
    } else {
        vec![]
    };
    let model = one_node(op, opened, outputs, attributes, cpu());
    let mut session = session(&model, Take::Kernel).expect("the model loads");
    run(&mut session, given)
        .expect_err("the call does not fit")
        .to_string()
}

fn replaced(feeds: &Feeds, name: &str, data: Data) -> Feeds {
    let mut feeds = feeds.clone();
    for feed in &mut feeds {
        if feed.0 == name {
            feed.1 = data.clone();
        }
    }
    feeds
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let mut rng = rng(12);
    let tree = Tree::random(&mut rng, 6, 3);
    let attention = AttentionCase::new(&mut rng, &tree, (2, 1), 16, (4, 3), 0);
    let feeds = attention.feeds();
    let cases = [
        ("past_len", Data::I64(vec![1], vec![5]), "capacity"),
        ("past_len", Data::I64(vec![1], vec![i64::MAX]), "capacity"),
        ("past_len", Data::I64(vec![1], vec![-1]), "past_len is negative"),
        (
            "positions",
            Data::I64(vec![5], vec![0; 5]),
            "input positions has shape [5]",
        ),
        (
            "visible",
            Data::Bool(vec![6, 5], vec![true; 30]),
            "input visible has shape",
        ),
        ("v", Data::F32(vec![6, 1, 8], vec![0.0; 48]), "input v has shape"),
        (
            "past_v",
            Data::F32(vec![3, 1, 16], vec![0.0; 48]),
            "input past_v has shape",
        ),
        ("k", Data::F32(vec![6, 3, 16], vec![0.0; 288]), "has shape"),
    ];
    for (name, data, message) in cases {
        let given = replaced(&feeds, name, data);
        let text = refusal(ops::TREE_ATTENTION, &feeds, &given, &[("o", 3)], &attention);
        assert!(text.contains("TreeAttention") && text.contains(message), "{text}");
    }

    let conv = ConvCase::new(&mut rng, &tree, 8, 4);
    let feeds = conv.feeds();
    let mut looped = conv.ancestors.clone();
    looped[1] = true;
    let cases = [
        (
            "past",
            Data::F32(vec![2, 8], vec![0.0; 16]),
            "input past has shape",
        ),
        ("ancestors", Data::Bool(vec![6, 6], looped), "lower triangular"),
        (
            "ancestors",
            Data::Bool(vec![6, 6], vec![false; 36]),
            "true diagonal",
        ),
    ];
    for (name, data, message) in cases {
        let given = replaced(&feeds, name, data);
        let text = refusal(ops::TREE_CAUSAL_CONV, &feeds, &given, &[("y", 2)], &attention);
        assert!(
            text.contains("TreeCausalConv") && text.contains(message),
            "{text}"
        );
    }

    let delta = DeltaCase::new(&mut rng, &tree, (1, 2), (16, 16), Regime::Random);
    let feeds = delta.feeds();
    let given = replaced(&feeds, "state", Data::F32(vec![2, 16, 8], vec![0.0; 256]));
    let outputs = [("o", 3), ("u", 3), ("G", 2)];
    let text = refusal(ops::TREE_DELTA_RULE, &feeds, &given, &outputs, &attention);
    assert!(text.contains("TreeDeltaRule: input state has shape"), "{text}");

    let found = delta.kernel();
    let update = UpdateCase::new(&delta, &found, &[0]);
    let feeds = update.feeds();
    for (path, message) in [
        (vec![0, 6], "leaves the rows"),
        (vec![-1], "leaves the rows"),
        (vec![], "path is empty"),
    ] {
        let given = replaced(&feeds, "path", Data::I64(vec![path.len()], path));
        let text = refusal(
            ops::DELTA_BRANCH_UPDATE,
            &feeds,
            &given,
            &[("state_out", 3)],
            &attention,
        );
        assert!(
            text.contains("DeltaBranchUpdate") && text.contains(message),
            "{text}"
        );
    }
}

#[test]
fn wrong_types_and_missing_attributes_are_refused_at_load() {
    let mut rng = rng(13);
    let tree = Tree::random(&mut rng, 3, 2);
    let case = AttentionCase::new(&mut rng, &tree, (2, 1), 16, (4, 3), 0);
    let model = one_node(ops::TREE_ATTENTION, &case.feeds(), &[("o", 3)], vec![], vec![]);
    assert!(
        session(&model, Take::Kernel).is_err(),
        "scale and window are missing"
    );
    let wrong = replaced(&case.feeds(), "past_len", Data::F32(vec![1], vec![3.0]));
    let model = one_node(
        ops::TREE_ATTENTION,
        &wrong,
        &[("o", 3)],
        case.attributes(),
        vec![],
    );
    assert!(session(&model, Take::Kernel).is_err(), "past_len is a float");
}
