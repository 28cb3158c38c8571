//! An attention layer with bf16 linear layers, by its function body in ONNX Runtime, against float64; bounds as in
//! `bf16_delta_layer.rs`.

mod common;

use common::{
    Tree, assert_close,
    bf16::{LayerGraph, check_linear, distance, linear, narrow, rms_norm, round, round_all, wide},
    rng,
    session::Data,
    uniform,
};
use forkcast_plugins::{
    args::AttentionArgs,
    bodies::{self, tensorrt},
    onnx::{attr_f, attr_i, proto::FunctionProto},
    ops, reference,
};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

const HIDDEN: usize = 96;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 32;
const KV: usize = KV_HEADS * DIM;
const CAPACITY: usize = 64;
const EPS: f32 = 1e-6;
/// Weight of the head norms: makes the softmax sharp.
const SHARP: f32 = 2.0;

struct Layer {
    tree: Tree,
    window: i64,
    past_len: usize,
    x: Vec<f32>,
    weights: [Vec<f32>; 4],
    past: [Vec<f32>; 2],
}

impl Layer {
    /// With `alike` the rows, and so the keys, are nearly the same.
    fn new(rng: &mut ChaCha8Rng, tree: Tree, past_len: usize, window: i64, alike: bool) -> Self {
        let mut x = uniform(rng, tree.rows() * HIDDEN);
        let common = x[..HIDDEN].to_vec();
        if alike {
            for row in x.chunks_mut(HIDDEN) {
                row.iter_mut()
                    .zip(&common)
                    .for_each(|(x, common)| *x = common + 4e-3 * *x);
            }
        }
        let mut matrix = |rows: usize, inputs: usize| {
            let scale = (3.0 / inputs as f32).sqrt();
            let values: Vec<f32> = uniform(rng, rows * inputs).iter().map(|w| scale * w).collect();
            round_all(&values)
        };
        let weights = [
            matrix(HEADS * DIM, HIDDEN),
            matrix(KV, HIDDEN),
            matrix(KV, HIDDEN),
            matrix(HIDDEN, HEADS * DIM),
        ];
        Self {
            window,
            past_len,
            x: round_all(&x),
            weights,
            past: [(); 2].map(|()| round_all(&uniform(rng, CAPACITY * KV))),
            tree,
        }
    }

    fn scale() -> f32 {
        (DIM as f32).powf(-0.5)
    }

    fn positions(&self) -> Vec<i64> {
        let depths = self.tree.depths();
        depths.iter().map(|d| (self.past_len + d) as i64).collect()
    }

    fn run(&self, functions: Vec<FunctionProto>) -> HashMap<&'static str, Vec<f32>> {
        let n = self.tree.rows();
        let mut net = LayerGraph::new();
        let x = net.input("x", Data::F32(vec![n, HIDDEN], self.x.clone()));
        let [w_q, w_k, w_v, w_o] = [
            ("w_q", HEADS * DIM, HIDDEN),
            ("w_k", KV, HIDDEN),
            ("w_v", KV, HIDDEN),
            ("w_o", HIDDEN, HEADS * DIM),
        ]
        .map(|(name, rows, columns)| (name, vec![rows, columns]));
        let mut weight = |(name, shape): (&'static str, Vec<usize>), at: usize| {
            net.input(name, Data::F32(shape, self.weights[at].clone()))
        };
        let (w_q, w_k, w_v, w_o) = (weight(w_q, 0), weight(w_k, 1), weight(w_v, 2), weight(w_o, 3));
        let mut cache = |name, at: usize| {
            let shape = vec![CAPACITY, KV_HEADS, DIM];
            net.input(name, Data::F32(shape, self.past[at].clone()))
        };
        let (past_k, past_v) = (cache("past_k", 0), cache("past_v", 1));
        let past_len = net.input("past_len", Data::I64(vec![1], vec![self.past_len as i64]));
        let positions = net.input("positions", Data::I64(vec![n], self.positions()));
        let visible = net.input("visible", Data::Bool(vec![n, n], self.tree.ancestors()));

