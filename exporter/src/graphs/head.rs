//! `head.onnx`: hidden states to logits.

use super::Built;
use super::net::Net;
use crate::config::TargetConfig;
use crate::weights::Matrix;
use forkcast_engines::manifest::Dtype;
use forkcast_plugins::onnx::Dim::{Fixed, Symbol};
use forkcast_plugins::onnx::{ElementType, attr_i};

/// Builds `head.onnx` over the matrix `weight` `[V, H]` (the embedding itself when tied).
pub(crate) fn head(config: &TargetConfig, weight: &Matrix, dtype: Dtype) -> Built {
    let mut net = Net::new("head", dtype);
    let hidden = net.input("hidden", ElementType::F32, &[Symbol("R"), Fixed(config.hidden)]);
    let name = if config.tied == Some(true) {
        "embed_tokens.weight"
    } else {
        "lm_head.weight"
    };
    let x = net.narrow(&hidden);
    if dtype == Dtype::F32 {
        net.matmul(&x, name, weight, None, Some("logits"));
    } else {
        let y = net.matmul(&x, name, weight, None, None);
        let to = i64::from(ElementType::F32.onnx());
        net.named("Cast", &[&y], "logits", vec![attr_i("to", to)]);
    }
    net.output("logits", ElementType::F32, &[Symbol("R"), Fixed(config.vocab)]);
    net.finish()
}
