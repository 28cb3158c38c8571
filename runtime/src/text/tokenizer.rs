//! The tokenizer of a checkpoint, and the bytes of every token.

use super::{TextError, alphabet, supported};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::{AddedToken, Tokenizer as Inner};

/// Largest `tokenizer.json` that is read, in bytes; the largest known has 33 MB.
const MAX_BYTES: u64 = 256 << 20;
/// Largest token id that is taken from a file.
const MAX_ID: u32 = 1 << 22;

/// Encodes text, and knows the bytes of every token. Ids beyond the vocabulary have none.
#[derive(Debug)]
pub struct Tokenizer {
    inner: Inner,
    /// Bytes of all tokens, one after another.
    bytes: Vec<u8>,
    /// Where each token's bytes end, by id.
    ends: Vec<u32>,
    /// Ids that are left out of text, ascending.
    special: Vec<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and from `tokenizer_config.json` the added tokens that the former lacks
    /// (Qwen3.5 has seven of them).
    ///
    /// # Errors
    /// A file is unreadable or no byte-level tokenizer.
    pub fn open(path: &Path, config: Option<&Path>) -> Result<Self, TextError> {
        let json = read_bounded(path)?;
        supported::check(&json).map_err(|e| TextError::file(path, e))?;
        let inner = Inner::from_bytes(&json).map_err(|e| TextError::file(path, e))?;
        let config = config
            .map(|p| Ok::<_, TextError>((p, read_json(p)?)))
            .transpose()?;
        Self::new(inner, path, config.as_ref().map(|(p, v)| (*p, v)))
    }

