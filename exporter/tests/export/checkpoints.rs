//! Makes checkpoints: small ones with numbers in them, and sparse ones of the published shapes that
//! take no room on disk. Used by the tests and by `examples/sparse_checkpoint.rs`.

use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A tensor to write: name, safetensors type, shape.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
}

impl Spec {
    pub(crate) fn new(name: impl Into<String>, dtype: &'static str, shape: &[usize]) -> Self {
        Self {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
        }
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn bytes(&self) -> usize {
        let size = match self.dtype {
            "F32" | "I32" => 4,
            "F64" | "I64" => 8,
            "U8" | "F8_E4M3" => 1,
            _ => 2,
        };
        self.elements() * size
    }
}

/// Header of a file with `specs` one after another.
pub(crate) fn header(specs: &[Spec]) -> Vec<u8> {
    let mut map = Map::new();
    map.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut at = 0;
    for s in specs {
        let end = at + s.bytes();
        map.insert(
            s.name.clone(),
            json!({"dtype": s.dtype, "shape": s.shape, "data_offsets": [at, end]}),
        );
        at = end;
    }
    let mut text = Value::Object(map).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut all = (text.len() as u64).to_le_bytes().to_vec();
    all.extend(text);
    all
}

/// Writes a file whose numbers are a hole: right size, all zeros, no room on disk.
pub(crate) fn write_sparse(path: &Path, specs: &[Spec]) {
    let head = header(specs);
    let total: usize = specs.iter().map(Spec::bytes).sum();
    let mut file = File::create(path).expect("creates");
    file.write_all(&head).expect("writes");
    file.set_len((head.len() + total) as u64).expect("grows");
}

/// Writes a file with small numbers that depend on name and index only.
pub(crate) fn write_filled(path: &Path, specs: &[Spec]) {
    let mut file = BufWriter::new(File::create(path).expect("creates"));
    file.write_all(&header(specs)).expect("writes");
    for s in specs {
        let mut x = s
            .name
            .bytes()
            .fold(17_u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
        for _ in 0..s.elements() {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let v = (x >> 8) as f32 / (1 << 24) as f32 * 0.2 - 0.1;
            match s.dtype {
                "F32" => file.write_all(&v.to_le_bytes()),
                "BF16" => file.write_all(&half::bf16::from_f32(v).to_le_bytes()),
                "F16" => file.write_all(&half::f16::from_f32(v).to_le_bytes()),
                _ => file.write_all(&vec![0; s.bytes() / s.elements()]),
            }
            .expect("writes");
        }
    }
    file.flush().expect("writes");
}

/// Writes `config.json` and one file of filled numbers.
pub(crate) fn write_checkpoint(dir: &Path, config: &Value, specs: &[Spec]) {
    std::fs::create_dir_all(dir).expect("folder");
    write_config(dir, config);
    write_filled(&dir.join("model.safetensors"), specs);
}

/// Writes `config.json`.
pub(crate) fn write_config(dir: &Path, config: &Value) {
    std::fs::write(dir.join("config.json"), config.to_string()).expect("writes");
}

/// Writes an index and shards; `shard_of` names the shard of each tensor.
pub(crate) fn write_sharded(
    dir: &Path,
    specs: &[Spec],
    shard_of: impl Fn(&Spec) -> String,
    write: impl Fn(&Path, &[Spec]),
) {
    let mut shards: std::collections::BTreeMap<String, Vec<Spec>> = Default::default();
    let mut map = Map::new();
    for s in specs {
        let shard = shard_of(s);
        map.insert(s.name.clone(), Value::String(shard.clone()));
        shards.entry(shard).or_default().push(s.clone());
    }
    for (name, specs) in &shards {
        write(&dir.join(name), specs);
    }
    let index = json!({"metadata": {}, "weight_map": map});
    std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).expect("writes");
}

fn size(config: &Value, field: &str) -> usize {
    config[field].as_u64().unwrap_or_else(|| panic!("{field}")) as usize
}

/// Attention, MLP and norms that targets and drafters share.
fn layer(
    config: &Value,
    prefix: &str,
    dtype: &'static str,
    gates: usize,
    attention: bool,
    out: &mut Vec<Spec>,
) {
    let (h, i) = (size(config, "hidden_size"), size(config, "intermediate_size"));
    let d = size(config, "head_dim");
    let (q, kv) = (
        size(config, "num_attention_heads") * d,
        size(config, "num_key_value_heads") * d,
    );
    let mut add =
        |name: &str, shape: &[usize]| out.push(Spec::new(format!("{prefix}{name}.weight"), dtype, shape));
    add("input_layernorm", &[h]);
    add("post_attention_layernorm", &[h]);
    add("mlp.gate_proj", &[i, h]);
    add("mlp.up_proj", &[i, h]);
    add("mlp.down_proj", &[h, i]);
    if attention {
        add("self_attn.q_proj", &[gates * q, h]);
        add("self_attn.k_proj", &[kv, h]);
        add("self_attn.v_proj", &[kv, h]);
        add("self_attn.o_proj", &[h, q]);
        add("self_attn.q_norm", &[d]);
        add("self_attn.k_norm", &[d]);
    }
}

/// Tensors of a Qwen3 target.
pub(crate) fn qwen3(config: &Value, dtype: &'static str) -> Vec<Spec> {
    let (h, v) = (size(config, "hidden_size"), size(config, "vocab_size"));
    let mut out = vec![
        Spec::new("model.embed_tokens.weight", dtype, &[v, h]),
        Spec::new("model.norm.weight", dtype, &[h]),
    ];
    for n in 0..size(config, "num_hidden_layers") {
        layer(config, &format!("model.layers.{n}."), dtype, 1, true, &mut out);
    }
    out
}

/// Tensors of the text part of a Qwen3.5 target; `config` is the text configuration. `A_log` and the
/// gated norm are F32, as published.
pub(crate) fn qwen35(config: &Value, prefix: &str, dtype: &'static str) -> Vec<Spec> {
    let (h, v) = (size(config, "hidden_size"), size(config, "vocab_size"));
    let (hk, hv) = (
        size(config, "linear_num_key_heads"),
        size(config, "linear_num_value_heads"),
    );
    let (dk, dv) = (
        size(config, "linear_key_head_dim"),
        size(config, "linear_value_head_dim"),
    );
    let channels = 2 * hk * dk + hv * dv;
    let mut out = vec![
        Spec::new(format!("{prefix}embed_tokens.weight"), dtype, &[v, h]),
        Spec::new(format!("{prefix}norm.weight"), dtype, &[h]),
    ];
    for n in 0..size(config, "num_hidden_layers") {
        let full = (n + 1) % 4 == 0;
        let p = format!("{prefix}layers.{n}.");
        layer(config, &p, dtype, 2, full, &mut out);
        if full {
            continue;
        }
        let mut add = |name: &str, dtype, shape: &[usize]| {
            out.push(Spec::new(format!("{p}linear_attn.{name}"), dtype, shape));
        };
        add("in_proj_qkv.weight", dtype, &[channels, h]);
        add("in_proj_z.weight", dtype, &[hv * dv, h]);
        add("in_proj_b.weight", dtype, &[hv, h]);
        add("in_proj_a.weight", dtype, &[hv, h]);
        add("conv1d.weight", dtype, &[channels, 1, 4]);
        add("A_log", "F32", &[hv]);
        add("dt_bias", dtype, &[hv]);
        add("norm.weight", "F32", &[dv]);
        add("out_proj.weight", dtype, &[h, hv * dv]);
    }
    out
}

/// Tensors of a drafter of the DFlash family for `taps` tapped layers; several `modes` make it an MFD drafter.
pub(crate) fn drafter(config: &Value, dtype: &'static str, taps: usize, modes: usize) -> Vec<Spec> {
    let h = size(config, "hidden_size");
    let mut out = vec![
        Spec::new("fc.weight", dtype, &[h, taps * h]),
        Spec::new("hidden_norm.weight", dtype, &[h]),
        Spec::new("norm.weight", dtype, &[h]),
    ];
    for n in 0..size(config, "num_hidden_layers") {
        layer(config, &format!("layers.{n}."), dtype, 1, true, &mut out);
    }
    if modes > 1 {
        out.push(Spec::new("mode_embed", dtype, &[modes, h]));
        out.push(Spec::new("mode_gate.weight", dtype, &[modes, h]));
        out.push(Spec::new("mode_gate.bias", dtype, &[modes]));
    }
    out
}

/// Vision tower and multi-token-prediction weights of composite Qwen3.5 checkpoints (shapes of the 4B).
pub(crate) fn vision_and_mtp(text: &Value, dtype: &'static str) -> Vec<Spec> {
    let h = size(text, "hidden_size");
    let mut out = Vec::new();
    let mut add = |name: &str, shape: &[usize]| {
        out.push(Spec::new(format!("model.visual.{name}"), dtype, shape));
    };
    add("patch_embed.proj.weight", &[1024, 3, 2, 16, 16]);
    add("patch_embed.proj.bias", &[1024]);
    add("pos_embed.weight", &[2304, 1024]);
    for n in 0..24 {
        for (name, rows, cols) in [
            ("attn.qkv", 3072, 1024),
            ("attn.proj", 1024, 1024),
            ("mlp.linear_fc1", 4096, 1024),
            ("mlp.linear_fc2", 1024, 4096),
        ] {
            add(&format!("blocks.{n}.{name}.weight"), &[rows, cols]);
            add(&format!("blocks.{n}.{name}.bias"), &[rows]);
        }
        for name in ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"] {
            add(&format!("blocks.{n}.{name}"), &[1024]);
        }
    }
    for (name, shape) in [
        ("norm.weight", vec![1024]),
        ("norm.bias", vec![1024]),
        ("linear_fc1.weight", vec![4096, 4096]),
        ("linear_fc1.bias", vec![4096]),
        ("linear_fc2.weight", vec![h, 4096]),
        ("linear_fc2.bias", vec![h]),
    ] {
        add(&format!("merger.{name}"), &shape);
    }
    out.push(Spec::new("mtp.fc.weight", dtype, &[h, 2 * h]));
    for name in ["pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"] {
        out.push(Spec::new(format!("mtp.{name}.weight"), dtype, &[h]));
    }
    layer(text, "mtp.layers.0.", dtype, 2, true, &mut out);
    out
}
