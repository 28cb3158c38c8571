//! Encodings, decodings and renderings that `transformers` gave for the tiny model.

use super::super::{ChatTemplate, Conversation, RenderOptions};
use super::{data, tiny_tokenizer};
use forkcast_engines::manifest::TextFiles;
use serde_json::Value;

fn golden() -> Value {
    let text = std::fs::read(data("golden/tiny-tokenizer.json")).expect("golden file");
    serde_json::from_slice(&text).expect("golden file is JSON")
}

fn ids(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("ids");
    list.iter().map(|v| v.as_u64().expect("id") as u32).collect()
}

fn template() -> ChatTemplate {
    let files = TextFiles {
        tokenizer_config: Some("tokenizer_config.json".to_owned()),
        chat_template: Some("chat_template.jinja".to_owned()),
        ..TextFiles::default()
    };
    let template = ChatTemplate::open(&data("models/tiny-qwen3.5"), &files);
    template.expect("readable").expect("there is one")
}

#[test]
fn encodings_and_decodings() {
    let tokenizer = tiny_tokenizer();
    let golden = golden();
    let cases = golden["encode"].as_array().expect("cases");
    assert!(cases.len() > 10);
    for case in cases {
        let text = case["text"].as_str().expect("text");
        let expected = ids(&case["ids"]);
        assert_eq!(tokenizer.encode(text).expect("encodes"), expected, "{text:?}");
        assert_eq!(
            tokenizer.decode(&expected, true),
            case["decoded"].as_str().expect("text")
        );
        let skipping = case["decoded_skipping_special"].as_str().expect("text");
        assert_eq!(tokenizer.decode(&expected, false), skipping);
    }
}

#[test]
fn renderings() {
    let (tokenizer, template, golden) = (tiny_tokenizer(), template(), golden());
    let cases = golden["chat"].as_array().expect("cases");
    assert!(cases.len() > 10);
    for case in cases {
        let messages = case["messages"].as_array().expect("messages").clone();
        let options = RenderOptions {
            generation_prompt: case["add_generation_prompt"].as_bool().expect("flag"),
            thinking: case["enable_thinking"].as_bool(),
        };
        let chat = Conversation::new(messages, None).expect("a conversation");
        let text = template.render(&chat, options).expect("renders");
        assert_eq!(text, case["text"].as_str().expect("text"), "{}", case["name"]);
        assert_eq!(tokenizer.encode(&text).expect("encodes"), ids(&case["ids"]));
    }
}

#[test]
fn special_tokens_are_known() {
    let tokenizer = tiny_tokenizer();
    assert!(tokenizer.is_special(2044) && !tokenizer.is_special(2045));
    assert_eq!(tokenizer.bytes(2045), b"<think>");
    assert_eq!(tokenizer.decode(&[2045, 39, 2044], false), "<think>H");
    assert_eq!(tokenizer.decode(&[2045, 39, 2044], true), "<think>H<|im_end|>");
}

#[test]
fn ids_beyond_the_tokenizer_are_empty() {
    let tokenizer = tiny_tokenizer();
    for id in [2048, 2049, 100_000, u32::MAX] {
        assert_eq!(tokenizer.bytes(id), b"");
        assert!(!tokenizer.is_special(id));
    }
    assert_eq!(tokenizer.decode(&[39, u32::MAX, 39], false), "HH");
}
