//! `commit.onnx`: recurrent and conv states after the accepted path (hybrid targets only).

use super::Built;
use super::net::Net;
use crate::config::{LayerKind, TargetConfig};
use forkcast_engines::manifest::Dtype;
use forkcast_plugins::onnx::Dim::{Fixed, Symbol};
use forkcast_plugins::onnx::ElementType;
use forkcast_plugins::ops;

/// Builds `commit.onnx`; `None` for targets without recurrent states.
pub(crate) fn commit(config: &TargetConfig, dtype: Dtype) -> Option<Built> {
    let d = config.delta?;
    if !config.layers.contains(&LayerKind::DeltaNet) {
        return None;
    }
    let mut net = Net::new("commit", dtype);
    net.input("path", ElementType::I64, &[Symbol("P")]);
    let layers = || {
        config
            .layers
            .iter()
            .enumerate()
            .filter(|(_, k)| **k == LayerKind::DeltaNet)
            .map(|(i, _)| i)
    };
    let state = [Fixed(d.value_heads), Fixed(d.key_dim), Fixed(d.value_dim)];
    let conv = [Fixed(d.kernel - 1), Fixed(d.channels())];
    for i in layers() {
        net.input(&format!("state.{i}"), ElementType::F32, &state);
        net.activation(&format!("conv.{i}"), &conv);
        net.activation(&format!("conv_in.{i}"), &[Symbol("N"), Fixed(d.channels())]);
        let rows = |heads, dim| [Symbol("N"), Fixed(heads), Fixed(dim)];
        net.input(
            &format!("dk.{i}"),
            ElementType::F32,
            &rows(d.key_heads, d.key_dim),
        );
        net.input(
            &format!("du.{i}"),
            ElementType::F32,
            &rows(d.value_heads, d.value_dim),
        );
        net.input(
            &format!("dg.{i}"),
            ElementType::F32,
            &[Symbol("N"), Fixed(d.value_heads)],
        );
    }
    for i in layers() {
        net.custom(
            ops::DELTA_BRANCH_UPDATE,
            &[
                &format!("state.{i}"),
                &format!("dk.{i}"),
                &format!("du.{i}"),
                &format!("dg.{i}"),
                "path",
            ],
            &[&format!("new_state.{i}")],
            Vec::new(),
        );
        // The last K-1 rows of [past; accepted rows]: a path may be shorter than the window.
        let rows = net.op("Gather", &[&format!("conv_in.{i}"), "path"]);
        let all = net.fresh("rows");
        net.concat_named(&[&format!("conv.{i}"), &rows], 0, &all);
        let (start, end, axis) = (
            net.ints(&[-(d.kernel as i64 - 1)]),
            net.ints(&[i64::MAX]),
            net.ints(&[0]),
        );
        net.op_named("Slice", &[&all, &start, &end, &axis], &format!("new_conv.{i}"));
    }
    for i in layers() {
        net.output(&format!("new_state.{i}"), ElementType::F32, &state);
        net.activation_output(&format!("new_conv.{i}"), &conv);
    }
    Some(net.finish())
}
