//! Log-probabilities of tokens, in both shapes that clients know.

use super::super::api::{Alternative, ChatLogprobs, TextLogprobs, TokenLogprob};
use super::super::engine::TokenEvent;
use super::super::model::Model;
use serde_json::{Map, Value};

/// Entries since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Logprobs {
    entries: Vec<TokenLogprob>,
    /// Characters of all tokens before the entries.
    offset: usize,
}

impl Logprobs {
    /// Notes a token.
    pub(super) fn push(&mut self, model: &Model, token: &TokenEvent) {
        let Some(logprob) = token.logprob else {
            return;
        };
        let (text, bytes) = spell(model, token.id);
        let alternative = |(id, logprob): &(u32, f32)| {
            let (token, bytes) = spell(model, *id);
            Alternative {
                token,
                logprob: finite(*logprob),
                bytes,
            }
        };
        self.entries.push(TokenLogprob {
            token: text,
            logprob: finite(logprob),
            bytes,
            top_logprobs: token.top.iter().map(alternative).collect(),
        });
    }

    /// Takes the entries for a new chunk, if there are any.
    pub(super) fn take(&mut self) -> Option<Self> {
        if self.entries.is_empty() {
            return None;
        }
        let offset = self.offset;
        self.offset += self
            .entries
            .iter()
            .map(|e| e.token.chars().count())
            .sum::<usize>();
        Some(Self {
            entries: std::mem::take(&mut self.entries),
            offset,
        })
    }

    /// As chat answers have them.
    pub(super) fn chat(self) -> ChatLogprobs {
        ChatLogprobs {
            content: self.entries,
        }
    }

    /// As continued texts have them.
    pub(super) fn text(self) -> TextLogprobs {
        let mut out = TextLogprobs::default();
        let mut offset = self.offset;
        for entry in self.entries {
            out.text_offset.push(offset);
            offset += entry.token.chars().count();
            let top = entry.top_logprobs.iter();
            let top: Map<String, Value> = top
                .map(|a| (name(&a.token, &a.bytes), Value::from(a.logprob)))
                .collect();
            out.top_logprobs.push(top);
            out.tokens.push(name(&entry.token, &entry.bytes));
            out.token_logprobs.push(entry.logprob);
        }
        out
    }
}

/// Text and bytes of a token.
fn spell(model: &Model, id: u32) -> (String, Vec<u8>) {
    let bytes = model
        .tokenizer()
        .map(|t| t.bytes(id).to_vec())
        .unwrap_or_default();
    (String::from_utf8_lossy(&bytes).into_owned(), bytes)
}

/// JSON has no infinity; a token that cannot come has the least number.
fn finite(logprob: f32) -> f32 {
    logprob.max(f32::MIN)
}

/// Name of a token where names must differ: bytes that are no text are spelled out.
fn name(text: &str, bytes: &[u8]) -> String {
    use std::fmt::Write;
    if std::str::from_utf8(bytes).is_ok() {
        return text.to_owned();
    }
    let mut name = "bytes:".to_owned();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(name, "\\x{byte:02x}");
    }
    name
}
