//! Softmax attention of targets and drafters (`qwen.md` 3.3 and 3.4).

use super::linear::{Projections, linear, norm_weight, project};
use super::net::{Net, RopeTables};
use crate::ExportError;
use crate::weights::Store;
use forkcast_engines::manifest::Attention;
use forkcast_plugins::onnx::{attr_f, attr_i};
use forkcast_plugins::ops;

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
        let (q, gate) = if self.gated {
            let both = net.reshape(q, &[0, h, 1, 2 * d]);
            let halves = net.split(&both, &[head_dim, head_dim], 3);
            let gate = net.reshape(&halves[1], &[0, h, d]);
            (halves[0].clone(), Some(gate))
        } else {
            (net.reshape(q, &[0, h, 1, d]), None)
        };
        let q = heads_normed(net, store, self, "q_norm", &q)?;
        let q = net.reshape(&q, &[0, h, d]);
        let k = net.reshape(k, &[0, kv_heads as i64, 1, d]);
        let k = heads_normed(net, store, self, "k_norm", &k)?;
        let [k_name, v_name] = match self.outputs {
            Some([k, v]) => [k.to_owned(), v.to_owned()],
            None => [net.fresh("k"), net.fresh("v")],
        };
        net.reshape_named(&k, &[0, kv_heads as i64, d], &k_name);
        net.reshape_named(v, &[0, kv_heads as i64, d], &v_name);
        let o = net.fresh("attention");
        let [past_k, past_v] = self.past;
        net.custom(
            ops::TREE_ATTENTION,
            &[
                &q,
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
        let mut o = o;
        if let Some(gate) = gate {
            let gate = net.op("Sigmoid", &[&gate]);
            o = net.op("Mul", &[&o, &gate]);
        }
        let o = net.reshape(&o, &[0, h * d]);
        let name = format!("{}self_attn.o_proj.weight", self.prefix);
        linear(net, store, &o, &name, [self.hidden, heads * head_dim], Some(x))
    }
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

/// Norm per head, then rotation: `[N, heads, 1, D]`.
fn heads_normed(
    net: &mut Net,
    store: &mut Store<'_>,
    layer: &AttentionLayer<'_>,
    name: &str,
    x: &str,
) -> Result<String, ExportError> {
    let name = format!("{}self_attn.{name}.weight", layer.prefix);
    let w = norm_weight(net, store, &name, layer.shape.head_dim, layer.add_one)?;
    let x = net.norm(x, &w, layer.eps);
    Ok(net.rotate(&x, layer.tables, layer.shape.head_dim))
}
