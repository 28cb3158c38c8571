//! What the queue carries to the worker, and what comes back.

use super::super::api::{ApiError, Finish, Made, TreeView, Usage};
use super::super::ledger::Entry;
use super::super::split::{Part, Splitter};
use super::outbox::Delivery;
use crate::sample::Sampling;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;

/// One answer to generate.
#[derive(Debug)]
pub struct Job {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// Places in the prompt where turns end, ascending: states are kept there.
    pub boundaries: Vec<usize>,
    /// Most tokens of the answer.
    pub max_tokens: usize,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Seed of the draws.
    pub seed: u64,
    /// Stop strings.
    pub stop: Vec<String>,
    /// Takes the text apart; without one all text is content.
    pub splitter: Option<Splitter>,
    /// Alternatives per token, when log-probabilities are wanted.
    pub logprobs: Option<usize>,
    /// Whether trees are wanted.
    pub trees: bool,
    /// When the answer must be whole.
    pub deadline: Instant,
    /// Seconds of the deadline, for the error.
    pub timeout: u64,
    /// Where events go. A closed channel means that nobody listens any more.
    pub events: UnboundedSender<Vec<Event>>,
    /// When they are wanted.
    pub delivery: Delivery,
    /// Entry in the log.
    pub entry: Entry,
}

/// What happens to a job, in order: rounds and tokens, then exactly one end.
#[derive(Debug)]
pub enum Event {
    /// A tree was verified; its tokens follow.
    Round(Box<TreeView>),
    /// A token came.
    Token(TokenEvent),
    /// The answer is whole.
    Done(Box<Output>),
    /// The answer failed.
    Failed(ApiError),
}

/// A token of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenEvent {
    /// The token.
    pub id: u32,
    /// Round that accepted it; 0 is prefill.
    pub round: usize,
    /// Place in the answer, from 0.
    pub index: usize,
    /// Seconds since the job left the queue.
    pub seconds: f64,
    /// What the token set free; often nothing.
    pub parts: Vec<Part>,
    /// Log-probability, when wanted.
    pub logprob: Option<f32>,
    /// Alternatives, when wanted.
    pub top: Vec<(u32, f32)>,
}

/// The end of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// What was held back until now.
    pub tail: Vec<Part>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens.
    pub usage: Usage,
    /// How it was made.
    pub made: Made,
}
