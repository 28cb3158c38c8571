//! Sparse checkpoints of the published shapes, by short name.

use crate::checkpoints::{self, Spec, write_config, write_sharded, write_sparse};
use crate::configs;
use serde_json::Value;
use std::path::Path;

/// The names that [`specs`] and [`write`] know.
#[allow(dead_code, reason = "the example lists them, the tests do not")]
pub(crate) const NAMES: [&str; 6] = [
    "qwen3.5-4b",
    "qwen3-4b",
    "qwen3.5-4b-dflash",
    "qwen3.5-4b-mfd",
    "qwen3.5-4b-dflash-first",
    "qwen3-4b-mdraft",
];

fn parts(name: &str) -> (Value, Vec<Spec>) {
    let (config, specs) = match name {
        "qwen3.5-4b" => {
            let text = configs::qwen35_4b_text();
            let mut specs = checkpoints::qwen35(&text, "model.language_model.", "BF16");
            specs.extend(checkpoints::vision_and_mtp(&text, "BF16"));
            (configs::composite(&text), specs)
        }
        "qwen3-4b" => {
            let config = configs::qwen3_4b();
            let specs = checkpoints::qwen3(&config, "BF16");
            (config, specs)
        }
        "qwen3.5-4b-dflash" => drafter(configs::drafter_qwen35_second(), "BF16", 8, 1),
        "qwen3.5-4b-mfd" => drafter(configs::drafter_qwen35_mfd(), "BF16", 8, 8),
        "qwen3.5-4b-dflash-first" => drafter(configs::drafter_qwen35_first(), "BF16", 5, 1),
        "qwen3-4b-mdraft" => drafter(configs::drafter_qwen3_mdraft(), "F32", 5, 1),
        other => panic!("no sparse checkpoint is called {other}"),
    };
    (config, specs)
}

fn drafter(config: Value, dtype: &'static str, taps: usize, modes: usize) -> (Value, Vec<Spec>) {
    let specs = checkpoints::drafter(&config, dtype, taps, modes);
    (config, specs)
}

/// Tensors of a checkpoint.
#[allow(dead_code, reason = "the tests count them, the example does not")]
pub(crate) fn specs(name: &str) -> Vec<Spec> {
    parts(name).1
}

/// Writes a checkpoint into `dir`; targets are sharded, with the 4B's odd shard names.
pub(crate) fn write(dir: &Path, name: &str) {
    let (config, specs) = parts(name);
    std::fs::create_dir_all(dir).expect("folder");
    write_config(dir, &config);
    if matches!(name, "qwen3.5-4b" | "qwen3-4b") {
        let half = specs.len() / 2;
        let first: std::collections::HashSet<String> =
            specs.iter().take(half).map(|s| s.name.clone()).collect();
        let shard = |s: &Spec| {
            let number = if first.contains(&s.name) { 1 } else { 2 };
            format!("model.safetensors-{number:05}-of-00002.safetensors")
        };
        write_sharded(dir, &specs, shard, write_sparse);
    } else {
        write_sparse(&dir.join("model.safetensors"), &specs);
    }
}
