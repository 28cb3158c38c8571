//! The comparison of kernels with bodies that `forkcast verify --deep` makes: it holds, and it can fail.

mod common;

use forkcast_plugins::agreement::{Geometry, measure};
use forkcast_plugins::onnx::GraphBuilder;
use forkcast_plugins::{bodies, ops};
use ort::session::Session;
use ort::session::builder::SessionBuilder;

const MODEL: [Geometry; 4] = [
    Geometry::Attention {
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
    },
    Geometry::Delta {
        key_heads: 1,
        value_heads: 2,
        key_dim: 16,
        value_dim: 24,
        taps: 4,
    },
    Geometry::Blocks {
        depth: 64,
        columns: 48,
        bits: 8,
    },
    Geometry::Blocks {
        depth: 96,
        columns: 20,
        bits: 4,
    },
];

fn builder() -> Result<SessionBuilder, String> {
    Session::builder(common::session::environment()).map_err(|e| e.to_string())
}

#[test]
fn kernels_agree_with_the_bodies() {
    let found = measure(&builder, &bodies::all(), &MODEL, 1).expect("a comparison");
    let names: Vec<&str> = found.iter().map(|a| a.operator).collect();
    let all = [
        ops::TREE_ATTENTION,
        ops::fused::HEAD_NORM_ROPE,
        ops::fused::SIGMOID_GATE,
        ops::fused::SWI_GLU,
        ops::TREE_CAUSAL_CONV,
        ops::TREE_DELTA_RULE,
        ops::DELTA_BRANCH_UPDATE,
        ops::fused::DELTA_INPUTS,
        ops::fused::GATED_NORM,
        ops::fused::BLOCK_MAT_MUL,
    ];
    assert_eq!(names, all);
    for agreement in found {
        assert!(agreement.holds(), "{agreement:?}");
        let twice = agreement.operator == ops::fused::BLOCK_MAT_MUL;
        assert_eq!(agreement.calls, if twice { 10 } else { 5 });
        assert!(agreement.bound < 1e-4, "{agreement:?}");
    }
}

#[test]
fn a_body_that_computes_something_else_is_found() {
    let mut b = GraphBuilder::new("lie");
    b.named("Identity", &["x"], &["y"], vec![]);
    let inputs = ["x", "past", "weight", "ancestors"];
    let lie = b.into_function(ops::TREE_CAUSAL_CONV, &inputs, &["y"], &[]);
    let mut functions = bodies::all();
    functions.retain(|f| f.name() != ops::TREE_CAUSAL_CONV);
    functions.push(lie);
    let found = measure(&builder, &functions, &MODEL, 1).expect("a comparison");
    for agreement in found {
        assert_eq!(
            agreement.holds(),
            agreement.operator != ops::TREE_CAUSAL_CONV,
            "{agreement:?}"
        );
    }
}
