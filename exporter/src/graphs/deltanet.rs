//! A Gated DeltaNet layer over the rows of a tree (`qwen.md` 3.6, `algorithms.md` 5).

use super::linear::{Projections, linear, norm_weight, project};
use super::net::Net;
use crate::ExportError;
use crate::weights::{Store, Transform};
use forkcast_engines::manifest::{DeltaNet, Dtype};
use forkcast_plugins::onnx::{attr_f, attr_i};
use forkcast_plugins::ops::{self, fused};

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
        let c = self.convolved(net, store, qkv)?;
        let [q, k, v, g, beta] = self.inputs(net, store, &c, [a, b])?;
        let o = net.fresh("delta");
        net.custom(
            ops::TREE_DELTA_RULE,
            &[&q, &k, &v, &g, &beta, &format!("state.{i}"), self.ancestors],
            &[&o, &format!("du.{i}"), &format!("dg.{i}")],
            Vec::new(),
        );
        let y = self.gated_norm(net, store, &o, z)?;
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

    /// `w * rms_norm(o) * silu(z)`: `[N, values]`.
    fn gated_norm(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        o: &str,
        z: &str,
    ) -> Result<String, ExportError> {
        let d = self.shape;
        let w = norm_weight(net, store, &self.name("norm.weight"), d.value_dim, false)?;
        if net.fuses() {
            let y = net.fresh("gated_norm");
            net.fused(
                fused::GATED_NORM,
                &[o, z, &w],
                &[&y],
                vec![attr_f("epsilon", self.eps)],
            );
            return Ok(y);
        }
        let o = net.norm_f32(o, &w, self.eps);
        let z = net.widen(z);
        let z = net.silu(&z);
        let z = net.reshape(&z, &[0, d.value_heads as i64, d.value_dim as i64]);
        let y = net.op("Mul", &[&o, &z]);
        let y = net.reshape(&y, &[0, (d.value_heads * d.value_dim) as i64]);
        Ok(net.narrow(&y))
    }

    /// The convolution over `[N, CH]`, in float32.
    fn convolved(&self, net: &mut Net, store: &mut Store<'_>, conv_in: &str) -> Result<String, ExportError> {
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
        Ok(net.widen(&c))
    }

    /// What the delta rule takes, float32: q (normed and scaled), k (normed, called `dk.I`) and v per head, the log decay
    /// and the step.
    fn inputs(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        c: &str,
        [a, b]: [&str; 2],
    ) -> Result<[String; 5], ExportError> {
        let d = self.shape;
        let (bias, decay) = self.gate_weights(net, store)?;
        if net.fuses() {
            let [q, v, g, beta] = ["q", "v", "g", "beta"].map(|name| net.fresh(name));
            let k = format!("dk.{}", self.index);
            let attributes = vec![
                attr_i("key_heads", d.key_heads as i64),
                attr_i("key_dim", d.key_dim as i64),
            ];
            let outputs = [&q, &k, &v, &g, &beta].map(String::as_str);
            net.fused(
                fused::DELTA_INPUTS,
                &[c, a, b, &bias, &decay],
                &outputs,
                attributes,
            );
            return Ok([q, k, v, g, beta]);
        }
        let (q, k, v) = self.heads(net, c);
        let a = net.widen(a);
        let a = net.op("Add", &[&a, &bias]);
        let a = net.op("Softplus", &[&a]);
        let g = net.op("Mul", &[&a, &decay]);
        let b = net.widen(b);
        let beta = net.op("Sigmoid", &[&b]);
        Ok([q, k, v, g, beta])
    }

    /// q, k and v of every head, out of the convolution's result.
    fn heads(&self, net: &mut Net, c: &str) -> (String, String, String) {
        let d = self.shape;
        let i = self.index;
        let keys = d.key_heads * d.key_dim;
        let parts = net.split(c, &[keys, keys, d.value_heads * d.value_dim], 1);
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
        (q, dk_name, v)
    }

    /// `dt_bias` and `-exp(A_log)`, float32 `[HV]`: log decay `g = -exp(A_log) softplus(a + dt_bias)`.
    fn gate_weights(&self, net: &mut Net, store: &mut Store<'_>) -> Result<(String, String), ExportError> {
        let heads = [self.shape.value_heads];
        let mut float = |net: &mut Net, tail: &str, transform| -> Result<String, ExportError> {
            let name = self.name(tail);
            let placed = store.place(&name, &heads, Dtype::F32, transform)?;
            Ok(net.weight(&name, &placed))
        };
        let bias = float(net, "dt_bias", Transform::None)?;
        let decay = float(net, "A_log", Transform::NegExp)?;
        Ok((bias, decay))
    }
}
