//! What an answer cost and how well its drafts were accepted.

use super::adaptive::Used;
use super::request::{FinishReason, Method};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Seconds spent in each stage of one answer. Head time counts as verify, except for the head pass
/// over drafted rows, which counts as draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageSeconds {
    /// Prompt passes up to and including the first token.
    pub prefill: f64,
    /// Drafter passes with their head and top-k.
    pub draft: f64,
    /// Tree and mask building.
    pub tree: f64,
    /// Target passes over trees and head passes over visited rows.
    pub verify: f64,
    /// Drawing tokens and walking the tree.
    pub walk: f64,
    /// Appending accepted rows, updating states, feeding the drafter.
    pub commit: f64,
}

/// Adds the time since the last call to one stage after another.
#[derive(Debug)]
pub(super) struct Stopwatch {
    last: Instant,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { last: Instant::now() }
    }

    pub(super) fn lap(&mut self, stage: &mut f64) {
        let now = Instant::now();
        *stage += (now - self.last).as_secs_f64();
        self.last = now;
    }
}

/// A finished answer.
#[derive(Clone, Debug)]
pub struct Report {
    /// Tokens of the answer, without the prompt, stop token included.
    pub token_ids: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens whose state was already committed before the call.
    pub cached_tokens: usize,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Method used.
    pub method: Method,
    /// Budget used (see [`super::Plan::effective`]).
    pub budget: usize,
    /// Seed used.
    pub seed: u64,
    /// Verify passes after prefill.
    pub rounds: usize,
    /// Accepted drafts plus the next token, one entry a round; cut at a stop, not at `max_tokens`.
    pub accepted_lengths: Vec<usize>,
    /// Tree nodes verified, anchors not counted.
    pub draft_tokens: usize,
    /// Rounds whose tree had nodes.
    pub drafted_rounds: usize,
    /// What was decided round by round, with a policy.
    pub adaptive: Option<Used>,
    /// Trees whose candidates had to be read again with more per position to be exact.
    pub tree_retries: usize,
    /// Stage times.
    pub seconds: StageSeconds,
    /// From the start to the first token.
    pub time_to_first_token: Duration,
    /// From the first token to the end.
    pub decode_time: Duration,
}

impl Report {
    /// Acceptance length: mean of [`Self::accepted_lengths`] (`algorithms.md` 2.2); 1 for an answer without rounds.
    #[must_use]
    pub fn tau(&self) -> f64 {
        if self.accepted_lengths.is_empty() {
            return 1.0;
        }
        self.accepted_lengths.iter().sum::<usize>() as f64 / self.accepted_lengths.len() as f64
    }

    /// Tokens after the first per second after the first; 0 for an answer of one token.
    #[must_use]
    pub fn tokens_per_second(&self) -> f64 {
        let seconds = self.decode_time.as_secs_f64();
        let tokens = self.token_ids.len().saturating_sub(1);
        if tokens == 0 || seconds <= 0.0 {
            0.0
        } else {
            tokens as f64 / seconds
        }
    }
}
