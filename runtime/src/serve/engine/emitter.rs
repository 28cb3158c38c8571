//! Receives tokens from the decode loop and passes them on as text, measuring what rounds take.

use super::super::api::{ApiError, TreeView};
use super::super::split::{Part, Splitter};
use super::super::state::State;
use super::job::{Event, TokenEvent};
use super::outbox::Outbox;
use crate::decode::{Emitted, Sink, Verdict};
use crate::text::{Piece, TextStream, Tokenizer};
use crate::tree::Tree;
use std::time::{Duration, Instant};

/// Why the emitter ended an answer.
#[derive(Clone, Debug)]
pub(super) enum Interruption {
    /// Nobody listens any more.
    Gone,
    /// The deadline passed, or the server goes down.
    Refused(ApiError),
}

/// What can end an answer from outside.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    pub(super) state: &'a State,
    pub(super) outbox: &'a mut Outbox,
    pub(super) deadline: Instant,
    pub(super) timeout: u64,
}

impl Watch<'_> {
    /// Whether the answer must end now. Also a sign of life.
    pub(super) fn interruption(&self) -> Option<Interruption> {
        self.state.beat(true);
        if self.outbox.is_closed() {
            Some(Interruption::Gone)
        } else if self.state.is_cut() {
            Some(Interruption::Refused(ApiError::draining()))
        } else if Instant::now() >= self.deadline {
            Some(Interruption::Refused(ApiError::deadline(self.timeout)))
        } else {
            None
        }
    }
}

/// The text of one answer, taken apart.
#[derive(Debug)]
pub(super) struct AnswerText {
    stream: TextStream,
    splitter: Option<Splitter>,
    /// Tokens that came before the end of the reasoning.
    pub(super) reasoning_tokens: usize,
    /// Whether a tool was called.
    pub(super) called: bool,
}

impl AnswerText {
    pub(super) fn new(stream: TextStream, splitter: Option<Splitter>) -> Self {
        Self {
            stream,
            splitter,
            reasoning_tokens: 0,
            called: false,
        }
    }

    /// Takes a token; true when a stop string is complete.
    fn push(&mut self, tokenizer: &Tokenizer, id: u32, parts: &mut Vec<Part>) -> bool {
        if self.splitter.as_ref().is_some_and(Splitter::in_reasoning) {
            self.reasoning_tokens += 1;
        }
        let piece = self.stream.push(tokenizer, id);
        self.pass(&piece, parts);
        piece.stopped
    }

    /// Ends the text; true when that completed a stop string.
    pub(super) fn finish(&mut self, parts: &mut Vec<Part>) -> bool {
        let piece = self.stream.finish();
        self.pass(&piece, parts);
        if let Some(splitter) = &mut self.splitter {
            splitter.finish(parts);
        }
        piece.stopped
    }

    fn pass(&mut self, piece: &Piece, parts: &mut Vec<Part>) {
        match &mut self.splitter {
            Some(splitter) => splitter.push(&piece.text, parts),
            None if piece.text.is_empty() => {}
            None => parts.push(Part::Content(piece.text.clone())),
        }
        self.called |= parts.iter().any(|p| matches!(p, Part::Call(_)));
    }
}

/// The sink of one answer.
#[derive(Debug)]
pub(super) struct Emitter<'a> {
    pub(super) watch: Watch<'a>,
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) text: AnswerText,
    pub(super) stop_ids: &'a [u32],
    pub(super) trees: bool,
    pub(super) arrived: Instant,
    pub(super) begin: Instant,
    pub(super) first_token: Option<Duration>,
    pub(super) interruption: Option<Interruption>,
    pub(super) clock: RoundClock,
}

/// Time between rounds.
#[derive(Debug)]
pub(super) struct RoundClock {
    last: Instant,
    gap: Duration,
    tokens: usize,
}

impl RoundClock {
    pub(super) fn new() -> Self {
        Self {
            last: Instant::now(),
            gap: Duration::ZERO,
            tokens: 0,
        }
    }

    /// A round begins to hand out tokens: counts the one before.
    fn tick(&mut self, state: &State) {
        self.flush(state);
        let now = Instant::now();
        self.gap = now - self.last;
        self.last = now;
    }

    pub(super) fn flush(&mut self, state: &State) {
        if !self.gap.is_zero() {
            state.metrics.round(self.gap, self.tokens);
        }
        self.tokens = 0;
    }
}

impl Emitter<'_> {
    fn first(&mut self) {
        if self.first_token.is_none() {
            let time = self.arrived.elapsed();
            self.first_token = Some(time);
            self.watch.state.metrics.first_token(time);
            self.clock = RoundClock::new();
        }
    }
}

impl Sink for Emitter<'_> {
    fn token(&mut self, token: &Emitted<'_>) -> Verdict {
        self.first();
        self.clock.tokens += 1;
        let mut stopped = false;
        let mut parts = Vec::new();
        // A stop token is not part of the text, special or not.
        if !self.stop_ids.contains(&token.id) {
            stopped = self.text.push(self.tokenizer, token.id, &mut parts);
        }
        let event = TokenEvent {
            id: token.id,
            round: token.round,
            index: token.index,
            seconds: self.begin.elapsed().as_secs_f64(),
            parts,
            logprob: token.logprob,
            top: token.top.to_vec(),
        };
        self.watch.outbox.push(Event::Token(event));
        if stopped {
            return Verdict::Stop;
        }
        self.interruption = self.watch.interruption();
        match self.interruption {
            None => Verdict::Continue,
            Some(_) => Verdict::Cancel,
        }
    }

    fn round(&mut self, tree: &Tree, path: &[u32]) {
        self.clock.tick(self.watch.state);
        if tree.len() > 1 {
            self.watch.state.metrics.tree(tree.len() - 1);
        }
        if self.trees {
            let view = TreeView {
                tokens: tree
                    .tokens()
                    .iter()
                    .map(|t| self.tokenizer.decode(&[*t], true))
                    .collect(),
                parents: tree.parents().to_vec(),
                scores: tree.scores().to_vec(),
                path: path.to_vec(),
            };
            self.watch.outbox.push(Event::Round(Box::new(view)));
        }
    }

    fn round_over(&mut self) {
        self.watch.outbox.round(self.clock.gap);
    }
}
