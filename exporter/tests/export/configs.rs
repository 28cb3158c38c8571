//! Configurations: the published ones (sizes as in `config.json` of the models) and small ones.

use serde_json::{Value, json};

/// Text configuration of Qwen3.5-4B.
pub(crate) fn qwen35_4b_text() -> Value {
    json!({
        "model_type": "qwen3_5_text", "hidden_size": 2560, "num_hidden_layers": 32, "intermediate_size": 9216,
        "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 248_320,
        "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "hidden_act": "silu", "attn_output_gate": true, "attention_bias": false, "attention_dropout": 0.0,
        "rms_norm_eps": 1e-6, "max_position_embeddings": 262_144, "tie_word_embeddings": true,
        "eos_token_id": 248_044, "mamba_ssm_dtype": "float32", "mlp_only_layers": [], "dtype": "bfloat16",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000, "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10], "mrope_interleaved": true},
        "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false
    })
}

/// Composite configuration around a text configuration.
pub(crate) fn composite(text: &Value) -> Value {
    json!({
        "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text,
        "vision_config": {"depth": 24}, "tie_word_embeddings": true, "image_token_id": 248_056
    })
}

/// Qwen3-4B.
pub(crate) fn qwen3_4b() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560,
        "num_hidden_layers": 36, "intermediate_size": 9728, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "vocab_size": 151_936, "hidden_act": "silu", "attention_bias": false,
        "rms_norm_eps": 1e-6, "rope_theta": 1_000_000, "rope_scaling": null, "max_position_embeddings": 40_960,
        "tie_word_embeddings": true, "eos_token_id": 151_645, "bos_token_id": 151_643,
        "use_sliding_window": false, "sliding_window": null, "max_window_layers": 36, "torch_dtype": "bfloat16"
    })
}

/// Second-generation drafter for Qwen3.5-4B: 6 layers, 8 taps.
pub(crate) fn drafter_qwen35_second() -> Value {
    json!({
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 2560,
        "intermediate_size": 9216, "num_hidden_layers": 6, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
            "sliding_attention", "sliding_attention", "full_attention"],
        "sliding_window": 4096, "use_sliding_window": true, "rms_norm_eps": 1e-6, "vocab_size": 248_320,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000},
        "max_position_embeddings": 262_144, "num_target_layers": 32, "attention_bias": false,
        "hidden_act": "silu", "tie_word_embeddings": true, "eos_token_id": 248_044,
        "dflash_config": {"block_size": 16, "mask_token_id": 248_077,
            "target_layer_ids": [1, 5, 9, 13, 17, 21, 25, 29]}
    })
}

/// The same with eight modes.
pub(crate) fn drafter_qwen35_mfd() -> Value {
    let mut config = drafter_qwen35_second();
    config["mfd_config"] = json!({"num_modes": 8, "mode_embed_rows": "all"});
    config
}

/// First-generation drafter for Qwen3.5-4B: 5 layers, 5 taps, all layers full.
pub(crate) fn drafter_qwen35_first() -> Value {
    json!({
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 2560,
        "intermediate_size": 9728, "num_hidden_layers": 5, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "layer_types": ["full_attention", "full_attention", "full_attention",
            "full_attention", "full_attention"],
        "sliding_window": null, "use_sliding_window": false, "rms_norm_eps": 1e-6, "vocab_size": 248_320,
        "rope_theta": 10_000_000, "rope_scaling": null, "max_position_embeddings": 262_144,
        "num_target_layers": 32, "attention_bias": false, "hidden_act": "silu", "block_size": 16,
        "dflash_config": {"mask_token_id": 248_070, "target_layer_ids": [1, 8, 15, 22, 29]}
    })
}

/// MDraft for Qwen3-4B: the first generation's shapes, F32 on disk.
pub(crate) fn drafter_qwen3_mdraft() -> Value {
    let mut config = drafter_qwen35_first();
    config["vocab_size"] = json!(151_936);
    config["rope_theta"] = json!(1_000_000);
    config["num_target_layers"] = json!(36);
    config["max_position_embeddings"] = json!(40_960);
    config["dflash_config"] = json!({"mask_token_id": 151_669, "target_layer_ids": [1, 9, 17, 25, 33]});
    config
}

/// A small hybrid target: 4 layers, one of them attention.
pub(crate) fn tiny_hybrid() -> Value {
    json!({
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 16,
        "num_hidden_layers": 4, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 8, "vocab_size": 32, "linear_num_key_heads": 1, "linear_num_value_heads": 2,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "max_position_embeddings": 128,
        "tie_word_embeddings": true, "eos_token_id": 30,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000, "partial_rotary_factor": 0.25}
    })
}

/// A small dense target of 2 layers.
pub(crate) fn tiny_dense() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 16,
        "num_hidden_layers": 2, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 8, "vocab_size": 32, "hidden_act": "silu", "attention_bias": false, "rms_norm_eps": 1e-6,
        "rope_theta": 10_000, "max_position_embeddings": 128, "tie_word_embeddings": true, "eos_token_id": 30
    })
}

/// A small drafter for [`tiny_hybrid`]: 2 layers, taps 0 and 2.
pub(crate) fn tiny_drafter() -> Value {
    json!({
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 16,
        "num_hidden_layers": 2, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 8, "vocab_size": 32, "hidden_act": "silu", "attention_bias": false, "rms_norm_eps": 1e-6,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16,
        "use_sliding_window": true, "max_position_embeddings": 128, "num_target_layers": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000},
        "dflash_config": {"block_size": 4, "mask_token_id": 31, "target_layer_ids": [0, 2]}
    })
}
