//! `context.onnx`: tapped features of committed rows to the drafter's keys and values.

use super::Built;
use super::attention::HeadNorm;
use super::linear::{linear, norm_weight};
use super::net::Net;
use crate::ExportError;
use crate::config::DrafterConfig;
use crate::weights::Store;
use forkcast_engines::manifest::Dtype;
use forkcast_plugins::onnx::Dim::{Fixed, Symbol};
use forkcast_plugins::onnx::ElementType;

/// Builds `context.onnx` for `taps` tapped layers. The features pass `fc` and `hidden_norm` once and no
/// layer norm; keys are normed per head and rotated, as in `draft.onnx`.
pub(crate) fn context(
    config: &DrafterConfig,
    store: &mut Store<'_>,
    dtype: Dtype,
    taps: usize,
) -> Result<Built, ExportError> {
    let mut net = Net::new("context", dtype);
    let (h, a) = (config.hidden, config.attention);
    let features = net.activation("taps", &[Symbol("R"), Fixed(taps * h)]);
    net.input("positions", ElementType::I64, &[Symbol("R")]);
    let c = linear(&mut net, store, &features, "fc.weight", [h, taps * h], None)?;
    let w = norm_weight(&mut net, store, "hidden_norm.weight", h, false)?;
    let c = net.norm(&c, &w, config.eps);
    let tables = net.rope_tables("positions", config.rope);
    let heads = [0, a.kv_heads as i64, a.head_dim as i64];
    for l in 0..config.layers.len() {
        let prefix = format!("layers.{l}.self_attn.");
        let (k, v) = keys_values(&mut net, store, config, &prefix, &c)?;
        let normed = HeadNorm {
            layer: &format!("layers.{l}."),
            head_dim: a.head_dim,
            eps: config.eps,
            add_one: false,
            tables: &tables,
        };
        normed.build(&mut net, store, "k_norm", &k, a.kv_heads, &format!("draft_k.{l}"))?;
        net.reshape_named(&v, &heads, &format!("draft_v.{l}"));
    }
    for l in 0..config.layers.len() {
        for name in ["draft_k", "draft_v"] {
            net.activation_output(
                &format!("{name}.{l}"),
                &[Symbol("R"), Fixed(a.kv_heads), Fixed(a.head_dim)],
            );
        }
    }
    Ok(net.finish())
}

/// Key and value projections. Where `draft.onnx` stacks q, k and v, the tail of that stack is used: the
/// bytes exist once.
fn keys_values(
    net: &mut Net,
    store: &mut Store<'_>,
    config: &DrafterConfig,
    prefix: &str,
    c: &str,
) -> Result<(String, String), ExportError> {
    let (h, a) = (config.hidden, config.attention);
    let kv = a.kv_heads * a.head_dim;
    let named = |name: &str, rows| (format!("{prefix}{name}.weight"), rows);
    let parts = [
        named("q_proj", a.heads * a.head_dim),
        named("k_proj", kv),
        named("v_proj", kv),
    ];
    if let Some(stack) = store.stack(&parts, h, net.dtype)? {
        let name = format!("{prefix}kv_proj.weight");
        let y = net.matmul(c, &name, &stack.tail(1), None, None);
        let mut halves = net.split(&y, &[kv, kv], 1);
        let v = halves.remove(1);
        return Ok((halves.remove(0), v));
    }
    let k = linear(net, store, c, &parts[1].0, [kv, h], None)?;
    let v = linear(net, store, c, &parts[2].0, [kv, h], None)?;
    Ok((k, v))
}
