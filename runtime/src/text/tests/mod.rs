//! Tests of text: goldens of the tiny model, streaming, stop strings, templates, conversations.

mod chat;
mod golden;
mod memo;
mod stop;
mod streaming;
mod template;

use std::path::{Path, PathBuf};

/// A file below `tests/` of the repository.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(name)
}

fn tiny_tokenizer() -> super::Tokenizer {
    let folder = data("models/tiny-qwen3.5");
    let config = folder.join("tokenizer_config.json");
    super::Tokenizer::open(&folder.join("tokenizer.json"), Some(&config)).expect("the tiny tokenizer")
}
