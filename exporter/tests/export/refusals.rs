//! Configuration fields and pairings that are refused, each with its message.

use crate::configs;
use crate::support::{Pair, refusal};
use serde_json::{Value, json};

/// Sets `path` (dots between names) in a configuration.
fn set(config: &mut Value, path: &str, value: Value) {
    let pointer = format!("/{}", path.replace('.', "/"));
    match config.pointer_mut(&pointer) {
        Some(slot) => *slot = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').expect("a path");
            let parent = config.pointer_mut(parent).expect("the parent exists");
            parent[name] = value;
        }
    }
}

fn remove(config: &mut Value, name: &str) {
    config.as_object_mut().expect("object").remove(name);
}

/// Refusal of a hybrid target whose configuration has `field` changed.
fn target(field: &str, value: Value) -> String {
    let mut pair = Pair::hybrid();
    set(&mut pair.target_config, field, value);
    pair.write_configs();
    pair.refused()
}

/// Refusal of a drafter whose configuration has `field` changed.
fn drafter(field: &str, value: Value) -> String {
    let mut pair = Pair::hybrid();
    set(&mut pair.drafter_config, field, value);
    pair.write_configs();
    pair.refused()
}

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "expected {part:?} in: {text}");
}

#[test]
fn target_fields_that_change_the_maths() {
    let cases = [
        (
            "hidden_act",
            json!("gelu"),
            "config.json: hidden_act: \"gelu\" is not supported, only \"silu\"",
        ),
        (
            "attention_bias",
            json!(true),
            "attention_bias: true: biases in attention are not supported",
        ),
        (
            "use_sliding_window",
            json!(true),
            "use_sliding_window: true is not supported for targets",
        ),
        (
            "attn_output_gate",
            json!(false),
            "attn_output_gate: false is not supported",
        ),
        (
            "output_gate_type",
            json!("sigmoid"),
            "output_gate_type: \"sigmoid\" is not supported",
        ),
        (
            "output_multiplier",
            json!(2.0),
            "output_multiplier: 2 is not supported, only 1",
        ),
        (
            "final_logit_softcapping",
            json!(30.0),
            "final_logit_softcapping: 30.0: capped logits are not supported",
        ),
        (
            "quantization_config",
            json!({"bits": 4}),
            "quantization_config: present: quantised checkpoints are not supported",
        ),
        (
            "num_experts",
            json!(128),
            "num_experts: 128: mixture-of-experts models are not supported",
        ),
        (
            "mlp_only_layers",
            json!([1]),
            "mlp_only_layers: list of 1: mixture-of-experts models are not supported",
        ),
        (
            "mlp_bias",
            json!(true),
            "mlp_bias: true: biases in the MLP are not supported",
        ),
        (
            "is_causal",
            json!(false),
            "is_causal: false is not supported for targets",
        ),
        (
            "rope_parameters.rope_type",
            json!("yarn"),
            "rope_parameters.rope_type: rope scaling \"yarn\" is not supported",
        ),
        (
            "rope_parameters.factor",
            json!(4.0),
            "rope_parameters.factor: rope scaling is not supported",
        ),
        (
            "rope_parameters.full_attention",
            json!({"rope_theta": 5}),
            "rope_parameters.full_attention: rope scaling is not supported",
        ),
        (
            "rope_scaling",
            json!({"type": "linear", "factor": 2.0}),
            "rope_scaling.type: rope scaling \"linear\" is not supported",
        ),
        (
            "rope_parameters.partial_rotary_factor",
            json!(0.4),
            "partial_rotary_factor: 0.4 of head_dim 8 gives 3 rotated dimensions",
        ),
        (
            "layer_types",
            json!([
                "linear_attention",
                "linear_attention",
                "linear_attention",
                "chunked_attention"
            ]),
            "layer_types: \"chunked_attention\" is not supported",
        ),
        (
            "layer_types",
            json!(["full_attention"]),
            "layer_types: 1 entries for 4 layers",
        ),
        (
            "model_type",
            json!("qwen3_5_moe_text"),
            "model_type: \"qwen3_5_moe_text\": mixture-of-experts models are not supported",
        ),
        (
            "model_type",
            json!("qwen3_next"),
            "model_type: \"qwen3_next\" is not supported\nhint: targets are qwen3, qwen3_5 and qwen3_5_text",
        ),
        (
            "architectures",
            json!(["Qwen3_5ForSequenceClassification"]),
            "architectures: \"Qwen3_5ForSequenceClassification\" is not supported",
        ),
        (
            "hidden_size",
            json!("wide"),
            "hidden_size: \"wide\" is not a whole number",
        ),
        ("hidden_size", json!(0), "hidden_size: is 0"),
        (
            "hidden_size",
            json!(1_u64 << 60),
            "hidden_size: 1152921504606846976 is not a whole number up to",
        ),
        ("hidden_size", json!(null), "hidden_size: is missing"),
        (
            "num_hidden_layers",
            json!(100_000),
            "num_hidden_layers: 100000 exceeds 1024",
        ),
        ("head_dim", json!(5000), "head_dim: 5000 exceeds 4096"),
        (
            "num_key_value_heads",
            json!(3),
            "num_key_value_heads: 3 does not divide num_attention_heads 4",
        ),
        ("linear_num_value_heads", json!(3), "shape"),
        ("rms_norm_eps", json!(-1.0), "rms_norm_eps: -1 is not above 0"),
        (
            "eos_token_id",
            json!("x"),
            "eos_token_id: is neither a token id nor a list of them",
        ),
        (
            "eos_token_id",
            json!(32),
            "stop token 32 is outside the vocabulary of 32",
        ),
    ];
    for (field, value, expected) in cases {
        has(&target(field, value), expected);
    }
}

