//! Fields that change the maths and that no graph here implements.

use super::Fields;
use crate::ExportError;

/// Fields whose mere presence (not null, not false, not 0, not empty) means another architecture.
const MUST_BE_OFF: [(&str, &str); 18] = [
    ("quantization_config", "quantised checkpoints are not supported"),
    ("compression_config", "compressed checkpoints are not supported"),
    ("num_experts", "mixture-of-experts models are not supported"),
    ("num_local_experts", "mixture-of-experts models are not supported"),
    ("n_routed_experts", "mixture-of-experts models are not supported"),
    (
        "moe_intermediate_size",
        "mixture-of-experts models are not supported",
    ),
    (
        "shared_expert_intermediate_size",
        "mixture-of-experts models are not supported",
    ),
    ("mlp_only_layers", "mixture-of-experts models are not supported"),
    ("attention_bias", "biases in attention are not supported"),
    ("qkv_bias", "biases in attention are not supported"),
    ("mlp_bias", "biases in the MLP are not supported"),
    ("final_logit_softcapping", "capped logits are not supported"),
    (
        "attn_logit_softcapping",
        "capped attention scores are not supported",
    ),
    ("logit_cap", "capped logits are not supported"),
    ("attention_sinks", "attention sinks are not supported"),
    ("alibi", "position biases are not supported"),
    ("add_cross_attention", "cross attention is not supported"),
    ("is_encoder_decoder", "encoder-decoder models are not supported"),
];

/// Fields that scale something: only 1 leaves the maths as it is.
const MUST_BE_ONE: [&str; 7] = [
    "output_multiplier",
    "logits_scaling",
    "logit_scale",
    "embedding_multiplier",
    "residual_multiplier",
    "residual_scale",
    "attention_multiplier",
];

/// Fields that name a variant: only the listed values are implemented.
const MUST_BE: [(&str, &[&str]); 4] = [
    ("hidden_act", &["silu", "swish"]),
    ("output_gate_type", &["swish", "silu"]),
    ("norm_type", &["rmsnorm", "rms_norm"]),
    ("position_embedding_type", &["rope", "rotary"]),
];

/// Refuses what neither targets nor drafters may have.
pub(super) fn refuse(fields: &Fields) -> Result<(), ExportError> {
    for (name, why) in MUST_BE_OFF {
        if let Some(value) = fields.get(name) {
            let off = match value {
                serde_json::Value::Bool(b) => !b,
                serde_json::Value::Number(n) => n.as_f64() == Some(0.0),
                serde_json::Value::Array(a) => a.is_empty(),
                serde_json::Value::Object(o) => o.is_empty(),
                serde_json::Value::String(s) => s.is_empty(),
                serde_json::Value::Null => true,
            };
            if !off {
                return Err(fields.error(name, format!("{}: {why}", brief(value))));
            }
        }
    }
    for name in MUST_BE_ONE {
        if let Some(value) = fields.number(name)?
            && value != 1.0
        {
            return Err(fields.error(name, format!("{value} is not supported, only 1")));
        }
    }
    for (name, allowed) in MUST_BE {
        if let Some(value) = fields.text(name)?
            && !allowed.contains(&value)
        {
            return Err(fields.error(name, format!("{value:?} is not supported, only {:?}", allowed[0])));
        }
    }
    for name in ["use_qk_norm", "qk_norm", "attn_output_gate"] {
        if fields.flag(name)? == Some(false) {
            return Err(fields.error(name, "false is not supported"));
        }
    }
    Ok(())
}

/// A value as an error shows it: objects and lists may be long.
fn brief(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(_) => "present".to_owned(),
        serde_json::Value::Array(items) => format!("list of {}", items.len()),
        other => other.to_string(),
    }
}
