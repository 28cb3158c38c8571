//! From tokens back to text while they come out: whole characters only.

use super::Tokenizer;

/// Turns a stream of tokens into text. A character split over tokens is held back until it is whole;
/// bytes that cannot become one turn into U+FFFD at once. All pieces together are the lossy UTF-8 text of
/// all bytes together.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// Start of a character that is not whole yet: at most three bytes between calls.
    pending: Vec<u8>,
    keep_special: bool,
}

impl Detokenizer {
    /// Leaves special tokens out of the text unless `keep_special`.
    #[must_use]
    pub fn new(keep_special: bool) -> Self {
        Self {
            pending: Vec::new(),
            keep_special,
        }
    }

    /// Appends to `out` the text that `id` completes.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut String) {
        if self.keep_special || !tokenizer.is_special(id) {
            self.push_bytes(tokenizer.bytes(id), out);
        }
    }

    /// Appends to `out` the characters that `bytes` complete.
    pub fn push_bytes(&mut self, bytes: &[u8], out: &mut String) {
        self.pending.extend_from_slice(bytes);
        let mut done = 0;
        while done < self.pending.len() {
            let rest = &self.pending[done..];
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    done = self.pending.len();
                }
                Err(e) => {
                    let valid = &rest[..e.valid_up_to()];
                    out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    done += valid.len();
                    let Some(bad) = e.error_len() else { break };
                    out.push(char::REPLACEMENT_CHARACTER);
                    done += bad;
                }
            }
        }
        self.pending.drain(..done);
    }

    /// Ends the stream: what is left of a character becomes U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}
