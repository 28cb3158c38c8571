//! A Gated DeltaNet layer over the rows of a tree (`qwen.md` 3.6, `algorithms.md` 5).

use super::linear::{Projections, linear, norm_weight, project};
use super::net::Net;
use crate::ExportError;
use crate::weights::{Store, Transform};
use forkcast_engines::manifest::{DeltaNet, Dtype};
use forkcast_plugins::ops;

/// Epsilon of the l2 norms: fixed by the architecture, not the configuration's `rms_norm_eps`.
const L2_EPS: f64 = 1e-6;

/// One DeltaNet layer and the values it is connected to.
pub(super) struct DeltaNetLayer<'a> {
    /// What stands before `linear_attn.`.
    pub(super) prefix: &'a str,
    /// Number of the layer: suffix of its graph values.
    pub(super) index: usize,
    /// Heads and kernel.
    pub(super) shape: DeltaNet,
    /// Width of the residual stream.
    pub(super) hidden: usize,
    /// Epsilon of the gated norm.
    pub(super) eps: f32,
    /// Which rows see which, bool `[N, N]`.
    pub(super) ancestors: &'a str,
}

impl DeltaNetLayer<'_> {
    /// `x + deltanet(n)`, where `n` is the normed `x`: `[N, hidden] -> [N, hidden]`. Reads `conv.I` and
    /// `state.I`; makes `conv_in.I`, `dk.I`, `du.I` and `dg.I`.
    pub(super) fn build(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        x: &str,
        n: &str,
    ) -> Result<String, ExportError> {
        let d = self.shape;
        let i = self.index;
        let values = d.value_heads * d.value_dim;
        let conv_in = format!("conv_in.{i}");
        let parts = project(
            net,
            store,
            n,
            &Projections {
                prefix: &format!("{}linear_attn.", self.prefix),
                stacked: "in_proj",
                parts: &[
                    ("in_proj_qkv", d.channels()),
                    ("in_proj_z", values),
                    ("in_proj_b", d.value_heads),
                    ("in_proj_a", d.value_heads),
                ],
                inputs: self.hidden,
                output: Some(&conv_in),
            },
        )?;
        let [qkv, z, b, a] = parts.as_slice() else {
            unreachable!("four projections were asked for");
        };
        let (q, k, v) = self.convolved(net, store, qkv)?;
        let (g, beta) = self.gates(net, store, a, b)?;
        let o = net.fresh("delta");
        net.custom(
            ops::TREE_DELTA_RULE,
            &[&q, &k, &v, &g, &beta, &format!("state.{i}"), self.ancestors],
            &[&o, &format!("du.{i}"), &format!("dg.{i}")],
            Vec::new(),
        );
        let w = norm_weight(net, store, &self.name("norm.weight"), d.value_dim, false)?;
        let o = net.norm_f32(&o, &w, self.eps);
        let z = net.widen(z);
        let z = net.silu(&z);
        let z = net.reshape(&z, &[0, d.value_heads as i64, d.value_dim as i64]);
        let y = net.op("Mul", &[&o, &z]);
        let y = net.reshape(&y, &[0, values as i64]);
        let y = net.narrow(&y);
        linear(
            net,
            store,
            &y,
            &self.name("out_proj.weight"),
            [self.hidden, values],
            Some(x),
        )
    }

    fn name(&self, tail: &str) -> String {
        format!("{}linear_attn.{tail}", self.prefix)
    }

    /// Convolution, then float32 q (normed and scaled), k (normed, called `dk.I`) and v per head.
    fn convolved(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        conv_in: &str,
    ) -> Result<(String, String, String), ExportError> {
        let d = self.shape;
        let i = self.index;
        let name = self.name("conv1d.weight");
        let mut placed = store.place(&name, &[d.channels(), 1, d.kernel], net.dtype, Transform::None)?;
        // Depthwise: the middle dimension is 1, so the same bytes are [CH, K].
        placed.data.shape = vec![d.channels(), d.kernel];
        let w = net.weight(&name, &placed);
        let c = net.fresh("conv");
        net.custom(
            ops::TREE_CAUSAL_CONV,
            &[conv_in, &format!("conv.{i}"), &w, self.ancestors],
            &[&c],
            Vec::new(),
        );
        let c = net.widen(&c);
        let keys = d.key_heads * d.key_dim;
        let parts = net.split(&c, &[keys, keys, d.value_heads * d.value_dim], 1);
        let [q, k, v] = parts.as_slice() else {
            unreachable!("three parts were asked for");
        };
        let heads = [0, d.key_heads as i64, d.key_dim as i64];
        let (q, k) = (net.reshape(q, &heads), net.reshape(k, &heads));
        let v = net.reshape(v, &[0, d.value_heads as i64, d.value_dim as i64]);
        // x / sqrt(sum x² + eps) is an RMS norm with eps / dk, times dk^-1/2; q carries another dk^-1/2.
        let dk = d.key_dim as f64;
        let eps = (L2_EPS / dk) as f32;
        let q_scale = net.fill(d.key_dim, (1.0 / dk) as f32);
        let k_scale = net.fill(d.key_dim, (1.0 / dk.sqrt()) as f32);
        let q = net.norm_f32(&q, &q_scale, eps);
        let dk_name = format!("dk.{i}");
        net.norm_f32_named(&k, &k_scale, eps, &dk_name);
        Ok((q, dk_name, v))
    }

    /// Log decay `g = -exp(A_log) softplus(a + dt_bias)` and step `beta = sigmoid(b)`, float32 `[N, HV]`.
    fn gates(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        a: &str,
        b: &str,
    ) -> Result<(String, String), ExportError> {
        let heads = [self.shape.value_heads];
        let mut float = |net: &mut Net, tail: &str, transform| -> Result<String, ExportError> {
            let name = self.name(tail);
            let placed = store.place(&name, &heads, Dtype::F32, transform)?;
            Ok(net.weight(&name, &placed))
        };
        let bias = float(net, "dt_bias", Transform::None)?;
        let decay = float(net, "A_log", Transform::NegExp)?;
        let a = net.widen(a);
        let a = net.op("Add", &[&a, &bias]);
        let a = net.op("Softplus", &[&a]);
        let g = net.op("Mul", &[&a, &decay]);
        let b = net.widen(b);
        let beta = net.op("Sigmoid", &[&b]);
        Ok((g, beta))
    }
}