    fn new(mut inner: Inner, path: &Path, config: Option<(&Path, &Value)>) -> Result<Self, TextError> {
        if !matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return Err(TextError::file(
                path,
                "decoder: only ByteLevel is supported; this file has another one or none",
            ));
        }
        // Callers of the reference implementation choose these per call, and mean neither.
        inner
            .with_truncation(None)
            .map_err(|e| TextError::file(path, e))?;
        inner.with_padding(None);
        if let Some((config_path, config)) = config {
            add_missing(&mut inner, config_path, config)?;
        }
        let added = inner.get_added_tokens_decoder();
        let mut special: Vec<u32> = added
            .iter()
            .filter(|(_, t)| t.special)
            .map(|(id, _)| *id)
            .collect();
        special.sort_unstable();
        let mut tokens: Vec<(u32, String, bool)> = inner
            .get_vocab(false)
            .into_iter()
            .filter(|(_, id)| !added.contains_key(id))
            .map(|(t, id)| (id, t, false))
            .collect();
        tokens.extend(added.iter().map(|(id, t)| (*id, t.content.clone(), true)));
        tokens.sort_unstable();
        let (bytes, ends) = spell(&tokens).map_err(|reason| TextError::file(path, reason))?;
        Ok(Self {
            inner,
            bytes,
            ends,
            special,
        })
    }

    /// Tokens of `text`. Nothing is added around it; special tokens spelled in it are taken as such, as
    /// templates need.
    ///
    /// # Errors
    /// The tokenizer fails on this text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoding = self
            .inner
            .encode_fast(text, false)
            .map_err(|e| TextError::Encode(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// One more than the largest id that has bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of a token; none for ids that the tokenizer does not have (a model's vocabulary may be padded).
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        let i = id as usize;
        let end = self.ends.get(i).map_or(0, |e| *e as usize);
        let start = if i == 0 {
            0
        } else {
            self.ends.get(i - 1).map_or(end, |e| *e as usize)
        };
        self.bytes.get(start..end).unwrap_or(&[])
    }

    /// Whether the token is left out of text, like `<|im_end|>`. `<think>` is not.
    #[must_use]
    pub fn is_special(&self, id: u32) -> bool {
        self.special.binary_search(&id).is_ok()
    }

    /// Id of a token by its spelling.
    #[must_use]
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Id of an added token that cuts every text in two wherever it is spelled: it is looked for before anything else
    /// happens to the text, takes nothing of its surroundings, and is part of no other added token.
    pub(super) fn divider(&self, token: &str) -> Option<u32> {
        let added = self.inner.get_added_tokens_decoder();
        let (id, found) = added.iter().find(|(_, t)| t.content == token)?;
        let bound = found.normalized || found.single_word || found.lstrip || found.rstrip;
        let inside = added
            .values()
            .any(|t| t.content != token && t.content.contains(token));
        (!bound && !inside && !token.is_empty()).then_some(*id)
    }

    /// Text of all `ids` at once; bytes that are no UTF-8 become U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32], keep_special: bool) -> String {
        let kept = ids.iter().filter(|id| keep_special || !self.is_special(**id));
        let bytes: Vec<u8> = kept.flat_map(|id| self.bytes(*id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Bytes of all tokens one after another, and where each id's bytes end. Tokens come by id, and say whether they are
/// spelled as they are or in the alphabet of bytes.
fn spell(tokens: &[(u32, String, bool)]) -> Result<(Vec<u8>, Vec<u32>), String> {
    let largest = tokens.last().map_or(0, |(id, ..)| *id);
    if largest > MAX_ID {
        return Err(format!("token id {largest} is larger than {MAX_ID}"));
    }
    if let Some(two) = tokens.windows(2).find(|w| w[0].0 == w[1].0) {
        return Err(format!(
            "token id {} is given twice: {:?}, {:?}",
            two[0].0, two[0].1, two[1].1
        ));
    }
    let alphabet = alphabet::char_to_byte();
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(largest as usize + 1);
    for (id, token, plain) in tokens {
        let end =
            |bytes: &Vec<u8>| u32::try_from(bytes.len()).map_err(|_| "the tokens are longer than 4 GiB");
        ends.resize(*id as usize, end(&bytes)?);
        if *plain {
            bytes.extend_from_slice(token.as_bytes());
        } else {
            alphabet::spell(token, &alphabet, &mut bytes);
        }
        ends.push(end(&bytes)?);
    }
    Ok((bytes, ends))
}

/// Adds the tokens of `added_tokens_decoder` that follow the ones of `tokenizer.json`.
fn add_missing(inner: &mut Inner, path: &Path, config: &Value) -> Result<(), TextError> {
    let Some(Value::Object(listed)) = config.get("added_tokens_decoder") else {
        return Ok(());
    };
    let mut tokens = Vec::new();
    for (id, token) in listed {
        let wrong = |what: &str| TextError::file(path, format!("added_tokens_decoder.{id}: {what}"));
        let number: u32 = id.parse().map_err(|_| wrong("is no token id"))?;
        let content = token.get("content").and_then(Value::as_str);
        let content = content.ok_or_else(|| wrong("has no content"))?;
        let flag = |name: &str| token.get(name).and_then(Value::as_bool).unwrap_or(false);
        if inner.token_to_id(content).is_none() {
            let added = AddedToken::from(content, flag("special"))
                .single_word(flag("single_word"))
                .lstrip(flag("lstrip"))
                .rstrip(flag("rstrip"))
                .normalized(flag("normalized"));
            tokens.push((number, added));
        }
    }
    tokens.sort_by_key(|(id, _)| *id);
    for (id, token) in tokens {
        let content = token.content.clone();
        inner.add_tokens([token]).map_err(|e| TextError::file(path, e))?;
        let given = inner.token_to_id(&content);
        if given != Some(id) {
            let reason = format!(
                "added_tokens_decoder.{id}: {content:?} is not in tokenizer.json, and the next free id is {}",
                given.map_or_else(|| "unknown".to_owned(), |g| g.to_string())
            );
            return Err(TextError::file(path, reason));
        }
    }
    Ok(())
}

/// Reads a file of bounded size.
pub(super) fn read_bounded(path: &Path) -> Result<Vec<u8>, TextError> {
    let read = |source| TextError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    // Not by the size that the system states: a device or a pipe has none.
    let file = std::fs::File::open(path).map_err(read)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TextError::file(
            path,
            format!("more than the {MAX_BYTES} bytes that are read"),
        ));
    }
    Ok(bytes)
}

/// Reads a JSON file of bounded size.
pub(super) fn read_json(path: &Path) -> Result<Value, TextError> {
    serde_json::from_slice(&read_bounded(path)?).map_err(|e| TextError::file(path, e))
}