#[test]
fn drafter_fields_that_change_the_maths() {
    let cases = [
        (
            "hidden_act",
            json!("relu"),
            "drafter/config.json: hidden_act: \"relu\" is not supported",
        ),
        (
            "attention_bias",
            json!(true),
            "attention_bias: true: biases in attention are not supported",
        ),
        (
            "output_multiplier",
            json!(0.5),
            "output_multiplier: 0.5 is not supported, only 1",
        ),
        (
            "dflash_config.output_multiplier",
            json!(0.5),
            "dflash_config.output_multiplier: 0.5 is not supported, only 1",
        ),
        (
            "final_logit_softcapping",
            json!(30.0),
            "final_logit_softcapping: 30.0: capped logits are not supported",
        ),
        (
            "dflash_config.final_logit_softcapping",
            json!(15),
            "dflash_config.final_logit_softcapping: 15: capped logits",
        ),
        (
            "dflash_config.input_embedding_scale",
            json!(0),
            "dflash_config.input_embedding_scale: 0 is not above 0",
        ),
        (
            "rope_parameters.rope_type",
            json!("yarn"),
            "rope_parameters.rope_type: rope scaling \"yarn\" is not supported",
        ),
        (
            "layer_types",
            json!(["sliding_attention", "linear_attention"]),
            "layer_types: \"linear_attention\" is not supported",
        ),
        (
            "sliding_window",
            json!(null),
            "sliding_window: is missing, but layer_types has sliding layers",
        ),
        (
            "use_sliding_window",
            json!(false),
            "use_sliding_window: false contradicts layer_types",
        ),
        (
            "dflash_config.mask_token_id",
            json!(32),
            "mask_token_id: 32 is outside the vocabulary of 32",
        ),
        (
            "dflash_config.mask_token_id",
            json!(null),
            "mask_token_id: is missing",
        ),
        (
            "dflash_config.block_size",
            json!(1),
            "dflash_config.block_size: 1 is outside 2..=256",
        ),
        (
            "dflash_config.target_layer_ids",
            json!([0, 4]),
            "target_layer_ids: layer 4 is outside the target's 4 layers (0..=3)",
        ),
        (
            "dflash_config.target_layer_ids",
            json!([]),
            "target_layer_ids: is empty",
        ),
        (
            "dflash_config.target_layer_ids",
            json!([-1]),
            "dflash_config.target_layer_ids: is not a list of whole numbers",
        ),
        (
            "dflash_config.target_layer_ids",
            json!([0, 1, 2]),
            "tensor fc.weight: shape [16, 32], but the configuration asks for [16, 48]",
        ),
        (
            "num_target_layers",
            json!(36),
            "num_target_layers: 36 does not fit the target's 4\nhint: use the drafter that was trained for this target",
        ),
        (
            "hidden_size",
            json!(32),
            "hidden_size: 32 does not fit the target's 16",
        ),
        (
            "vocab_size",
            json!(64),
            "vocab_size: 64 does not fit the target's 32",
        ),
        (
            "model_type",
            json!("llama"),
            "model_type: \"llama\" is not supported for drafters",
        ),
        (
            "mfd_config",
            json!({"num_modes": 8}),
            "tensor mode_embed: the model needs it, but the file does not hold it",
        ),
        (
            "mfd_config",
            json!({"mode_embed_rows": "odd"}),
            "mfd_config.mode_embed_rows: \"odd\" is not supported",
        ),
        (
            "mfd_config",
            json!({"num_modes": 1000}),
            "mfd_config.num_modes: 1000 exceeds 64",
        ),
    ];
    for (field, value, expected) in cases {
        has(&drafter(field, value), expected);
    }
}

