//! Tokens in, text out: detokeniser and stop strings together.

use super::{Detokenizer, StopMatcher, TextError, Tokenizer};

/// Text that a token set free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Whole characters that no stop string can claim any more; often empty.
    pub text: String,
    /// Whether a stop string is complete with this token.
    pub stopped: bool,
}

/// The text of one answer while its tokens come out.
#[derive(Clone, Debug)]
pub struct TextStream {
    detokenizer: Detokenizer,
    stops: StopMatcher,
}

impl TextStream {
    /// A stream that ends at any of `stops` and leaves special tokens out unless `keep_special`.
    ///
    /// # Errors
    /// A stop string is unusable.
    pub fn new<S: AsRef<str>>(stops: &[S], keep_special: bool) -> Result<Self, TextError> {
        Ok(Self {
            detokenizer: Detokenizer::new(keep_special),
            stops: StopMatcher::new(stops)?,
        })
    }

    /// Takes the next token.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Piece {
        let mut whole = String::new();
        self.detokenizer.push(tokenizer, id, &mut whole);
        self.pass(&whole)
    }

    /// Ends the answer: releases what was held back. A stop string may still become complete here, when
    /// it ends in U+FFFD.
    pub fn finish(&mut self) -> Piece {
        let mut rest = String::new();
        self.detokenizer.finish(&mut rest);
        let mut piece = self.pass(&rest);
        if !piece.stopped {
            self.stops.finish(&mut piece.text);
        }
        piece
    }

    fn pass(&mut self, whole: &str) -> Piece {
        let mut text = String::new();
        let stopped = self.stops.push(whole, &mut text);
        Piece { text, stopped }
    }
}
