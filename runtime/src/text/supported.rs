//! What a `tokenizer.json` may hold: what byte-level BPE models use. The library behind knows much more; some of that draws
//! at random, and some of it panics on files that contradict themselves.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::HashMap;

/// Longest pattern that text is split by, in bytes; those of Qwen have 140.
const MAX_PATTERN: usize = 4096;
/// Most normalizers or splitters in a row, and how deep they may be nested.
const MAX_STEPS: usize = 16;

#[derive(Deserialize)]
struct File {
    model: Model,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    /// Read whole here: the library panics on a decoder that is no valid JSON.
    #[serde(default)]
    decoder: Value,
}

/// A pair of tokens that becomes one; older files have it as one string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Text(String),
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    vocab: HashMap<String, IgnoredAny>,
    #[serde(default)]
    merges: Vec<Merge>,
    #[serde(rename = "type", default)]
    kind: Value,
    #[serde(default)]
    dropout: Value,
    #[serde(default)]
    unk_token: Value,
    #[serde(default)]
    continuing_subword_prefix: Value,
    #[serde(default)]
    end_of_word_suffix: Value,
    #[serde(default)]
    byte_fallback: Value,
}

/// Refuses what is not supported, by field.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    // What is skipped while parsing is not looked at, so characters are checked first.
    let text = std::str::from_utf8(json).map_err(|e| e.to_string())?;
    let file: File = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let kind = file.decoder.get("type").and_then(Value::as_str);
    if kind != Some("ByteLevel") {
        return Err(format!(
            "decoder: only ByteLevel is supported; this file has {}",
            kind.map_or_else(|| "none".to_owned(), |k| format!("{k:?}"))
        ));
    }
    let model = &file.model;
    if model.kind != "BPE" {
        return Err(format!(
            "model.type: only \"BPE\" is supported, found {}",
            brief(&model.kind)
        ));
    }
    let switches = [
        ("dropout", &model.dropout),
        ("unk_token", &model.unk_token),
        ("continuing_subword_prefix", &model.continuing_subword_prefix),
        ("end_of_word_suffix", &model.end_of_word_suffix),
        ("byte_fallback", &model.byte_fallback),
    ];
    for (name, value) in switches {
        let off =
            matches!(value, Value::Null | Value::Bool(false)) || *value == "" || value.as_f64() == Some(0.0);
        if !off {
            return Err(format!("model.{name}: {} is not supported", brief(value)));
        }
    }
    merges(model)?;
    steps(
        "normalizer",
        &file.normalizer,
        "normalizers",
        &["NFC", "NFD", "NFKC", "NFKD"],
        0,
    )?;
    let splitters = &["Split", "ByteLevel", "Digits"];
    steps(
        "pre_tokenizer",
        &file.pre_tokenizer,
        "pretokenizers",
        splitters,
        0,
    )?;
    let processors = &["ByteLevel", "TemplateProcessing"];
    steps(
        "post_processor",
        &file.post_processor,
        "processors",
        processors,
        0,
    )
}

/// Parts and whole of every merge are tokens: the library panics on a whole that is longer than any token.
fn merges(model: &Model) -> Result<(), String> {
    for (i, merge) in model.merges.iter().enumerate() {
        let (a, b) = match merge {
            Merge::Pair(a, b) => (a.as_str(), b.as_str()),
            Merge::Text(text) => text
                .split_once(' ')
                .ok_or_else(|| format!("model.merges[{i}]: is no pair"))?,
        };
        let whole = format!("{a}{b}");
        if let Some(absent) = [a, b, &whole].into_iter().find(|t| !model.vocab.contains_key(*t)) {
            let shown: String = absent.chars().take(60).collect();
            return Err(format!("model.merges[{i}]: {shown:?} is not in the vocabulary"));
        }
    }
    Ok(())
}

/// A step of a known kind, or a list of them.
fn steps(field: &str, step: &Value, list: &str, known: &[&str], depth: usize) -> Result<(), String> {
    if step.is_null() {
        return Ok(());
    }
    let kind = step.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind != "Sequence" {
        if !known.contains(&kind) {
            return Err(format!("{field}: only {known:?} are supported, found {kind:?}"));
        }
        let pattern = step
            .pointer("/pattern/Regex")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if pattern.len() > MAX_PATTERN {
            return Err(format!("{field}: a pattern of more than {MAX_PATTERN} bytes"));
        }
        return Ok(());
    }
    let inner = step.get(list).and_then(Value::as_array);
    let inner = inner.ok_or_else(|| format!("{field}: {list} is no list"))?;
    if inner.len() > MAX_STEPS || depth >= MAX_STEPS {
        return Err(format!("{field}: more than {MAX_STEPS} steps"));
    }
    inner
        .iter()
        .try_for_each(|s| steps(field, s, list, known, depth + 1))
}

/// A value as an error shows it.
fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => "a list or an object".to_owned(),
        other => other.to_string().chars().take(60).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut Value)) -> String {
        let mut file: Value = serde_json::from_str(
            r#"{"model":{"type":"BPE","vocab":{},"merges":[],"dropout":null,"continuing_subword_prefix":"","byte_fallback":false},
                "normalizer":{"type":"NFC"},"decoder":{"type":"ByteLevel"},"post_processor":null,
                "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+"}},{"type":"ByteLevel"}]}}"#,
        )
        .unwrap();
        check(file.to_string().as_bytes()).expect("the file without a change");
        change(&mut file);
        check(file.to_string().as_bytes()).expect_err("refused")
    }

    #[test]
    fn other_tokenizers_are_refused_by_field() {
        type Case = (&'static str, fn(&mut Value));
        let cases: [Case; 11] = [
            ("model.merges[0]: \"ab\" is not", |f| {
                f["model"]["vocab"] = serde_json::json!({"a": 0, "b": 1});
                f["model"]["merges"] = serde_json::json!([["a", "b"]]);
            }),
            ("model.merges[0]: is no pair", |f| {
                f["model"]["merges"] = serde_json::json!(["ab"])
            }),
            ("model.type", |f| f["model"]["type"] = "Unigram".into()),
            ("model.type", |f| {
                drop(f["model"].as_object_mut().unwrap().remove("type"))
            }),
            ("model.dropout", |f| f["model"]["dropout"] = 0.5.into()),
            ("model.unk_token", |f| f["model"]["unk_token"] = "x".into()),
            ("model.continuing_subword_prefix", |f| {
                f["model"]["continuing_subword_prefix"] = "##".into()
            }),
            ("model.byte_fallback", |f| {
                f["model"]["byte_fallback"] = true.into()
            }),
            ("normalizer: only", |f| {
                f["normalizer"]["type"] = "Precompiled".into()
            }),
            ("pre_tokenizer: only", |f| {
                f["pre_tokenizer"]["pretokenizers"][0]["type"] = "Metaspace".into()
            }),
            ("a pattern of more than", |f| {
                f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "x".repeat(5000).into();
            }),
        ];
        for (needle, change) in cases {
            let error = refused(change);
            assert!(error.contains(needle), "{error}");
        }
    }
}
