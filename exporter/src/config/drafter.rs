//! Configuration of a drafter of the DFlash family (`algorithms.md` 1.1): both generations, MDraft, MFD.

use super::{Fields, Rope, refuse, target};
use crate::ExportError;
use forkcast_engines::manifest::Attention;

/// Rows of a block to which the mode embedding is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModeRows {
    /// Every row.
    All,
    /// The masked rows.
    Mask,
    /// The anchor's row.
    Anchor,
}

/// How block rows of one layer see each other and the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DraftLayer {
    /// A row sees only rows before it and itself.
    pub(crate) causal: bool,
    /// Width of the window; 0 for none.
    pub(crate) window: usize,
}

/// A drafter as the graphs need it.
#[derive(Clone, Debug)]
pub(crate) struct DrafterConfig {
    pub(crate) fields: Fields,
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) vocab: usize,
    pub(crate) layers: Vec<DraftLayer>,
    pub(crate) attention: Attention,
    pub(crate) eps: f32,
    pub(crate) rope: Rope,
    pub(crate) block: usize,
    pub(crate) mask_id: usize,
    /// Layers of the target whose outputs are read, if the file lists them.
    pub(crate) target_layer_ids: Option<Vec<usize>>,
    /// Layers of the target it was trained for, if the file says.
    pub(crate) target_layers: Option<usize>,
    /// Modes that the file promises, if it does.
    pub(crate) modes: Option<usize>,
    pub(crate) mode_rows: ModeRows,
    /// Factor on the block's embeddings.
    pub(crate) embedding_scale: f32,
}

/// Whether the file describes a drafter.
pub(super) fn is_drafter(top: &Fields) -> Result<bool, ExportError> {
    let named = top
        .texts("architectures")?
        .unwrap_or_default()
        .iter()
        .any(|a| a.contains("Draft"));
    let keys = [
        "dflash_config",
        "mfd_config",
        "target_layer_ids",
        "num_target_layers",
    ];
    Ok(named || keys.iter().any(|k| top.get(k).is_some()))
}

impl DrafterConfig {
    /// Reads the configuration of a drafter; targets are refused by name.
    pub(crate) fn read(top: &Fields) -> Result<Self, ExportError> {
        if !is_drafter(top)? {
            return Err(top
                .error(
                    "dflash_config",
                    "is missing: this is a target, not a drafter of the DFlash family",
                )
                .with_hint("pass a drafter made for the target as --drafter"));
        }
        match top.text("model_type")? {
            None | Some("qwen3") => {}
            Some(other) => {
                return Err(top.error(
                    "model_type",
                    format!("{other:?} is not supported for drafters, only \"qwen3\""),
                ));
            }
        }
        for name in top.texts("architectures")?.unwrap_or_default() {
            if !name.contains("Draft") {
                return Err(top.error(
                    "architectures",
                    format!("{name:?} is no drafter of the DFlash family"),
                ));
            }
        }
        let own = top.object("dflash_config")?;
        let mfd = top.object("mfd_config")?;
        refuse::refuse(top)?;
        for object in own.iter().chain(&mfd) {
            refuse::refuse(object)?;
        }
        // The nested value wins over the one at top level.
        let at = |name: &str| -> &Fields {
            match &own {
                Some(own) if own.get(name).is_some() => own,
                _ => top,
            }
        };
        let hidden = top.need_size("hidden_size")?;
        let attention = target::attention(top, hidden, top.need_size("num_attention_heads")?)?;
        let causal = match own.as_ref().map(|o| o.flag("causal")).transpose()?.flatten() {
            Some(causal) => Some(causal),
            None => at("is_causal").flag("is_causal")?,
        };
        let block = at("block_size").size("block_size")?.unwrap_or(16);
        if !(2..=MAX_BLOCK).contains(&block) {
            return Err(at("block_size").error("block_size", format!("{block} is outside 2..={MAX_BLOCK}")));
        }
        let mask = at("mask_token_id");
        let scale = at("input_embedding_scale").positive("input_embedding_scale")?;
        Ok(Self {
            hidden,
            intermediate: top.need_size("intermediate_size")?,
            vocab: top.need_size("vocab_size")?,
            layers: layers(top, causal)?,
            attention,
            eps: target::eps(top)?,
            rope: Rope::read(top, attention.head_dim, 1.0)?,
            block,
            mask_id: mask
                .whole("mask_token_id")?
                .ok_or_else(|| mask.error("mask_token_id", "is missing"))?,
            target_layer_ids: at("target_layer_ids").indices("target_layer_ids")?,
            target_layers: at("num_target_layers").size("num_target_layers")?,
            modes: modes(mfd.as_ref())?,
            mode_rows: mode_rows(mfd.as_ref())?,
            embedding_scale: scale.unwrap_or(1.0) as f32,
            fields: top.clone(),
        })
    }

