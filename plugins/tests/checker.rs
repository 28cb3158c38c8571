//! Models with every set of function bodies pass the checker of the ONNX project, shape inference included.
//!
//! The checker is Python. `FORKCAST_PYTHON` names an interpreter that has the package `onnx`; without one
//! that has it, only the models' structure is tested.

mod common;

use common::{
    Tree,
    cases::{AttentionCase, ConvCase, DeltaCase, Feeds, Regime, UpdateCase, cpu},
    rng,
    session::one_node,
};
use forkcast_plugins::{
    bodies::tensorrt,
    onnx::proto::{AttributeProto, FunctionProto},
    ops,
};
use std::{collections::HashSet, path::PathBuf, process::Command};

type Example = (
    &'static str,
    Feeds,
    Vec<(&'static str, usize)>,
    Vec<AttributeProto>,
);

fn examples() -> Vec<Example> {
    let mut rng = rng(70);
    let tree = Tree::random(&mut rng, 9, 4);
    let attention = AttentionCase::new(&mut rng, &tree, (4, 2), 16, (8, 5), 3);
    let conv = ConvCase::new(&mut rng, &tree, 8, 4);
    let delta = DeltaCase::new(&mut rng, &tree, (1, 2), (16, 16), Regime::Random);
    let update = UpdateCase::new(&delta, &delta.kernel(), &[0]);
    vec![
        (
            ops::TREE_ATTENTION,
            attention.feeds(),
            vec![("o", 3)],
            attention.attributes(),
        ),
        (ops::TREE_CAUSAL_CONV, conv.feeds(), vec![("y", 2)], vec![]),
        (
            ops::TREE_DELTA_RULE,
            delta.feeds(),
            vec![("o", 3), ("u", 3), ("G", 2)],
            vec![],
        ),
        (
            ops::DELTA_BRANCH_UPDATE,
            update.feeds(),
            vec![("state_out", 3)],
            vec![],
        ),
    ]
}

fn sets() -> Vec<(&'static str, Vec<FunctionProto>)> {
    vec![
        ("cpu", cpu()),
        ("trees", tensorrt::trees()),
        ("chains", tensorrt::chains(200)),
    ]
}

#[test]
fn every_set_defines_every_operator_once_and_deterministically() {
    for ((name, functions), (_, again)) in sets().into_iter().zip(sets()) {
        assert_eq!(functions, again, "{name}");
        let defined: Vec<&str> = functions.iter().map(FunctionProto::name).collect();
        assert_eq!(
            defined,
            [
                ops::TREE_ATTENTION,
                ops::TREE_CAUSAL_CONV,
                ops::TREE_DELTA_RULE,
                ops::DELTA_BRANCH_UPDATE
            ],
            "{name}"
        );
        for function in &functions {
            let mut produced = HashSet::new();
            for output in function.node.iter().flat_map(|node| &node.output) {
                assert!(produced.insert(output), "{name}: {output} is produced twice");
            }
            let standard = |node: &forkcast_plugins::onnx::proto::NodeProto| node.domain().is_empty();
            assert!(function.node.iter().all(standard), "{name}");
        }
    }
}

#[test]
fn the_onnx_checker_accepts_every_set() {
    let python = std::env::var_os("FORKCAST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let has_onnx = Command::new(&python).args(["-c", "import onnx"]).output();
    if !has_onnx.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: {} has no package onnx", python.display());
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("checker");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut files = Vec::new();
    for (set, functions) in sets() {
        for (op, feeds, outputs, attributes) in examples() {
            let model = one_node(op, &feeds, &outputs, attributes, functions.clone());
            let file = folder.join(format!("{set}-{op}.onnx"));
            std::fs::write(&file, model).expect("a file");
            files.push(file);
        }
    }
    let script = "import sys, onnx\nfor f in sys.argv[1:]: onnx.checker.check_model(f, full_check=True)";
    let done = Command::new(&python)
        .args(["-c", script])
        .args(&files)
        .output()
        .expect("python runs");
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{complaint}");
}
