//! Tokens of an answer become text, on stdout or kept.

use super::super::output;
use crate::exit::Failure;
use forkcast::decode::{Emitted, Sink, Verdict};
use forkcast::text::{Piece, TextStream, Tokenizer};
use std::io;

/// Receives the tokens of one answer.
pub(in super::super) struct Output<'a> {
    tokenizer: Option<&'a Tokenizer>,
    stop_ids: &'a [u32],
    stream: TextStream,
    text: String,
    /// Write pieces to stdout as they come.
    live: bool,
    error: Option<io::Error>,
    stopped: bool,
}

impl<'a> Output<'a> {
    /// A receiver that ends at `stops`. `live` writes text to stdout at once, or ids where there is no
    /// tokenizer.
    pub(in super::super) fn new(
        tokenizer: Option<&'a Tokenizer>,
        stops: &[String],
        stop_ids: &'a [u32],
        live: bool,
    ) -> Result<Self, Failure> {
        Ok(Self {
            tokenizer,
            stop_ids,
            stream: TextStream::new(stops, false)?,
            text: String::new(),
            live,
            error: None,
            stopped: false,
        })
    }

    /// Releases what was held back. The whole text, if there is a tokenizer.
    pub(in super::super) fn finish(&mut self) -> Option<String> {
        if !self.stopped {
            let rest = self.stream.finish();
            self.take(rest);
        }
        self.tokenizer.map(|_| std::mem::take(&mut self.text))
    }

    /// Why stdout failed, if it did.
    pub(in super::super) fn error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn take(&mut self, piece: Piece) -> Verdict {
        self.write(&piece.text);
        self.text.push_str(&piece.text);
        self.stopped |= piece.stopped;
        if self.error.is_some() {
            Verdict::Cancel
        } else if piece.stopped {
            Verdict::Stop
        } else {
            Verdict::Continue
        }
    }

    fn write(&mut self, text: &str) {
        if self.live && self.error.is_none() && !text.is_empty() {
            self.error = output::data(text).err();
        }
    }
}

impl Sink for Output<'_> {
    fn token(&mut self, token: &Emitted<'_>) -> Verdict {
        let Some(tokenizer) = self.tokenizer else {
            let separator = if token.index == 0 { "" } else { "," };
            self.write(&format!("{separator}{}", token.id));
            return if self.error.is_some() {
                Verdict::Cancel
            } else {
                Verdict::Continue
            };
        };
        // A stop token ends the text and is no part of it, whether it is special or not.
        if self.stop_ids.contains(&token.id) {
            return Verdict::Continue;
        }
        let piece = self.stream.push(tokenizer, token.id);
        self.take(piece)
    }
}
