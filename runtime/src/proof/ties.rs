//! Rows where rounding can decide which token is the best.

use crate::decode::{Emitted, Sink, Verdict};
use serde::Serialize;

/// A row of plain decoding whose best two tokens are close.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearTie {
    /// Sample.
    pub sample: String,
    /// Place in the answer, from 0.
    pub place: usize,
    /// The best token.
    pub token: u32,
    /// The second best.
    pub other: u32,
    /// Difference of their logits.
    pub gap: f64,
}

/// Notes close rows of an answer. The answer must carry the two best log-probabilities, whose difference is that of
/// the logits.
#[derive(Debug)]
pub(super) struct Listener<'a> {
    pub(super) sample: &'a str,
    pub(super) below: f64,
    pub(super) found: &'a mut Vec<NearTie>,
}

impl Sink for Listener<'_> {
    fn token(&mut self, token: &Emitted<'_>) -> Verdict {
        if let [best, second, ..] = token.top {
            let gap = f64::from(best.1) - f64::from(second.1);
            if gap < self.below {
                self.found.push(NearTie {
                    sample: self.sample.to_owned(),
                    place: token.index,
                    token: best.0,
                    other: second.0,
                    gap,
                });
            }
        }
        Verdict::Continue
    }
}
