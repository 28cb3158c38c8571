//! Tokenizer files, templates, conversations.

use super::halves;
use crate::scratch::{folder, put};
use forkcast::text::{ChatTemplate, Conversation, RenderOptions, TextModel, Tokenizer};
use forkcast_engines::manifest::TextFiles;
use forkcast_exporter::entry;
use forkcast_tests::paths;
use std::sync::OnceLock;

const TEXT: &str = "The sea, 12 € and \u{1f600}!\n  <|im_end|> don't\t\u{0301}";

/// `tokenizer.json`, a line `---`, and `tokenizer_config.json`. What opens must encode, and spell what it encoded.
pub fn tokenizer(data: &[u8]) {
    let dir = folder("tokenizer");
    let (json, config) = halves(data);
    put(&dir, "tokenizer.json", json);
    let config_path = dir.join("tokenizer_config.json");
    if config.is_empty() {
        drop(std::fs::remove_file(&config_path));
    } else {
        put(&dir, "tokenizer_config.json", config);
    }
    drop(entry::stop_ids(&dir, 1 << 20));
    let config_path = config_path.exists().then_some(config_path);
    let opened = Tokenizer::open(&dir.join("tokenizer.json"), config_path.as_deref());
    if let Ok(tokenizer) = opened
        && let Ok(ids) = tokenizer.encode(TEXT)
    {
        drop(tokenizer.decode(&ids, true));
        drop(tokenizer.decode(&ids, false));
    }
}

fn options() -> impl Iterator<Item = RenderOptions> {
    [None, Some(true), Some(false)]
        .into_iter()
        .map(|thinking| RenderOptions {
            generation_prompt: thinking != Some(true),
            thinking,
        })
}

/// A template, a line `---`, and a conversation; a usual conversation without one.
pub fn template(data: &[u8]) {
    let (source, conversation) = halves(data);
    let Ok(source) = std::str::from_utf8(source) else {
        return;
    };
    let Ok(template) = ChatTemplate::from_source(source) else {
        return;
    };
    let conversation = Conversation::parse(conversation).unwrap_or_else(|_| Conversation::user(TEXT));
    drop(template.render(&conversation, RenderOptions::default()));
}

/// Text files of the tiny model: its template is Qwen's.
fn model() -> &'static TextModel {
    static MODEL: OnceLock<TextModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let name = |n: &str| Some(n.to_owned());
        let files = TextFiles {
            tokenizer: name("tokenizer.json"),
            tokenizer_config: name("tokenizer_config.json"),
            chat_template: name("chat_template.jinja"),
            generation_config: name("generation_config.json"),
        };
        TextModel::open(&paths::model("tiny-qwen3.5"), &files).expect("text files of the tiny model")
    })
}

/// A conversation as `generate --messages` reads it, rendered by the tiny model's template and encoded.
pub fn conversation(data: &[u8]) {
    let Ok(conversation) = Conversation::parse(data) else {
        return;
    };
    for options in options() {
        drop(model().encode_chat(&conversation, options));
    }
}
