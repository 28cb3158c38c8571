//! `target.onnx`: row embeddings to final hidden states, taps, and what a commit needs.

use super::Built;
use super::attention::AttentionLayer;
use super::deltanet::DeltaNetLayer;
use super::linear::{mlp, norm_weight};
use super::net::{Net, RopeTables};
use crate::ExportError;
use crate::config::{LayerKind, TargetConfig};
use crate::weights::Store;
use forkcast_engines::manifest::{Dtype, Family};
use forkcast_plugins::onnx::Dim::{Fixed, Symbol};
use forkcast_plugins::onnx::ElementType;

/// Builds `target.onnx`; `taps` are the layers whose outputs it returns.
pub(crate) fn target(
    config: &TargetConfig,
    store: &mut Store<'_>,
    dtype: Dtype,
    taps: &[usize],
) -> Result<Built, ExportError> {
    let mut net = Net::new("target", dtype);
    let add_one = config.family == Family::Qwen35;
    let mut x = net.activation("x", &[Symbol("N"), Fixed(config.hidden)]);
    net.input("positions", ElementType::I64, &[Symbol("N")]);
    net.input("ancestors", ElementType::Bool, &[Symbol("N"), Symbol("N")]);
    net.input("past_len", ElementType::I64, &[Fixed(1)]);
    for (i, kind) in config.layers.iter().enumerate() {
        declare(&mut net, config, i, *kind);
    }
    let tables = config
        .layers
        .contains(&LayerKind::Attention)
        .then(|| net.rope_tables("positions", config.rope));
    let mut outputs = vec![String::new(); config.layers.len()];
    for (i, kind) in config.layers.iter().enumerate() {
        let prefix = format!("layers.{i}.");
        let name = format!("{prefix}input_layernorm.weight");
        let w = norm_weight(&mut net, store, &name, config.hidden, add_one)?;
        let n = net.norm(&x, &w, config.eps);
        x = match (kind, &tables, config.delta) {
            (LayerKind::Attention, Some(tables), _) => {
                attention(&mut net, store, config, i, tables, [&x, &n])?
            }
            (LayerKind::DeltaNet, _, Some(shape)) => {
                let layer = DeltaNetLayer {
                    prefix: &prefix,
                    index: i,
                    shape,
                    hidden: config.hidden,
                    eps: config.eps,
                    ancestors: "ancestors",
                };
                layer.build(&mut net, store, &x, &n)?
            }
            _ => unreachable!("tables and DeltaNet shapes exist where layers need them"),
        };
        let name = format!("{prefix}post_attention_layernorm.weight");
        let w = norm_weight(&mut net, store, &name, config.hidden, add_one)?;
        let n = net.norm(&x, &w, config.eps);
        x = mlp(
            &mut net,
            store,
            &prefix,
            &x,
            &n,
            [config.hidden, config.intermediate],
        )?;
        outputs[i].clone_from(&x);
    }
    let w = norm_weight(&mut net, store, "norm.weight", config.hidden, add_one)?;
    net.norm_named(&x, &w, config.eps, "hidden");
    net.output("hidden", ElementType::F32, &[Symbol("N"), Fixed(config.hidden)]);
    if !taps.is_empty() {
        let parts: Vec<&str> = taps.iter().map(|t| outputs[*t].as_str()).collect();
        net.concat_named(&parts, 1, "taps");
        net.activation_output("taps", &[Symbol("N"), Fixed(taps.len() * config.hidden)]);
    }
    for (i, kind) in config.layers.iter().enumerate() {
        declare_outputs(&mut net, config, i, *kind);
    }
    Ok(net.finish())
}

fn attention(
    net: &mut Net,
    store: &mut Store<'_>,
    config: &TargetConfig,
    i: usize,
    tables: &RopeTables,
    [x, n]: [&str; 2],
) -> Result<String, ExportError> {
    let hybrid = config.family == Family::Qwen35;
    let layer = AttentionLayer {
        prefix: &format!("layers.{i}."),
        shape: config.attention,
        hidden: config.hidden,
        eps: config.eps,
        gated: hybrid,
        add_one: hybrid,
        tables,
        past: [&format!("past_k.{i}"), &format!("past_v.{i}")],
        past_len: "past_len",
        positions: "positions",
        visible: "ancestors",
        window: 0,
        outputs: Some([&format!("k.{i}"), &format!("v.{i}")]),
    };
    layer.build(net, store, x, n)
}

/// Declares caches and states of layer `i`.
fn declare(net: &mut Net, config: &TargetConfig, i: usize, kind: LayerKind) {
    match (kind, config.delta) {
        (LayerKind::DeltaNet, Some(d)) => {
            net.activation(&format!("conv.{i}"), &[Fixed(d.kernel - 1), Fixed(d.channels())]);
            net.input(
                &format!("state.{i}"),
                ElementType::F32,
                &[Fixed(d.value_heads), Fixed(d.key_dim), Fixed(d.value_dim)],
            );
        }
        _ => {
            let a = config.attention;
            for name in ["past_k", "past_v"] {
                net.activation(
                    &format!("{name}.{i}"),
                    &[Symbol("C"), Fixed(a.kv_heads), Fixed(a.head_dim)],
                );
            }
        }
    }
}

/// Declares what layer `i` makes for a commit.
fn declare_outputs(net: &mut Net, config: &TargetConfig, i: usize, kind: LayerKind) {
    match (kind, config.delta) {
        (LayerKind::DeltaNet, Some(d)) => {
            net.activation_output(&format!("conv_in.{i}"), &[Symbol("N"), Fixed(d.channels())]);
            net.output(
                &format!("dk.{i}"),
                ElementType::F32,
                &[Symbol("N"), Fixed(d.key_heads), Fixed(d.key_dim)],
            );
            net.output(
                &format!("du.{i}"),
                ElementType::F32,
                &[Symbol("N"), Fixed(d.value_heads), Fixed(d.value_dim)],
            );
            net.output(
                &format!("dg.{i}"),
                ElementType::F32,
                &[Symbol("N"), Fixed(d.value_heads)],
            );
        }
        _ => {
            let a = config.attention;
            for name in ["k", "v"] {
                net.activation_output(
                    &format!("{name}.{i}"),
                    &[Symbol("N"), Fixed(a.kv_heads), Fixed(a.head_dim)],
                );
            }
        }
    }
}
