//! The fused operators: kernel, kernel inside ONNX Runtime, and body against the float64 references.

mod common;

use common::{
    assert_close, rng,
    session::{Data, Take, one_node, run, session},
    uniform,
};
use forkcast_plugins::args::{DeltaInputsArgs, GatedNormArgs, HeadNormRopeArgs, SigmoidGateArgs, SwiGluArgs};
use forkcast_plugins::kernels::Serial;
use forkcast_plugins::kernels::fused::{self as kernels, DeltaInputsOutputs};
use forkcast_plugins::onnx::proto::AttributeProto;
use forkcast_plugins::onnx::{attr_f, attr_i};
use forkcast_plugins::{bodies, ops::fused, reference::fused as reference};
use rand_chacha::ChaCha8Rng;

const BOUND: f64 = 2e-6;

/// Numbers in [-6, 6): beyond where sigmoids are straight.
fn wide(rng: &mut ChaCha8Rng, len: usize) -> Vec<f32> {
    uniform(rng, len).into_iter().map(|x| 6.0 * x).collect()
}

/// Runs one node by kernel and by body and compares every output.
fn in_sessions(
    op: &str,
    feeds: &[(&'static str, Data)],
    outputs: &[(&'static str, usize)],
    attributes: &[AttributeProto],
    expected: &[Vec<f64>],
) {
    for take in [Take::Kernel, Take::Body] {
        let model = one_node(
            op,
            feeds,
            outputs,
            attributes.to_vec(),
            bodies::fused::functions(),
        );
        let mut session = session(&model, take).expect("the model loads");
        let found = run(&mut session, feeds).expect("a run");
        for ((found, expected), (name, _)) in found.iter().zip(expected).zip(outputs) {
            assert_close(&format!("{op} {name} by {take:?}"), found, expected, BOUND);
        }
    }
}

#[test]
fn swi_glu_agrees() {
    let mut rng = rng(101);
    for (rows, width) in [(0, 4), (1, 1), (1, 192), (3, 17), (13, 576), (257, 33)] {
        let x = wide(&mut rng, 2 * rows * width);
        let args = SwiGluArgs { rows, width, x: &x };
        let expected = reference::swi_glu(&args);
        let mut y = vec![f32::NAN; rows * width];
        kernels::swi_glu(&args, &mut y, &Serial).expect("a fit");
        assert_close("SwiGlu", &y, &expected, BOUND);
        let feeds = [("x", Data::F32(vec![rows, 2 * width], x.clone()))];
        in_sessions(fused::SWI_GLU, &feeds, &[("y", 2)], &[], &[expected]);
    }
}

#[test]
fn gated_norm_agrees() {
    let mut rng = rng(102);
    for (rows, heads, head_dim) in [(1, 4, 64), (5, 3, 17), (13, 32, 128), (257, 2, 8)] {
        let all = rows * heads * head_dim;
        let (o, z, w) = (
            wide(&mut rng, all),
            wide(&mut rng, all),
            uniform(&mut rng, head_dim),
        );
        let args = GatedNormArgs {
            rows,
            heads,
            head_dim,
            epsilon: 1e-6,
            o: &o,
            z: &z,
            w: &w,
        };
        let expected = reference::gated_norm(&args);
        let mut y = vec![f32::NAN; all];
        kernels::gated_norm(&args, &mut y, &Serial).expect("a fit");
        assert_close("GatedNorm", &y, &expected, BOUND);
        let feeds = [
            ("o", Data::F32(vec![rows, heads, head_dim], o.clone())),
            ("z", Data::F32(vec![rows, heads * head_dim], z.clone())),
            ("w", Data::F32(vec![head_dim], w.clone())),
        ];
        let attributes = [attr_f("epsilon", 1e-6)];
        in_sessions(fused::GATED_NORM, &feeds, &[("y", 2)], &attributes, &[expected]);
    }
}

#[test]
fn head_norm_rope_agrees() {
    let mut rng = rng(103);
    // Whole heads and the first halves of heads; rotation of all and of some dimensions.
    for (rows, heads, head_dim, stride, rotary) in [
        (1, 4, 64, 64, 64),
        (3, 2, 64, 128, 16),
        (13, 16, 128, 128, 128),
        (257, 1, 24, 48, 10),
        (2, 3, 8, 8, 2),
    ] {
        let x = wide(&mut rng, rows * heads * stride);
        let w = uniform(&mut rng, head_dim);
        let angles = wide(&mut rng, rows * rotary / 2);
        let cos: Vec<f32> = angles.iter().map(|a| a.cos()).collect();
        let sin: Vec<f32> = angles.iter().map(|a| a.sin()).collect();
        let args = HeadNormRopeArgs {
            rows,
            heads,
            head_dim,
            stride,
            rotary,
            epsilon: 1e-6,
            x: &x,
            w: &w,
            cos: &cos,
            sin: &sin,
        };
        let expected = reference::head_norm_rope(&args);
        let mut y = vec![f32::NAN; rows * heads * head_dim];
        kernels::head_norm_rope(&args, &mut y, &Serial).expect("a fit");
        assert_close("HeadNormRope", &y, &expected, BOUND);
        let table = vec![rows, 1, rotary / 2];
        let feeds = [
            ("x", Data::F32(vec![rows, heads * stride], x.clone())),
            ("w", Data::F32(vec![head_dim], w.clone())),
            ("cos", Data::F32(table.clone(), cos.clone())),
            ("sin", Data::F32(table, sin.clone())),
        ];
        let attributes = [
            attr_i("heads", heads as i64),
            attr_i("rotary", if rotary == head_dim { 0 } else { rotary as i64 }),
            attr_f("epsilon", 1e-6),
        ];
        in_sessions(
            fused::HEAD_NORM_ROPE,
            &feeds,
            &[("y", 3)],
            &attributes,
            &[expected],
        );
    }
}

#[test]
fn sigmoid_gate_agrees() {
    let mut rng = rng(104);
    for (rows, heads, head_dim) in [(1, 4, 64), (5, 3, 17), (257, 2, 8)] {
        let all = rows * heads * head_dim;
        let (o, x) = (wide(&mut rng, all), wide(&mut rng, 2 * all));
        let args = SigmoidGateArgs {
            rows,
            heads,
            head_dim,
            o: &o,
            x: &x,
        };
        let expected = reference::sigmoid_gate(&args);
        let mut y = vec![f32::NAN; all];
        kernels::sigmoid_gate(&args, &mut y, &Serial).expect("a fit");
        assert_close("SigmoidGate", &y, &expected, BOUND);
        let feeds = [
            ("o", Data::F32(vec![rows, heads, head_dim], o.clone())),
            ("x", Data::F32(vec![rows, heads * 2 * head_dim], x.clone())),
        ];
        in_sessions(fused::SIGMOID_GATE, &feeds, &[("y", 2)], &[], &[expected]);
    }
}

#[test]
fn delta_inputs_agrees() {
    let mut rng = rng(105);
    for (rows, key_heads, value_heads, key_dim, value_dim) in [
        (1, 2, 4, 64, 64),
        (3, 1, 3, 16, 24),
        (13, 16, 32, 128, 128),
        (257, 2, 2, 8, 5),
    ] {
        let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
        let c = wide(&mut rng, rows * (2 * keys + values));
        let (a, b) = (
            wide(&mut rng, rows * value_heads),
            wide(&mut rng, rows * value_heads),
        );
        let (dt_bias, decay) = (wide(&mut rng, value_heads), wide(&mut rng, value_heads));
        let args = DeltaInputsArgs {
            rows,
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            c: &c,
            a: &a,
            b: &b,
            dt_bias: &dt_bias,
            decay: &decay,
        };
        let expected = reference::delta_inputs(&args);
        let sizes = [rows * keys, rows * keys, rows * values, a.len(), a.len()];
        let [mut q, mut k, mut v, mut g, mut beta] = sizes.map(|n| vec![f32::NAN; n]);
        let out = DeltaInputsOutputs {
            q: &mut q,
            k: &mut k,
            v: &mut v,
            g: &mut g,
            beta: &mut beta,
        };
        kernels::delta_inputs(&args, out, &Serial).expect("a fit");
        for (found, expected) in [&q, &k, &v, &g, &beta].into_iter().zip(&expected) {
            assert_close("DeltaInputs", found, expected, BOUND);
        }
        let gates = vec![rows, value_heads];
        let feeds = [
            ("c", Data::F32(vec![rows, 2 * keys + values], c.clone())),
            ("a", Data::F32(gates.clone(), a.clone())),
            ("b", Data::F32(gates, b.clone())),
            ("dt_bias", Data::F32(vec![value_heads], dt_bias.clone())),
            ("decay", Data::F32(vec![value_heads], decay.clone())),
        ];
        let attributes = [
            attr_i("key_heads", key_heads as i64),
            attr_i("key_dim", key_dim as i64),
        ];
        let outputs = [("q", 3), ("k", 3), ("v", 3), ("g", 2), ("beta", 2)];
        in_sessions(fused::DELTA_INPUTS, &feeds, &outputs, &attributes, &expected);
    }
}

#[test]
fn extreme_gates_stay_finite() {
    let (a, b) = ([300.0, -300.0, 0.0, 88.0], [300.0, -300.0, 0.0, -88.0]);
    let args = DeltaInputsArgs {
        rows: 2,
        key_heads: 1,
        value_heads: 2,
        key_dim: 1,
        value_dim: 1,
        c: &[0.0; 8],
        a: &a,
        b: &b,
        dt_bias: &[0.0; 2],
        decay: &[-1.0; 2],
    };
    let [mut q, mut k, mut v, mut g, mut beta] = [2, 2, 4, 4, 4].map(|n| vec![f32::NAN; n]);
    let out = DeltaInputsOutputs {
        q: &mut q,
        k: &mut k,
        v: &mut v,
        g: &mut g,
        beta: &mut beta,
    };
    kernels::delta_inputs(&args, out, &Serial).expect("a fit");
    assert_eq!((g[0], g[1], beta[0], beta[1]), (-300.0, 0.0, 1.0, 0.0));
    assert!(q.iter().chain(&k).all(|x| *x == 0.0), "heads of length 0");
    let x = [1000.0, -1000.0, 1.0, 1.0];
    let mut y = [f32::NAN; 2];
    let swi = SwiGluArgs {
        rows: 1,
        width: 2,
        x: &x,
    };
    kernels::swi_glu(&swi, &mut y, &Serial).expect("a fit");
    assert!(y[0] == 1000.0 && y[1].abs() < 1e-30, "{y:?}");
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let refuse =
        |op, feeds: &[(&'static str, Data)], outputs: &[(&'static str, usize)], attributes, part: &str| {
            let model = one_node(op, feeds, outputs, attributes, vec![]);
            let said = session(&model, Take::Kernel)
                .and_then(|mut s| run(&mut s, feeds).map(|_| ()))
                .expect_err("the call does not fit")
                .to_string();
            assert!(said.contains(part), "{said:?} lacks {part:?}");
        };
    let matrix = |rows: usize, columns| Data::F32(vec![rows, columns], vec![0.5; rows * columns]);
    let cube = |a: usize, b: usize, c: usize| Data::F32(vec![a, b, c], vec![0.5; a * b * c]);
    let list = |n: usize| Data::F32(vec![n], vec![0.5; n]);
    refuse(
        fused::SWI_GLU,
        &[("x", matrix(2, 3))],
        &[("y", 2)],
        vec![],
        "input x has shape [2, 3]",
    );
    refuse(
        fused::SIGMOID_GATE,
        &[("o", cube(2, 2, 4)), ("x", matrix(2, 8))],
        &[("y", 2)],
        vec![],
        "input x has shape",
    );
    let norm = [("o", cube(2, 2, 4)), ("z", matrix(2, 8)), ("w", list(3))];
    refuse(
        fused::GATED_NORM,
        &norm,
        &[("y", 2)],
        vec![attr_f("epsilon", 1e-6)],
        "input w has shape [3]",
    );
    refuse(
        fused::GATED_NORM,
        &norm,
        &[("y", 2)],
        vec![],
        "epsilon is missing",
    );
    let rope = |columns, half| {
        [
            ("x", matrix(2, columns)),
            ("w", list(4)),
            ("cos", cube(2, 1, half)),
            ("sin", cube(2, 1, half)),
        ]
    };
    let attributes = |heads, rotary| {
        vec![
            attr_i("heads", heads),
            attr_i("rotary", rotary),
            attr_f("epsilon", 1e-6),
        ]
    };
    refuse(
        fused::HEAD_NORM_ROPE,
        &rope(6, 2),
        &[("y", 3)],
        attributes(2, 0),
        "shorter than w",
    );
    refuse(
        fused::HEAD_NORM_ROPE,
        &rope(8, 3),
        &[("y", 3)],
        attributes(2, 0),
        "input cos has shape",
    );
    refuse(
        fused::HEAD_NORM_ROPE,
        &rope(8, 1),
        &[("y", 3)],
        attributes(2, 3),
        "rotary is odd",
    );
    refuse(
        fused::HEAD_NORM_ROPE,
        &rope(8, 2),
        &[("y", 3)],
        attributes(-1, 0),
        "heads is negative",
    );
    let delta = [
        ("c", matrix(2, 13)),
        ("a", matrix(2, 2)),
        ("b", matrix(2, 2)),
        ("dt_bias", list(2)),
        ("decay", list(2)),
    ];
    let outputs = [("q", 3), ("k", 3), ("v", 3), ("g", 2), ("beta", 2)];
    let attributes = vec![attr_i("key_heads", 1), attr_i("key_dim", 4)];
    refuse(
        fused::DELTA_INPUTS,
        &delta,
        &outputs,
        attributes,
        "c has 26 elements, expected 24",
    );
}