#[test]
fn a_drafter_is_no_target_and_a_target_no_drafter() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    std::mem::swap(&mut options.target, options.drafter.as_mut().expect("set"));
    let text = refusal(&options, pair.root());
    has(
        &text,
        "this is a drafter, not a target\nhint: pass it as --drafter",
    );
    let mut options = pair.options();
    options.drafter = Some(options.target.clone());
    let text = refusal(&options, pair.root());
    has(&text, "this is a target, not a drafter of the DFlash family");
}

#[test]
fn drafter_weights_under_a_target_configuration() {
    let pair = Pair::hybrid();
    pair.write_target(&pair.drafter_specs(1));
    has(
        &pair.refused(),
        "tensor fc.weight: these are a drafter's weights, not a target's\nhint: pass it as --drafter",
    );
}

#[test]
fn modes_of_file_and_configuration_must_agree() {
    let mut pair = Pair::hybrid();
    pair.drafter_config["mfd_config"] = json!({"num_modes": 8});
    pair.write_drafter(&pair.drafter_specs(4));
    has(
        &pair.refused(),
        "tensor mode_embed: 4 modes, but mfd_config.num_modes says 8",
    );
}

#[test]
fn unfit_options() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    options.taps = Some(vec![1, 2]);
    has(
        &refusal(&options, pair.root()),
        "--taps [1, 2]: the drafter reads layers [0, 2]\nhint: leave --taps out",
    );
    options.drafter = None;
    options.taps = Some(vec![4]);
    has(
        &refusal(&options, pair.root()),
        "--taps: layer 4 is outside the target's 4 layers\nhint: layers are 0..=3",
    );
    options.taps = None;
    options.weights_from = Some(pair.target());
    has(&refusal(&options, pair.root()), "--weights-from");
    options.weights_from = None;
    options.target = "Nobody/Nothing".to_owned();
    has(
        &refusal(&options, pair.root()),
        "Nobody/Nothing: no such folder, and not in the local hub cache",
    );
}

#[test]
fn places_that_are_never_replaced() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    options.out = pair.target();
    has(
        &refusal(&options, pair.root()),
        "target: exists and is not a forkcast bundle",
    );
    options.out = pair.root().join("link");
    std::os::unix::fs::symlink(pair.out(), &options.out).expect("links");
    has(
        &refusal(&options, pair.root()),
        "is a symbolic link\nhint: name the folder",
    );
    options.out = "/".into();
    has(&refusal(&options, pair.root()), "is no folder name");
}

#[test]
fn more_rows_than_a_draft_pass_may_have() {
    let mut pair = Pair::hybrid();
    pair.drafter_config["dflash_config"]["block_size"] = json!(256);
    pair.write_drafter(&pair.drafter_specs(9));
    has(
        &pair.refused(),
        "tensor mode_embed: 9 modes of 256 rows make 2304, more than 2048",
    );
}

#[test]
fn broken_configuration_files() {
    let pair = Pair::hybrid();
    for (text, expected) in [
        ("", "EOF"),
        ("[]", "is not a JSON object"),
        ("{\"model_type\": 3}", "model_type: 3 is not a string"),
        ("{}", "model_type: is missing"),
        (
            "{\"model_type\": \"qwen3_5\", \"text_config\": 7}",
            "text_config: is not an object",
        ),
    ] {
        std::fs::write(pair.target().join("config.json"), text).expect("writes");
        has(&pair.refused(), expected);
    }
    std::fs::remove_file(pair.target().join("config.json")).expect("removes");
    has(&pair.refused(), "target/config.json: No such file");
}

#[test]
fn broken_text_files() {
    let pair = Pair::hybrid();
    let put = |name: &str, text: &str| std::fs::write(pair.target().join(name), text).expect("writes");
    put("generation_config.json", "{\"eos_token_id\": 99}");
    has(&pair.refused(), "stop token 99 is outside the vocabulary of 32");
    put("generation_config.json", "{");
    has(&pair.refused(), "generation_config.json: EOF");
    put("generation_config.json", "{}");
    put("tokenizer_config.json", "{\"eos_token\": \"<end>\"}");
    put(
        "tokenizer.json",
        "{\"added_tokens\": [], \"model\": {\"vocab\": {\"a\": 1}}}",
    );
    has(
        &pair.refused(),
        "tokenizer_config.json: eos_token: \"<end>\" is not in tokenizer.json",
    );
    put("tokenizer.json", "[");
    has(&pair.refused(), "tokenizer.json: EOF");
}

#[test]
fn composite_configuration_decides_tying_at_the_top() {
    let mut pair = Pair::hybrid();
    let mut text = configs::tiny_hybrid();
    remove(&mut text, "architectures");
    pair.target_config = configs::composite(&text);
    pair.target_config["tie_word_embeddings"] = json!(false);
    pair.write_configs();
    has(
        &pair.refused(),
        "tensor lm_head.weight: the model needs it, but the file does not hold it",
    );
}
