//! What a matrix product by itself reaches on this host: the bound of every stage that is arithmetic.

use super::library;
use crate::bundle::OpenError;
use forkcast_plugins::onnx::{self, Dim, ElementType, GraphBuilder};
use ort::value::Tensor;
use prost::Message;
use std::time::Instant;

/// Sizes of the product: rows by inner by columns.
const SIZE: [usize; 3] = [512, 1024, 1024];
/// Least time that a measurement takes, in seconds.
const LEAST: f64 = 0.05;

/// Floating-point operations (two a multiply-add) per second of a float32 `MatMul` of 512 x 1024 by 1024 x 1024 in ONNX
/// Runtime on `threads` threads; the best of five measurements.
///
/// # Errors
/// The library is missing or fails.
pub fn gemm_rate(threads: usize) -> Result<f64, OpenError> {
    let library = library::load(None, threads)?;
    let run = || -> Result<f64, ort::Error> {
        let mut session = library.builder(threads)?.commit_from_memory(&model())?;
        let [m, k, n] = SIZE;
        let numbers = |len: usize| {
            (0..len)
                .map(|i| (i % 7) as f32 * 0.25 - 0.75)
                .collect::<Vec<f32>>()
        };
        let a = Tensor::from_array(([m, k], numbers(m * k)))?;
        let b = Tensor::from_array(([k, n], numbers(k * n)))?;
        let mut best = 0.0f64;
        for _ in 0..5 {
            let (begin, mut count) = (Instant::now(), 0.0);
            while begin.elapsed().as_secs_f64() < LEAST {
                session.run(ort::inputs!["a" => &a, "b" => &b])?;
                count += 1.0;
            }
            let rate = count * 2.0 * (m * k * n) as f64 / begin.elapsed().as_secs_f64();
            best = best.max(rate);
        }
        Ok(best)
    };
    run().map_err(|e| OpenError::Library(e.to_string()))
}

fn model() -> Vec<u8> {
    let mut g = GraphBuilder::new("gemm");
    let dims = |a: usize, b: usize| [Dim::Symbol(["m", "k"][a]), Dim::Symbol(["k", "n"][b])];
    g.input("a", ElementType::F32, &dims(0, 0));
    g.input("b", ElementType::F32, &dims(1, 1));
    g.named("MatMul", &["a", "b"], &["c"], vec![]);
    g.output("c", ElementType::F32, &dims(0, 1));
    onnx::model(g.finish(), Vec::new()).encode_to_vec()
}
