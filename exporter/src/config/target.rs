//! Configuration of a target: Qwen3 and Qwen3.5 (`qwen.md` 1).

use super::{Fields, Rope, refuse};
use crate::ExportError;
use forkcast_engines::manifest::{Attention, DeltaNet, Family};

/// Mixer of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerKind {
    /// Softmax attention over all earlier rows.
    Attention,
    /// Gated DeltaNet.
    DeltaNet,
}

/// A target as the graphs need it.
#[derive(Clone, Debug)]
pub(crate) struct TargetConfig {
    pub(crate) family: Family,
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) vocab: usize,
    pub(crate) layers: Vec<LayerKind>,
    pub(crate) attention: Attention,
    /// Shape of DeltaNet layers; present exactly for the hybrid family.
    pub(crate) delta: Option<DeltaNet>,
    pub(crate) eps: f32,
    pub(crate) rope: Rope,
    /// Whether the head is the embedding; `None` when the file leaves it to the tensors.
    pub(crate) tied: Option<bool>,
    pub(crate) max_context: usize,
    /// Stop tokens that config.json names.
    pub(crate) eos: Vec<u32>,
}

impl TargetConfig {
    /// Reads the configuration of a target; drafters and other models are refused by name.
    pub(crate) fn read(top: &Fields) -> Result<Self, ExportError> {
        if super::drafter::is_drafter(top)? {
            return Err(top
                .error("architectures", "this is a drafter, not a target")
                .with_hint("pass it as --drafter"));
        }
        let nested = top.object("text_config")?;
        let fields = nested.clone().unwrap_or_else(|| top.clone());
        let family = family(top, &fields)?;
        refuse::refuse(top)?;
        refuse::refuse(&fields)?;
        if fields.flag("use_sliding_window")? == Some(true) {
            return Err(fields.error("use_sliding_window", "true is not supported for targets"));
        }
        if fields.flag("is_causal")? == Some(false) {
            return Err(fields.error("is_causal", "false is not supported for targets"));
        }
        let heads = fields.need_size("num_attention_heads")?;
        let hidden = fields.need_size("hidden_size")?;
        let attention = attention(&fields, hidden, heads)?;
        let layers = layer_kinds(&fields, family)?;
        let delta = match family {
            Family::Qwen3 => None,
            Family::Qwen35 => Some(delta(&fields)?),
        };
        let factor = match family {
            Family::Qwen3 => 1.0,
            Family::Qwen35 => 0.25,
        };
        let mut eos = fields.token_ids("eos_token_id")?;
        if nested.is_some() {
            eos.extend(top.token_ids("eos_token_id")?);
        }
        // In composite files the top level decides; 9B's text_config does not even have the field.
        let tied = match top.flag("tie_word_embeddings")? {
            Some(tied) => Some(tied),
            None => fields.flag("tie_word_embeddings")?,
        };
        Ok(Self {
            family,
            hidden,
            intermediate: fields.need_size("intermediate_size")?,
            vocab: fields.need_size("vocab_size")?,
            layers,
            attention,
            delta,
            eps: eps(&fields)?,
            rope: Rope::read(&fields, attention.head_dim, factor)?,
            tied,
            max_context: fields.need_size("max_position_embeddings")?,
            eos,
        })
    }
}

/// Model types that are recognised only to say why they are refused.
fn family(top: &Fields, fields: &Fields) -> Result<Family, ExportError> {
    let mut family = None;
    for object in [top, fields] {
        let Some(kind) = object.text("model_type")? else {
            continue;
        };
        family = Some(match kind {
            "qwen3" => Family::Qwen3,
            "qwen3_5" | "qwen3_5_text" => Family::Qwen35,
            moe if moe.contains("moe") => {
                return Err(object.error(
                    "model_type",
                    format!("{moe:?}: mixture-of-experts models are not supported"),
                ));
            }
            other => {
                return Err(object
                    .error("model_type", format!("{other:?} is not supported"))
                    .with_hint("targets are qwen3, qwen3_5 and qwen3_5_text"));
            }
        });
    }
    let family = family.ok_or_else(|| {
        top.error("model_type", "is missing")
            .with_hint("targets are qwen3, qwen3_5 and qwen3_5_text")
    })?;
    let known: &[&str] = match family {
        Family::Qwen3 => &["Qwen3ForCausalLM", "Qwen3Model"],
        Family::Qwen35 => &[
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5ForCausalLM",
            "Qwen3_5Model",
            "Qwen3_5TextModel",
        ],
    };
    for name in top.texts("architectures")?.unwrap_or_default() {
        if !known.contains(&name) {
            return Err(top.error(
                "architectures",
                format!("{name:?} is not supported, only {known:?}"),
            ));
        }
    }
    Ok(family)
}

