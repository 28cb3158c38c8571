//! Tokenizer, template and generation files, and the tokens that end an answer.

use crate::ExportError;
use crate::config::{Fields, MAX_JSON, read_bounded};
use forkcast_engines::manifest::TextFiles;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Which of the text files `dir` has.
pub(crate) fn files(dir: &Path) -> TextFiles {
    let have = |name: &str| dir.join(name).is_file().then(|| name.to_owned());
    TextFiles {
        tokenizer: have("tokenizer.json"),
        tokenizer_config: have("tokenizer_config.json"),
        chat_template: have("chat_template.jinja"),
        generation_config: have("generation_config.json"),
    }
}

/// Names of the text files, in a fixed order.
pub(crate) fn names(files: &TextFiles) -> impl Iterator<Item = &str> {
    [
        &files.tokenizer,
        &files.tokenizer_config,
        &files.chat_template,
        &files.generation_config,
    ]
    .into_iter()
    .filter_map(Option::as_deref)
}

/// Stop tokens: generation_config, config and the tokenizer's own, united and sorted. Qwen3.5's config.json
/// names `<|endoftext|>` only, while chat turns end with the tokenizer's `<|im_end|>`.
pub(crate) fn stop_ids(
    dir: &Path,
    files: &TextFiles,
    config_eos: &[u32],
    vocab: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<u32>, ExportError> {
    let mut ids: BTreeSet<u32> = config_eos.iter().copied().collect();
    if let Some(name) = &files.generation_config {
        ids.extend(object(&dir.join(name))?.token_ids("eos_token_id")?);
    }
    if let Some(name) = &files.tokenizer_config {
        ids.extend(tokenizer_eos(dir, &object(&dir.join(name))?, files, notes)?);
    }
    if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
        return Err(ExportError::file(
            dir,
            format!("stop token {id} is outside the vocabulary of {vocab}"),
        ));
    }
    if files.tokenizer.is_none() {
        notes.push("there is no tokenizer.json: the bundle takes and gives token ids only".to_owned());
    }
    if ids.is_empty() {
        notes.push("no stop token is known: answers end at the length limit only".to_owned());
    }
    Ok(ids.into_iter().collect())
}

fn object(path: &Path) -> Result<Fields, ExportError> {
    let text = read_bounded(path, MAX_JSON)?;
    let value = serde_json::from_slice(&text).map_err(|e| ExportError::file(path, e.to_string()))?;
    Fields::new(path.to_owned(), value)
}

/// Id of the token that `tokenizer_config.json` calls `eos_token`.
fn tokenizer_eos(
    dir: &Path,
    config: &Fields,
    files: &TextFiles,
    notes: &mut Vec<String>,
) -> Result<Option<u32>, ExportError> {
    let content = match config.get("eos_token") {
        None => return Ok(None),
        Some(Value::String(s)) => s.clone(),
        Some(Value::Object(o)) => match o.get("content").and_then(Value::as_str) {
            Some(s) => s.to_owned(),
            None => return Err(config.error("eos_token", "has no content")),
        },
        Some(_) => return Err(config.error("eos_token", "is no token")),
    };
    if let Some(Value::Object(added)) = config.get("added_tokens_decoder") {
        let found = added
            .iter()
            .find(|(_, token)| token.get("content").and_then(Value::as_str) == Some(&content));
        if let Some((id, _)) = found {
            return id
                .parse()
                .map(Some)
                .map_err(|_| config.error("added_tokens_decoder", format!("{id:?} is no token id")));
        }
    }
    let Some(name) = &files.tokenizer else {
        notes.push(format!(
            "eos_token {content:?} is not used as a stop token: there is no tokenizer.json to look it up in"
        ));
        return Ok(None);
    };
    match lookup(&dir.join(name), &content)? {
        Some(id) => Ok(Some(id)),
        None => Err(config.error("eos_token", format!("{content:?} is not in {name}"))),
    }
}

/// Only what is needed of `tokenizer.json`: the rest of 20 MB is skipped while parsing.
#[derive(serde::Deserialize)]
struct Tokenizer {
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(serde::Deserialize)]
struct Added {
    id: u32,
    content: String,
}

#[derive(serde::Deserialize)]
struct WithVocab {
    model: Model,
}

#[derive(serde::Deserialize)]
struct Model {
    vocab: std::collections::HashMap<String, u32>,
}

fn lookup(path: &Path, content: &str) -> Result<Option<u32>, ExportError> {
    let text = read_bounded(path, MAX_JSON)?;
    let broken = |e: serde_json::Error| ExportError::file(path, e.to_string());
    let tokenizer: Tokenizer = serde_json::from_slice(&text).map_err(broken)?;
    if let Some(token) = tokenizer.added_tokens.iter().find(|t| t.content == content) {
        return Ok(Some(token.id));
    }
    let tokenizer: WithVocab = serde_json::from_slice(&text).map_err(broken)?;
    Ok(tokenizer.model.vocab.get(content).copied())
}
