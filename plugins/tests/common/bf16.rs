//! bf16 linear layers emulated in float32 graphs, and the same arithmetic in float64.
//!
//! ONNX Runtime's CPU provider has no bf16 Gemm; a Gemm of tensor cores multiplies bf16 numbers exactly, sums in
//! float32 and rounds the result to bf16. That is what a float32 Gemm between Cast pairs does.

use super::session::{Data, Take, run, session};
use forkcast_plugins::onnx::{self, Dim, ElementType, GraphBuilder, attr_f, attr_i, proto::FunctionProto};
use half::bf16;
use prost::Message;
use std::collections::HashMap;

/// Rounding to bf16 changes a number by at most this part of it.
pub const UNIT: f64 = 1.0 / 256.0;

/// The nearest bf16 number.
pub fn round(x: f64) -> f64 {
    bf16::from_f64(x).to_f64()
}

pub fn round_all(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| bf16::from_f32(*x).to_f32()).collect()
}

pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|x| f64::from(*x)).collect()
}

pub fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|x| *x as f32).collect()
}

/// `x Wᵀ` for x [N,inputs] and W [outputs,inputs], each sum passed through `each(sum, sum of absolute products)`.
fn products(x: &[f64], w: &[f32], inputs: usize, each: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let row = |x: &[f64], w: &[f32]| {
        let terms = || x.iter().zip(w).map(|(x, w)| x * f64::from(*w));
        each(terms().sum(), terms().map(f64::abs).sum())
    };
    x.chunks(inputs)
        .flat_map(|x| w.chunks(inputs).map(move |w| (x, w)))
        .map(|(x, w)| row(x, w))
        .collect()
}

/// `x Wᵀ`, results through `round`.
pub fn linear(x: &[f64], w: &[f32], inputs: usize, round: fn(f64) -> f64) -> Vec<f64> {
    products(x, w, inputs, |sum, _| round(sum))
}

/// How far a bf16 linear layer may lie from the exact `x Wᵀ`: the rounding of the result, and of float32 sums in
/// any order (which the result's rounding can enlarge).
fn linear_bound(x: &[f64], w: &[f32], inputs: usize) -> Vec<f64> {
    let sums = inputs as f64 * f64::from(f32::EPSILON) / 2.0;
    products(x, w, inputs, |sum, absolute| {
        UNIT * sum.abs() + (1.0 + UNIT) * sums * absolute
    })
}

/// Asserts that `found` are bf16 numbers within [`linear_bound`] of the exact `x Wᵀ`.
pub fn check_linear(label: &str, found: &[f32], x: &[f32], w: &[f32], inputs: usize) {
    let x = wide(x);
    let exact = linear(&x, w, inputs, |y| y);
    let bounds = linear_bound(&x, w, inputs);
    for ((found, exact), bound) in wide(found).into_iter().zip(&exact).zip(&bounds) {
        let error = (found - exact).abs();
        assert!(error <= *bound, "{label}: {found} for {exact}, bound {bound:.2e}");
        assert!(round(found) == found, "{label}: {found} is no bf16 number");
    }
}

/// RMS norm of rows of `width`, times `scale`.
pub fn rms_norm(x: &[f64], width: usize, eps: f64, scale: f64) -> Vec<f64> {
    let norm = |row: &[f64]| (row.iter().map(|x| x * x).sum::<f64>() / width as f64 + eps).sqrt();
    x.chunks(width)
        .flat_map(|row| row.iter().map(move |x| scale * x / norm(row)))
        .collect()
}

/// Columns `from..to` of rows of `width`.
pub fn columns(x: &[f64], width: usize, from: usize, to: usize) -> Vec<f64> {
    x.chunks(width).flat_map(|row| row[from..to].to_vec()).collect()
}