/// Heads of a softmax attention layer.
pub(super) fn attention(fields: &Fields, hidden: usize, heads: usize) -> Result<Attention, ExportError> {
    let kv_heads = fields.size("num_key_value_heads")?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(fields.error(
            "num_key_value_heads",
            format!("{kv_heads} does not divide num_attention_heads {heads}"),
        ));
    }
    let head_dim = match fields.size("head_dim")? {
        Some(dim) => dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => return Err(fields.error("head_dim", "is missing")),
    };
    bounded(fields, "head_dim", head_dim)?;
    Ok(Attention {
        heads,
        kv_heads,
        head_dim,
    })
}

/// Epsilon of the norms.
pub(super) fn eps(fields: &Fields) -> Result<f32, ExportError> {
    Ok(fields.positive("rms_norm_eps")?.unwrap_or(1e-6) as f32)
}

/// Largest head and convolution kernel: constants of this size are built into graphs.
const MAX_HEAD: usize = 4096;

fn bounded(fields: &Fields, name: &str, value: usize) -> Result<(), ExportError> {
    if value > MAX_HEAD {
        return Err(fields.error(name, format!("{value} exceeds {MAX_HEAD}")));
    }
    Ok(())
}

fn delta(fields: &Fields) -> Result<DeltaNet, ExportError> {
    let delta = DeltaNet {
        key_heads: fields.need_size("linear_num_key_heads")?,
        value_heads: fields.need_size("linear_num_value_heads")?,
        key_dim: fields.need_size("linear_key_head_dim")?,
        value_dim: fields.need_size("linear_value_head_dim")?,
        kernel: fields.size("linear_conv_kernel_dim")?.unwrap_or(4),
    };
    if !delta.value_heads.is_multiple_of(delta.key_heads) {
        return Err(fields.error(
            "linear_num_value_heads",
            format!(
                "{} is not a multiple of linear_num_key_heads {}",
                delta.value_heads, delta.key_heads
            ),
        ));
    }
    bounded(fields, "linear_key_head_dim", delta.key_dim)?;
    bounded(fields, "linear_value_head_dim", delta.value_dim)?;
    bounded(fields, "linear_conv_kernel_dim", delta.kernel)?;
    if delta.kernel < 2 {
        return Err(fields.error("linear_conv_kernel_dim", "1 is not supported"));
    }
    Ok(delta)
}

/// Most decoder layers that a configuration may ask for.
const MAX_LAYERS: usize = 1024;

/// Number of layers, bounded so that graphs stay buildable.
pub(super) fn layer_count(fields: &Fields) -> Result<usize, ExportError> {
    let count = fields.need_size("num_hidden_layers")?;
    if count > MAX_LAYERS {
        return Err(fields.error("num_hidden_layers", format!("{count} exceeds {MAX_LAYERS}")));
    }
    Ok(count)
}

fn layer_kinds(fields: &Fields, family: Family) -> Result<Vec<LayerKind>, ExportError> {
    let count = layer_count(fields)?;
    if let Some(names) = fields.texts("layer_types")? {
        if names.len() != count {
            return Err(fields.error(
                "layer_types",
                format!("{} entries for {count} layers", names.len()),
            ));
        }
        return names
            .into_iter()
            .map(|name| match (name, family) {
                ("full_attention", _) => Ok(LayerKind::Attention),
                ("linear_attention", Family::Qwen35) => Ok(LayerKind::DeltaNet),
                _ => Err(fields.error("layer_types", format!("{name:?} is not supported"))),
            })
            .collect();
    }
    if family == Family::Qwen3 {
        return Ok(vec![LayerKind::Attention; count]);
    }
    let interval = fields.size("full_attention_interval")?.unwrap_or(4);
    Ok((1..=count)
        .map(|i| {
            if i.is_multiple_of(interval) {
                LayerKind::Attention
            } else {
                LayerKind::DeltaNet
            }
        })
        .collect())
}
