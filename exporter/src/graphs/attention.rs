//! Softmax attention of targets and drafters (`qwen.md` 3.3 and 3.4).

use super::linear::{Projections, linear, norm_weight, project};
use super::net::{Net, RopeTables};
use crate::ExportError;
use crate::weights::Store;
use forkcast_engines::manifest::Attention;
use forkcast_plugins::onnx::{attr_f, attr_i};
use forkcast_plugins::ops::{self, fused};

/// One attention layer and the values it is connected to.
pub(super) struct AttentionLayer<'a> {
    /// What stands before `self_attn.`, for example `layers.3.`.
    pub(super) prefix: &'a str,
    /// Heads.
    pub(super) shape: Attention,
    /// Width of the residual stream.
    pub(super) hidden: usize,
    /// Epsilon of the head norms.
    pub(super) eps: f32,
    /// `q_proj` holds query and output gate per head.
    pub(super) gated: bool,
    /// Head norms multiply by `1 + w`.
    pub(super) add_one: bool,
    /// Rotary tables.
    pub(super) tables: &'a RopeTables,
    /// Committed keys and values `[C, KVH, D]`.
    pub(super) past: [&'a str; 2],
    /// Number of committed rows, i64 `[1]`.
    pub(super) past_len: &'a str,
    /// Positions, i64 `[N]`.
    pub(super) positions: &'a str,
    /// Which rows see which, bool `[N, N]`.
    pub(super) visible: &'a str,
    /// Width of the window; 0 for none.
    pub(super) window: usize,
    /// Names of the new keys and values where they are graph outputs.
    pub(super) outputs: Option<[&'a str; 2]>,
}

impl AttentionLayer<'_> {
    /// `x + attention(n)`, where `n` is the normed `x`: `[N, hidden] -> [N, hidden]`.
    pub(super) fn build(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        x: &str,
        n: &str,
    ) -> Result<String, ExportError> {
        let Attention {
            heads,
            kv_heads,
            head_dim,
        } = self.shape;
        let (h, d) = (heads as i64, head_dim as i64);
        let parts = qkv(net, store, self, n)?;
        let [q, k, v] = parts.as_slice() else {
            unreachable!("three projections were asked for");
        };
        let [k_name, v_name] = match self.outputs {
            Some([k, v]) => [k.to_owned(), v.to_owned()],
            None => [net.fresh("k"), net.fresh("v")],
        };
        let normed = HeadNorm {
            layer: self.prefix,
            head_dim,
            eps: self.eps,
            add_one: self.add_one,
            tables: self.tables,
        };
        let (q_name, gate) = self.queries(net, store, &normed, q)?;
        normed.build(net, store, "k_norm", k, kv_heads, &k_name)?;
        net.reshape_named(v, &[0, kv_heads as i64, d], &v_name);
        let o = net.fresh("attention");
        let [past_k, past_v] = self.past;
        net.custom(
            ops::TREE_ATTENTION,
            &[
                &q_name,
                &k_name,
                &v_name,
                past_k,
                past_v,
                self.past_len,
                self.positions,
                self.visible,
            ],
            &[&o],
            vec![
                attr_f("scale", (1.0 / (head_dim as f64).sqrt()) as f32),
                attr_i("window", self.window as i64),
            ],
        );
        let o = match gate {
            Some(Gate::Within(raw)) => {
                let y = net.fresh("gated");
                net.fused(fused::SIGMOID_GATE, &[&o, &raw], &[&y], Vec::new());
                y
            }
            Some(Gate::Alone(gate)) => {
                let gate = net.op("Sigmoid", &[&gate]);
                let o = net.op("Mul", &[&o, &gate]);
                net.reshape(&o, &[0, h * d])
            }
            None => net.reshape(&o, &[0, h * d]),
        };
        let name = format!("{}self_attn.o_proj.weight", self.prefix);
        linear(net, store, &o, &name, [self.hidden, heads * head_dim], Some(x))
    }
}

impl AttentionLayer<'_> {
    /// Normed and rotated queries `[N, QH, D]` of the projection `q`, and the output gate where there is one.
    fn queries(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        normed: &HeadNorm<'_>,
        q: &str,
    ) -> Result<(String, Option<Gate>), ExportError> {
        let (heads, head_dim) = (self.shape.heads, self.shape.head_dim);
        let name = net.fresh("q");
        if !self.gated || net.fuses() {
            normed.build(net, store, "q_norm", q, heads, &name)?;
            return Ok((name, self.gated.then(|| Gate::Within(q.to_owned()))));
        }
        let (h, d) = (heads as i64, head_dim as i64);
        let both = net.reshape(q, &[0, h, 1, 2 * d]);
        let halves = net.split(&both, &[head_dim, head_dim], 3);
        let gate = net.reshape(&halves[1], &[0, h, d]);
        normed.build(net, store, "q_norm", &halves[0], heads, &name)?;
        Ok((name, Some(Gate::Alone(gate))))
    }
}

/// The output gate of a layer, before its sigmoid.
enum Gate {
    /// The second half of every head of this projection.
    Within(String),
    /// This value, `[N, QH, D]`.
    Alone(String),
}

fn qkv(
    net: &mut Net,
    store: &mut Store<'_>,
    layer: &AttentionLayer<'_>,
    n: &str,
) -> Result<Vec<String>, ExportError> {
    let gates = if layer.gated { 2 } else { 1 };
    let kv = layer.shape.kv_heads * layer.shape.head_dim;
    project(
        net,
        store,
        n,
        &Projections {
            prefix: &format!("{}self_attn.", layer.prefix),
            stacked: "qkv_proj",
            parts: &[
                ("q_proj", gates * layer.shape.heads * layer.shape.head_dim),
                ("k_proj", kv),
                ("v_proj", kv),
            ],
            inputs: layer.hidden,
            output: None,
        },
    )
}

/// RMS norm of every head, then rotation.
pub(super) struct HeadNorm<'a> {
    /// What stands before `self_attn.`.
    pub(super) layer: &'a str,
    /// D.
    pub(super) head_dim: usize,
    /// Epsilon of the norm.
    pub(super) eps: f32,
    /// The norm multiplies by `1 + w`.
    pub(super) add_one: bool,
    /// Rotary tables.
    pub(super) tables: &'a RopeTables,
}

impl HeadNorm<'_> {
    /// Makes `output` `[N, heads, D]` of `x` `[N, heads * S]`: of every head the first D numbers (fused; else S = D).
    pub(super) fn build(
        &self,
        net: &mut Net,
        store: &mut Store<'_>,
        norm: &str,
        x: &str,
        heads: usize,
        output: &str,
    ) -> Result<(), ExportError> {
        let (d, h) = (self.head_dim, heads as i64);
        let name = format!("{}self_attn.{norm}.weight", self.layer);
        let w = norm_weight(net, store, &name, d, self.add_one)?;
        if net.fuses() {
            let rotary = if self.tables.dims == d {
                0
            } else {
                self.tables.dims as i64
            };
            let attributes = vec![
                attr_i("heads", h),
                attr_i("rotary", rotary),
                attr_f("epsilon", self.eps),
            ];
            let inputs = [x, &w, &self.tables.cos, &self.tables.sin];
            net.fused(fused::HEAD_NORM_ROPE, &inputs, &[output], attributes);
            return Ok(());
        }
        let x = net.reshape(x, &[0, h, 1, d as i64]);
        let x = net.norm(&x, &w, self.eps);
        let x = net.rotate(&x, self.tables, d);
        net.reshape_named(&x, &[0, h, d as i64], output);
        Ok(())
    }
}