/// Builds a float32 graph with bf16 linear layers; every value that is marked is an output.
pub struct LayerGraph {
    pub b: GraphBuilder,
    feeds: Vec<(&'static str, Data)>,
    outputs: Vec<(&'static str, usize)>,
}

impl LayerGraph {
    pub fn new() -> Self {
        Self {
            b: GraphBuilder::new("layer"),
            feeds: Vec::new(),
            outputs: Vec::new(),
        }
    }

    pub fn input(&mut self, name: &'static str, data: Data) -> &'static str {
        let symbols: Vec<String> = (0..data.rank()).map(|axis| format!("{name}_{axis}")).collect();
        let dims: Vec<Dim<'_>> = symbols.iter().map(|s| Dim::Symbol(s)).collect();
        self.b.input(name, data.element(), &dims);
        self.feeds.push((name, data));
        name
    }

    /// Makes float32 `x` an output called `name`.
    pub fn mark(&mut self, x: &str, name: &'static str, rank: usize) {
        self.b.named("Identity", &[x], &[name], vec![]);
        self.outputs.push((name, rank));
    }

    /// `x` rounded to bf16.
    pub fn round(&mut self, x: &str) -> String {
        let short = vec![attr_i("to", i64::from(ElementType::Bf16.onnx()))];
        let short = self.b.node("Cast", &[x], short);
        let long = vec![attr_i("to", i64::from(ElementType::F32.onnx()))];
        self.b.node("Cast", &[&short], long)
    }

    /// `x Wᵀ` as a bf16 linear layer.
    pub fn linear(&mut self, x: &str, w: &str) -> String {
        let (x, w) = (self.round(x), self.round(w));
        let y = self.b.node("Gemm", &[&x, &w], vec![attr_i("transB", 1)]);
        self.round(&y)
    }

    pub fn reshape(&mut self, x: &str, dims: &[i64]) -> String {
        let shape = self.b.const_i64(dims, &[dims.len() as i64]);
        self.b.node("Reshape", &[x, &shape], vec![])
    }

    /// RMS norm over the last axis, of size `width`, times `scale`.
    pub fn rms_norm(&mut self, x: &str, width: usize, eps: f32, scale: f32) -> String {
        let scale = self.b.const_f32(&vec![scale; width], &[width as i64]);
        let eps = vec![attr_f("epsilon", eps)];
        self.b.node("RMSNormalization", &[x, &scale], eps)
    }

    pub fn split(&mut self, x: &str, sizes: &[usize]) -> Vec<String> {
        let sizes: Vec<i64> = sizes.iter().map(|s| *s as i64).collect();
        let lengths = self.b.const_i64(&sizes, &[sizes.len() as i64]);
        self.b
            .nodes("Split", &[x, &lengths], sizes.len(), vec![attr_i("axis", 1)])
    }

    /// Runs the graph with these bodies; the marked values by name.
    pub fn run(mut self, functions: Vec<FunctionProto>) -> HashMap<&'static str, Vec<f32>> {
        for (name, rank) in &self.outputs {
            let symbols: Vec<String> = (0..*rank).map(|axis| format!("{name}_{axis}")).collect();
            let dims: Vec<Dim<'_>> = symbols.iter().map(|s| Dim::Symbol(s)).collect();
            self.b.output(name, ElementType::F32, &dims);
        }
        let bytes = onnx::model(self.b.finish(), functions).encode_to_vec();
        let mut session = session(&bytes, Take::Body).expect("the model loads");
        let values = run(&mut session, &self.feeds).expect("a run");
        self.outputs.iter().map(|(name, _)| *name).zip(values).collect()
    }
}

/// Largest |a - b| and its root mean square.
pub fn distance(a: &[f64], b: &[f64]) -> (f64, f64) {
    assert_eq!(a.len(), b.len());
    let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
    let largest = squares.clone().fold(0.0f64, |m, s| if s <= m { m } else { s });
    (largest.sqrt(), (squares.sum::<f64>() / a.len() as f64).sqrt())
}