    /// Layers of the target whose outputs are read. Without a list: the reference's even spread.
    pub(crate) fn taps(&self, target_layers: usize) -> Vec<usize> {
        if let Some(ids) = &self.target_layer_ids {
            return ids.clone();
        }
        let own = self.layers.len();
        if own == 1 {
            return vec![target_layers / 2];
        }
        (0..own)
            .map(|i| {
                // Round half to even, as Python does.
                let spread = 1.0 + i as f64 * (target_layers as f64 - 4.0) / (own as f64 - 1.0);
                spread.round_ties_even().max(0.0) as usize
            })
            .collect()
    }
}

/// Largest block: the masks of all modes are constants of the graph.
const MAX_BLOCK: usize = 256;
/// Most modes of a drafter.
pub(crate) const MAX_MODES: usize = 64;
/// Most rows of one draft pass.
pub(crate) const MAX_DRAFT_ROWS: usize = 2048;

fn layers(top: &Fields, causal: Option<bool>) -> Result<Vec<DraftLayer>, ExportError> {
    let count = target::layer_count(top)?;
    let Some(names) = top.texts("layer_types")? else {
        if top.flag("use_sliding_window")? == Some(true) {
            return Err(top.error(
                "use_sliding_window",
                "true without layer_types leaves open which layers slide",
            ));
        }
        let layer = DraftLayer {
            causal: causal.unwrap_or(false),
            window: 0,
        };
        return Ok(vec![layer; count]);
    };
    if names.len() != count {
        return Err(top.error(
            "layer_types",
            format!("{} entries for {count} layers", names.len()),
        ));
    }
    names
        .into_iter()
        .map(|name| match name {
            "full_attention" => Ok(DraftLayer {
                causal: causal.unwrap_or(false),
                window: 0,
            }),
            "sliding_attention" => {
                if top.flag("use_sliding_window")? == Some(false) {
                    return Err(top.error("use_sliding_window", "false contradicts layer_types"));
                }
                let window = top.size("sliding_window")?.ok_or_else(|| {
                    top.error("sliding_window", "is missing, but layer_types has sliding layers")
                })?;
                // Sliding layers are causal inside the block unless the file says otherwise.
                Ok(DraftLayer {
                    causal: causal.unwrap_or(true),
                    window,
                })
            }
            other => Err(top.error("layer_types", format!("{other:?} is not supported"))),
        })
        .collect()
}

fn modes(mfd: Option<&Fields>) -> Result<Option<usize>, ExportError> {
    let Some(mfd) = mfd else {
        return Ok(None);
    };
    match mfd.size("num_modes")? {
        Some(n) if n > MAX_MODES => Err(mfd.error("num_modes", format!("{n} exceeds {MAX_MODES}"))),
        other => Ok(other),
    }
}

fn mode_rows(mfd: Option<&Fields>) -> Result<ModeRows, ExportError> {
    let Some(mfd) = mfd else {
        return Ok(ModeRows::All);
    };
    match mfd.text("mode_embed_rows")? {
        None | Some("all") => Ok(ModeRows::All),
        Some("mask") => Ok(ModeRows::Mask),
        Some("anchor") => Ok(ModeRows::Anchor),
        Some(other) => Err(mfd.error(
            "mode_embed_rows",
            format!("{other:?} is not supported, only \"all\", \"mask\" and \"anchor\""),
        )),
    }
}
