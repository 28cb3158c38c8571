//! What a caller asks of the loop and what it sees while tokens come out.

use crate::sample::Sampling;
use std::fmt;
use std::str::FromStr;

/// How the tree of a round is made; everything else of a round is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// No draft: one row a round.
    Plain,
    /// The drafter's best token per position, one path (DFlash, MDraft).
    Chain,
    /// The best-scoring prefixes of one mode (DDTree).
    Ddtree,
    /// The best-scoring prefixes over all modes (MFD).
    Mfd,
}

impl Method {
    /// All methods, from the slowest.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Chain, Self::Ddtree, Self::Mfd];

    /// Name as on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Chain => "chain",
            Self::Ddtree => "ddtree",
            Self::Mfd => "mfd",
        }
    }

    /// The best method that a drafter of `modes` modes allows (0: no drafter).
    #[must_use]
    pub fn best(modes: usize) -> Self {
        match modes {
            0 => Self::Plain,
            1 => Self::Ddtree,
            _ => Self::Mfd,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no method.
#[derive(Debug, thiserror::Error)]
#[error("unknown method {0:?}; known are plain, chain, ddtree, mfd")]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(word: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|m| m.name() == word)
            .ok_or_else(|| UnknownMethod(word.to_owned()))
    }
}

/// Largest tree budget, in nodes without the anchor.
pub const MAX_BUDGET: usize = 1024;

/// Tree budget where none is asked for: a CPU is bound by arithmetic, so small trees are the fastest.
pub const DEFAULT_BUDGET: usize = 12;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop token came, or the sink said stop (a stop string).
    Stop,
    /// `max_tokens` or the context limit was reached.
    Length,
    /// The sink said cancel.
    Cancelled,
}

impl FinishReason {
    /// Name as in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Tree of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How the tree is made.
    pub method: Method,
    /// Most nodes without the anchor.
    pub budget: usize,
    /// Mode that `chain` and `ddtree` read.
    pub mode: usize,
}

/// One answer to generate.
#[derive(Clone, Debug)]
pub struct Request {
    /// How trees are made.
    pub method: Method,
    /// Most nodes of a tree, 0..=[`MAX_BUDGET`]; see [`Plan::effective`] for what a method uses of it.
    pub budget: usize,
    /// Mode that `chain` and `ddtree` read from a drafter with several.
    pub mode: usize,
    /// Most tokens of the answer.
    pub max_tokens: usize,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Seed of the draws; the draw at a position depends on this and the position only.
    pub seed: u64,
    /// Tokens that end the answer; the one that came is part of `token_ids`.
    pub stop_ids: Vec<u32>,
    /// With `Some(n)` every emitted token carries its log-probability and the `n` best alternatives.
    pub logprobs: Option<usize>,
}

/// A token that left the loop.
#[derive(Clone, Copy, Debug)]
pub struct Emitted<'a> {
    /// The token.
    pub id: u32,
    /// Round that accepted it, from 1; 0 is prefill.
    pub round: usize,
    /// Place in the answer, from 0.
    pub index: usize,
    /// Natural log-probability under the unmodified logits, when asked for.
    pub logprob: Option<f32>,
    /// Best alternatives, best first, when asked for.
    pub top: &'a [(u32, f32)],
}

/// What the receiver of tokens wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Continue,
    /// The answer ends with this token (a stop string is complete).
    Stop,
    /// Nobody listens any more.
    Cancel,
}

/// Receives tokens in order, as soon as a round has accepted them.
pub trait Sink {
    /// Called once for every token of the answer.
    fn token(&mut self, token: &Emitted<'_>) -> Verdict;

    /// Called after every round with the tree that was verified and the accepted rows.
    fn round(&mut self, _tree: &crate::tree::Tree, _path: &[u32]) {}

    /// Called after the tokens of every round, and of prefill, before the engine goes on.
    fn round_over(&mut self) {}
}

/// A sink that lets everything pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Sink for Ignore {
    fn token(&mut self, _token: &Emitted<'_>) -> Verdict {
        Verdict::Continue
    }
}
