//! `draft.onnx`: one block of every mode in one pass.

use super::Built;
use super::attention::AttentionLayer;
use super::linear::{mlp, norm_weight};
use super::net::Net;
use crate::ExportError;
use crate::config::{DraftLayer, DrafterConfig, ModeRows};
use crate::weights::{Placed, Store};
use forkcast_engines::manifest::Dtype;
use forkcast_plugins::onnx::Dim::{Fixed, Symbol};
use forkcast_plugins::onnx::ElementType;
use std::collections::BTreeMap;

/// What `draft.onnx` is built from, beside the weights of its layers.
pub(crate) struct DraftParts<'a> {
    /// The configuration.
    pub(crate) config: &'a DrafterConfig,
    /// Mode embeddings `[modes, H]`; `None` for a drafter without them.
    pub(crate) mode_embed: Option<&'a Placed>,
    /// Number of modes.
    pub(crate) modes: usize,
}

/// Builds `draft.onnx`. Rows are `[mode 0: anchor, masks | mode 1: ... ]`; a row sees the committed rows
/// and rows of its own mode.
pub(crate) fn draft(
    parts: &DraftParts<'_>,
    store: &mut Store<'_>,
    dtype: Dtype,
) -> Result<Built, ExportError> {
    let config = parts.config;
    let (modes, block, h, a) = (parts.modes, config.block, config.hidden, config.attention);
    let mut net = Net::new("draft", dtype);
    net.activation("block", &[Fixed(block), Fixed(h)]);
    net.input("positions", ElementType::I64, &[Fixed(block)]);
    net.input("past_len", ElementType::I64, &[Fixed(1)]);
    for l in 0..config.layers.len() {
        for name in ["past_draft_k", "past_draft_v"] {
            net.activation(
                &format!("{name}.{l}"),
                &[Symbol("C"), Fixed(a.kv_heads), Fixed(a.head_dim)],
            );
        }
    }
    let mut x = rows(&mut net, parts);
    let positions = if modes == 1 {
        "positions".to_owned()
    } else {
        let times = net.ints(&[modes as i64]);
        net.op("Tile", &["positions", &times])
    };
    let tables = net.rope_tables(&positions, config.rope);
    let mut masks: BTreeMap<bool, String> = BTreeMap::new();
    for (l, layer) in config.layers.iter().enumerate() {
        let DraftLayer { causal, window } = *layer;
        let visible = masks
            .entry(causal)
            .or_insert_with(|| visible(&mut net, modes, block, causal))
            .clone();
        let prefix = format!("layers.{l}.");
        let name = format!("{prefix}input_layernorm.weight");
        let w = norm_weight(&mut net, store, &name, h, false)?;
        let n = net.norm(&x, &w, config.eps);
        let attention = AttentionLayer {
            prefix: &prefix,
            shape: a,
            hidden: h,
            eps: config.eps,
            gated: false,
            add_one: false,
            tables: &tables,
            past: [&format!("past_draft_k.{l}"), &format!("past_draft_v.{l}")],
            past_len: "past_len",
            positions: &positions,
            visible: &visible,
            window,
            outputs: None,
        };
        x = attention.build(&mut net, store, &x, &n)?;
        let name = format!("{prefix}post_attention_layernorm.weight");
        let w = norm_weight(&mut net, store, &name, h, false)?;
        let n = net.norm(&x, &w, config.eps);
        x = mlp(&mut net, store, &prefix, &x, &n, [h, config.intermediate])?;
    }
    let x = without_anchors(&mut net, &x, [modes, block, h]);
    let w = norm_weight(&mut net, store, "norm.weight", h, false)?;
    net.norm_named(&x, &w, config.eps, "hidden");
    net.output(
        "hidden",
        ElementType::F32,
        &[Fixed(modes * (block - 1)), Fixed(h)],
    );
    Ok(net.finish())
}

/// Input rows of all modes, `[modes * block, H]`: scaled block embeddings plus mode embeddings.
fn rows(net: &mut Net, parts: &DraftParts<'_>) -> String {
    let config = parts.config;
    let h = config.hidden as i64;
    let mut x = "block".to_owned();
    if config.embedding_scale != 1.0 {
        let scale = net.fill(1, config.embedding_scale);
        let scale = net.narrow(&scale);
        x = net.op("Mul", &[&x, &scale]);
    }
    let Some(placed) = parts.mode_embed else {
        return x;
    };
    let w = net.weight("mode_embed", placed);
    let modes = net.reshape(&w, &[parts.modes as i64, 1, h]);
    let added = match config.mode_rows {
        ModeRows::All => modes,
        ModeRows::Mask | ModeRows::Anchor => {
            let on_anchor = config.mode_rows == ModeRows::Anchor;
            let rows: Vec<f32> = (0..config.block)
                .map(|j| f32::from(u8::from((j == 0) == on_anchor)))
                .collect();
            let rows = net.floats(&rows, &[1, config.block as i64, 1]);
            let rows = net.narrow(&rows);
            net.op("Mul", &[&modes, &rows])
        }
    };
    let x = net.op("Add", &[&x, &added]);
    net.reshape(&x, &[-1, h])
}

/// Which rows see which, bool `[modes * block, modes * block]`: the own mode's block, up to the row
/// itself when `causal`.
fn visible(net: &mut Net, modes: usize, block: usize, causal: bool) -> String {
    let n = modes * block;
    let mask: Vec<bool> = (0..n * n)
        .map(|at| {
            let (i, j) = (at / n, at % n);
            i / block == j / block && (!causal || j <= i)
        })
        .collect();
    net.bools(&mask, &[n as i64, n as i64])
}

/// Drops row 0 of each mode: the anchor is known already.
fn without_anchors(net: &mut Net, x: &str, [modes, block, h]: [usize; 3]) -> String {
    let x = net.reshape(x, &[modes as i64, block as i64, h as i64]);
    let (start, end, axis) = (net.ints(&[1]), net.ints(&[block as i64]), net.ints(&[1]));
    let x = net.op("Slice", &[&x, &start, &end, &axis]);
    net.reshape(&x, &[(modes * (block - 1)) as i64, h as i64])
}
