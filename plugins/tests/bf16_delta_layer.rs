//! A DeltaNet layer with bf16 linear layers, by its function bodies in ONNX Runtime, against float64.
//!
//! Three bounds: each linear layer within its rounding of the exact product of the same inputs; each operator, on the
//! inputs it really got, within invariant 4 of the float64 recurrence; the layer as a whole as near to the
//! unrounded layer as the float64 layer that rounds at the same places.

mod common;

use common::{
    Tree, assert_close,
    bf16::{
        LayerGraph, UNIT, check_linear, columns, distance, linear, narrow, rms_norm, round, round_all, wide,
    },
    bound, rng,
    session::Data,
    uniform,
};
use forkcast_plugins::{
    args::{ConvArgs, DeltaArgs},
    bodies::{self, tensorrt},
    onnx::proto::FunctionProto,
    ops, reference,
};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

const HIDDEN: usize = 64;
const TAPS: usize = 4;
const HEADS: [usize; 2] = [2, 4];
const DIMS: [usize; 2] = [32, 16];
const KEYS: usize = HEADS[0] * DIMS[0];
const VALUES: usize = HEADS[1] * DIMS[1];
const CHANNELS: usize = 2 * KEYS + VALUES;
const EPS: f32 = 1e-6;

/// Inputs and weights, all of them bf16 numbers where a bf16 layer has such.
struct Layer {
    tree: Tree,
    x: Vec<f32>,
    qkv: Vec<f32>,
    b: Vec<f32>,
    a: Vec<f32>,
    out: Vec<f32>,
    conv: Vec<f32>,
    past: Vec<f32>,
    decay: Vec<f32>,
    state: Vec<f32>,
}

impl Layer {
    /// With `alike` keys of all rows are nearly the same, beta is near 1 and nothing decays, while queries
    /// and values differ: the first half of x is nearly the same in every row, and makes the keys alone.
    fn new(rng: &mut ChaCha8Rng, tree: Tree, alike: bool) -> Self {
        let n = tree.rows();
        let mut x = uniform(rng, n * HIDDEN);
        let mut matrix = |rows: usize, inputs: usize| {
            let scale = (3.0 / inputs as f32).sqrt();
            let values: Vec<f32> = uniform(rng, rows * inputs).iter().map(|w| scale * w).collect();
            values
        };
        let mut qkv = matrix(CHANNELS, HIDDEN);
        let (mut b, a) = (matrix(HEADS[1], HIDDEN), matrix(HEADS[1], HIDDEN));
        let out = matrix(HIDDEN, VALUES);
        let common = x[..HIDDEN / 2].to_vec();
        if alike {
            for row in x.chunks_mut(HIDDEN) {
                for (x, common) in row.iter_mut().zip(&common) {
                    *x = common + 4e-3 * *x;
                }
            }
            for w in qkv[KEYS * HIDDEN..2 * KEYS * HIDDEN].chunks_mut(HIDDEN) {
                w[HIDDEN / 2..].fill(0.0);
            }
            let square: f32 = common.iter().map(|x| x * x).sum();
            for w in b.chunks_mut(HIDDEN) {
                w[HIDDEN / 2..].fill(0.0);
                w.iter_mut().zip(&common).for_each(|(w, x)| *w = 6.0 * x / square);
            }
        }
        let decay = if alike { 1e-4 } else { 0.5 };
        Self {
            x: round_all(&x),
            qkv: round_all(&qkv),
            b: round_all(&b),
            a: round_all(&a),
            out: round_all(&out),
            conv: round_all(&uniform(rng, CHANNELS * TAPS)),
            past: round_all(&uniform(rng, (TAPS - 1) * CHANNELS)),
            decay: vec![-decay; HEADS[1]],
            state: uniform(rng, HEADS[1] * DIMS[0] * DIMS[1]),
            tree,
        }
    }

    /// The layer as a graph, with the bodies `functions`.
    fn run(&self, functions: Vec<FunctionProto>) -> HashMap<&'static str, Vec<f32>> {
        let n = self.tree.rows();
        let mut net = LayerGraph::new();
        let matrix =
            |rows: usize, columns: usize, data: &[f32]| Data::F32(vec![rows, columns], data.to_vec());
        let x = net.input("x", matrix(n, HIDDEN, &self.x));
        let w_qkv = net.input("w_qkv", matrix(CHANNELS, HIDDEN, &self.qkv));
        let w_b = net.input("w_b", matrix(HEADS[1], HIDDEN, &self.b));
        let w_a = net.input("w_a", matrix(HEADS[1], HIDDEN, &self.a));
        let w_out = net.input("w_out", matrix(HIDDEN, VALUES, &self.out));
        let conv = net.input("w_conv", matrix(CHANNELS, TAPS, &self.conv));
        let past = net.input("past", matrix(TAPS - 1, CHANNELS, &self.past));
        let decay = net.input("decay", Data::F32(vec![HEADS[1]], self.decay.clone()));
        let state = vec![HEADS[1], DIMS[0], DIMS[1]];
        let state = net.input("state", Data::F32(state, self.state.clone()));
        let mask = net.input("ancestors", Data::Bool(vec![n, n], self.tree.ancestors()));

