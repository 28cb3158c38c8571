//! Tokens of a chat's earlier turns, kept so that only the new ones are tokenized.

use super::{TextError, Tokenizer};
use std::sync::{Arc, Mutex, PoisonError};

/// Remembers the last text and its tokens.
///
/// A token of the template that opens a turn is found in a text before anything else happens to it, and the pieces between
/// such tokens are encoded one by one. Texts that share everything up to one of them therefore share all tokens before it.
#[derive(Debug)]
pub struct Memo {
    opener: String,
    id: u32,
    last: Mutex<Arc<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    text: String,
    tokens: Vec<u32>,
    /// Where turns open: byte in the text, place among the tokens.
    turns: Vec<(usize, usize)>,
}

impl Memo {
    /// A memo of texts whose turns open with `opener`; none if `tokenizer` does not cut texts at it in all places.
    #[must_use]
    pub fn new(tokenizer: &Tokenizer, opener: &str) -> Option<Self> {
        Some(Self {
            id: tokenizer.divider(opener)?,
            opener: opener.to_owned(),
            last: Mutex::default(),
        })
    }

    /// Tokens of `text`: the same that `tokenizer` gives without a memo.
    ///
    /// # Errors
    /// The tokenizer fails on this text.
    pub fn encode(&self, tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
        // No code that can panic runs under the lock.
        let last = Arc::clone(&self.last.lock().unwrap_or_else(PoisonError::into_inner));
        let (byte, place) = self.shared(&last, text);
        let mut tokens = last.tokens[..place].to_vec();
        tokens.extend(tokenizer.encode(&text[byte..])?);
        let known = Arc::new(Known {
            turns: self.turns(text, &tokens),
            text: text.to_owned(),
            tokens: tokens.clone(),
        });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(tokens)
    }

    /// The last turn that `known` and `text` both open after the same beginning; (0, 0) if there is none.
    fn shared(&self, known: &Known, text: &str) -> (usize, usize) {
        let pairs = known.text.as_bytes().iter().zip(text.as_bytes());
        let common = pairs.take_while(|(a, b)| a == b).count();
        let open = |(byte, _): &&(usize, usize)| byte + self.opener.len() <= common;
        known.turns.iter().rev().find(open).copied().unwrap_or((0, 0))
    }

    /// Where turns open; nothing where text and tokens do not agree on it.
    fn turns(&self, text: &str, tokens: &[u32]) -> Vec<(usize, usize)> {
        let bytes: Vec<usize> = text.match_indices(&self.opener).map(|(i, _)| i).collect();
        let places = tokens.iter().enumerate().filter(|(_, t)| **t == self.id);
        let places: Vec<usize> = places.map(|(i, _)| i).collect();
        if bytes.len() == places.len() {
            bytes.into_iter().zip(places).collect()
        } else {
            Vec::new()
        }
    }
}