        let mut normed = |w: &str, heads: usize, raw: &'static str, name: &'static str| {
            let y = net.linear(x, w);
            net.mark(&y, raw, 2);
            let y = net.reshape(&y, &[0, heads as i64, DIM as i64]);
            let y = net.rms_norm(&y, DIM, EPS, SHARP);
            let y = net.round(&y);
            net.mark(&y, name, 3);
            y
        };
        let q = normed(w_q, HEADS, "raw_q", "q");
        let k = normed(w_k, KV_HEADS, "raw_k", "k");
        let v = net.linear(x, w_v);
        let v = net.reshape(&v, &[0, KV_HEADS as i64, DIM as i64]);
        net.mark(&v, "v", 3);
        net.b.custom(
            ops::TREE_ATTENTION,
            &[&q, &k, &v, past_k, past_v, past_len, positions, visible],
            &["o"],
            vec![attr_f("scale", Self::scale()), attr_i("window", self.window)],
        );
        net.mark("o", "O", 3);
        let o = net.round("o");
        let o = net.reshape(&o, &[0, (HEADS * DIM) as i64]);
        net.mark(&o, "narrow", 2);
        let y = net.linear(&o, w_o);
        net.mark(&y, "y", 2);
        net.run(functions)
    }

    fn attention(&self, [q, k, v]: [&[f32]; 3]) -> Vec<f64> {
        reference::tree_attention(&AttentionArgs {
            rows: self.tree.rows(),
            heads: HEADS,
            kv_heads: KV_HEADS,
            head_dim: DIM,
            past_len: self.past_len,
            scale: Self::scale(),
            window: self.window,
            q,
            k,
            v,
            past_k: &self.past[0],
            past_v: &self.past[1],
            positions: &self.positions(),
            visible: &self.tree.ancestors(),
        })
    }

    /// The layer in float64; `round` at the places where a bf16 layer rounds.
    fn exact(&self, round: fn(f64) -> f64) -> Vec<f64> {
        let x = wide(&self.x);
        let normed = |w: &[f32]| -> Vec<f32> {
            let y = linear(&x, w, HIDDEN, round);
            let y = rms_norm(&y, DIM, f64::from(EPS), f64::from(SHARP));
            narrow(&y.into_iter().map(round).collect::<Vec<f64>>())
        };
        let (q, k) = (normed(&self.weights[0]), normed(&self.weights[1]));
        let v = narrow(&linear(&x, &self.weights[2], HIDDEN, round));
        let o = self.attention([&q, &k, &v]);
        let o: Vec<f64> = o.into_iter().map(round).collect();
        linear(&o, &self.weights[3], HEADS * DIM, round)
    }
}

fn check(label: &str, layer: &Layer, functions: Vec<FunctionProto>) {
    let found = layer.run(functions);
    let value = |name: &str| found[name].as_slice();
    let linears = [
        ("raw_q", "x", 0, HIDDEN),
        ("raw_k", "x", 1, HIDDEN),
        ("v", "x", 2, HIDDEN),
        ("y", "narrow", 3, HEADS * DIM),
    ];
    for (name, from, at, inputs) in linears {
        let x = if from == "x" { &layer.x } else { value(from) };
        let label = format!("{label}: {name}");
        check_linear(&label, value(name), x, &layer.weights[at], inputs);
    }
    let exact = layer.attention(["q", "k", "v"].map(value));
    let o = assert_close(&format!("{label}: o"), value("O"), &exact, 1e-5);

    let (unrounded, rounded, y) = (layer.exact(|x| x), layer.exact(round), wide(value("y")));
    let predicted = distance(&rounded, &unrounded);
    let (error, apart) = (distance(&y, &unrounded), distance(&y, &rounded));
    println!(
        "{label}: o {o:.1e}; layer (largest, rms): predicted {predicted:?}, found {error:?}, apart {apart:?}"
    );
    assert!(
        error.0 <= 1.25 * predicted.0 && error.1 <= 1.05 * predicted.1,
        "{label}: {error:?}"
    );
    assert!(apart.1 <= 0.25 * predicted.1, "{label}: {apart:?}");
}

#[test]
fn trees() {
    let mut rng = rng(70);
    for (rows, past_len, window) in [(1, 0, 0), (40, 50, 0), (257, 64, 0), (33, 60, 20)] {
        for alike in [false, true] {
            let tree = Tree::random(&mut rng, rows, 16);
            let layer = Layer::new(&mut rng, tree, past_len, window, alike);
            let label = format!("tree of {rows}, {past_len} committed, window {window}, alike {alike}");
            check(&format!("{label}, CPU body"), &layer, bodies::functions());
            check(&format!("{label}, TensorRT body"), &layer, tensorrt::trees());
        }
    }
}

#[test]
fn chains_of_512_rows() {
    let mut rng = rng(71);
    for (window, alike) in [(0, false), (0, true), (100, true)] {
        let layer = Layer::new(&mut rng, Tree::chain(512), 30, window, alike);
        let label = format!("chain of 512, window {window}, alike {alike}");
        check(&format!("{label}, CPU body"), &layer, bodies::functions());
        check(&format!("{label}, TensorRT body"), &layer, tensorrt::chains(512));
    }
}