        let qkv = net.linear(x, w_qkv);
        let (b, a) = (net.linear(x, w_b), net.linear(x, w_a));
        net.b.custom(
            ops::TREE_CAUSAL_CONV,
            &[&qkv, past, conv, mask],
            &["wide"],
            vec![],
        );
        let c = net.round("wide");
        let parts = net.split(&c, &[KEYS, KEYS, VALUES]);
        let dk = DIMS[0] as f32;
        let heads = [0, HEADS[0] as i64, DIMS[0] as i64];
        let (q, k) = (net.reshape(&parts[0], &heads), net.reshape(&parts[1], &heads));
        let q = net.rms_norm(&q, DIMS[0], EPS / dk, 1.0 / dk);
        let k = net.rms_norm(&k, DIMS[0], EPS / dk, dk.powf(-0.5));
        let v = net.reshape(&parts[2], &[0, HEADS[1] as i64, DIMS[1] as i64]);
        let soft = net.b.node("Softplus", &[&a], vec![]);
        let g = net.b.node("Mul", &[&soft, decay], vec![]);
        let beta = net.b.node("Sigmoid", &[&b], vec![]);
        let inputs = [&q, &k, &v, &g, &beta, state, mask];
        net.b
            .custom(ops::TREE_DELTA_RULE, &inputs, &["o", "u", "gates"], vec![]);
        let normed = net.rms_norm("o", DIMS[1], EPS, 1.0);
        let normed = net.reshape(&normed, &[0, VALUES as i64]);
        let normed = net.round(&normed);
        let y = net.linear(&normed, w_out);
        for (value, name) in [(&qkv, "qkv"), (&b, "b"), (&a, "a"), (&c, "c"), (&g, "g")] {
            net.mark(value, name, 2);
        }
        for (value, name) in [(&q, "q"), (&k, "k"), (&v, "v")] {
            net.mark(value, name, 3);
        }
        for (value, name, rank) in [
            ("o", "O", 3),
            ("u", "U", 3),
            ("gates", "G", 2),
            (&beta, "beta", 2),
        ] {
            net.mark(value, name, rank);
        }
        net.mark(&normed, "normed", 2);
        net.mark(&y, "y", 2);
        net.run(functions)
    }

    /// The layer in float64; `round` at the places where a bf16 layer rounds.
    fn exact(&self, round: fn(f64) -> f64) -> Vec<f64> {
        let x = wide(&self.x);
        let all = |values: Vec<f64>| values.into_iter().map(round).collect::<Vec<f64>>();
        let qkv = linear(&x, &self.qkv, HIDDEN, round);
        let b = linear(&x, &self.b, HIDDEN, round);
        let a = linear(&x, &self.a, HIDDEN, round);
        let ancestors = self.tree.ancestors();
        let c = all(self.conv_reference(&narrow(&qkv), &ancestors));
        let dk = DIMS[0] as f64;
        let eps = f64::from(EPS);
        let part = |from: usize, to: usize| columns(&c, CHANNELS, from, to);
        let q = rms_norm(&part(0, KEYS), DIMS[0], eps / dk, 1.0 / dk);
        let k = rms_norm(&part(KEYS, 2 * KEYS), DIMS[0], eps / dk, dk.powf(-0.5));
        let v = part(2 * KEYS, CHANNELS);
        let gate = |(i, a): (usize, &f64)| f64::from(self.decay[i % HEADS[1]]) * a.exp().ln_1p();
        let g: Vec<f64> = a.iter().enumerate().map(gate).collect();
        let beta: Vec<f64> = b.iter().map(|b| 1.0 / (1.0 + (-b).exp())).collect();
        let (q, k, v, g, beta) = (narrow(&q), narrow(&k), narrow(&v), narrow(&g), narrow(&beta));
        let found = reference::tree_delta_rule(&self.delta_args([&q, &k, &v, &g, &beta], &ancestors));
        let normed = all(rms_norm(&found.o, DIMS[1], eps, 1.0));
        linear(&normed, &self.out, VALUES, round)
    }

    fn conv_reference(&self, x: &[f32], ancestors: &[bool]) -> Vec<f64> {
        reference::tree_causal_conv(&ConvArgs {
            rows: self.tree.rows(),
            channels: CHANNELS,
            taps: TAPS,
            x,
            past: &self.past,
            weight: &self.conv,
            ancestors,
        })
    }

    fn delta_args<'a>(&'a self, values: [&'a [f32]; 5], ancestors: &'a [bool]) -> DeltaArgs<'a> {
        let [q, k, v, g, beta] = values;
        DeltaArgs {
            rows: self.tree.rows(),
            key_heads: HEADS[0],
            value_heads: HEADS[1],
            key_dim: DIMS[0],
            value_dim: DIMS[1],
            q,
            k,
            v,
            g,
            beta,
            state: &self.state,
            ancestors,
        }
    }
}

fn check(label: &str, layer: &Layer, functions: Vec<FunctionProto>) {
    let ancestors = layer.tree.ancestors();
    let found = layer.run(functions);
    let value = |name: &str| found[name].as_slice();
    for (name, w) in [("qkv", &layer.qkv), ("b", &layer.b), ("a", &layer.a)] {
        check_linear(&format!("{label}: {name}"), value(name), &layer.x, w, HIDDEN);
    }
    check_linear(
        &format!("{label}: y"),
        value("y"),
        value("normed"),
        &layer.out,
        VALUES,
    );

    let conv = layer.conv_reference(value("qkv"), &ancestors);
    for (found, exact) in value("c").iter().zip(&conv) {
        let error = (f64::from(*found) - exact).abs();
        assert!(
            error <= UNIT * exact.abs() + 1e-5,
            "{label}: conv {found} for {exact}"
        );
    }
    let inputs = ["q", "k", "v", "g", "beta"].map(value);
    let exact = reference::tree_delta_rule(&layer.delta_args(inputs, &ancestors));
    let most = bound(&exact.gates);
    assert_close(&format!("{label}: G"), value("G"), &exact.gates, 1e-6);
    let u = assert_close(&format!("{label}: u"), value("U"), &exact.u, most);
    let o = assert_close(&format!("{label}: o"), value("O"), &exact.o, most);

    let (unrounded, rounded, y) = (layer.exact(|x| x), layer.exact(round), wide(value("y")));
    let predicted = distance(&rounded, &unrounded);
    let (error, apart) = (distance(&y, &unrounded), distance(&y, &rounded));
    println!(
        "{label}: u {u:.1e}, o {o:.1e} of {most:.1e}; layer (largest, rms): predicted {predicted:?}, found {error:?}, \
         apart {apart:?}"
    );
    assert!(
        error.0 <= 1.25 * predicted.0 && error.1 <= 1.05 * predicted.1,
        "{label}: {error:?}"
    );
    assert!(
        apart.1 <= 0.25 * predicted.1,
        "{label}: rounds elsewhere than the reference, {apart:?}"
    );
}

#[test]
fn trees() {
    let mut rng = rng(60);
    for rows in [1, 40, 257] {
        for alike in [false, true] {
            let tree = Tree::random(&mut rng, rows, 16);
            let layer = Layer::new(&mut rng, tree, alike);
            let label = format!("tree of {rows}, alike {alike}");
            check(&format!("{label}, CPU body"), &layer, bodies::functions());
            check(&format!("{label}, TensorRT body"), &layer, tensorrt::trees());
        }
    }
}

#[test]
fn chains_of_512_rows() {
    let mut rng = rng(61);
    for alike in [false, true] {
        let layer = Layer::new(&mut rng, Tree::chain(512), alike);
        let label = format!("chain of 512, alike {alike}");
        check(&format!("{label}, CPU body"), &layer, bodies::functions());
        check(&format!("{label}, TensorRT body"), &layer, tensorrt::chains(512));
    }
}

#[test]
fn alike_means_alike() {
    let mut rng = rng(61);
    let layer = Layer::new(&mut rng, Tree::chain(512), true);
    let found = layer.run(tensorrt::chains(512));
    let (k, beta) = (&found["k"], &found["beta"]);
    let dot: f32 = k[8 * KEYS..][..DIMS[0]]
        .iter()
        .zip(&k[300 * KEYS..][..DIMS[0]])
        .map(|(a, b)| a * b)
        .sum();
    assert!(dot > 0.999, "keys: {dot}");
    assert!(beta.iter().all(|b| *b > 0.99), "beta");
}
