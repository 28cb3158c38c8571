//! After every round the engine is where decoding the same tokens one by one leads.

use super::{Sample, Settings, name, rows};
use crate::decode::{DecodeError, Decoder, Drawing, Plan};
use crate::sample::Sampling;
use forkcast_engines::backend::{Backend, LogitNeeds, Snapshot};
use serde::Serialize;

/// Memory that states and rows of one answer may take until they are compared.
const MAX_BYTES: usize = 1 << 30;

/// What rounds of one method and budget committed, against decoding one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Agreement {
    /// Method and budget.
    pub cell: String,
    /// Rounds (prefill counts as one) whose state was compared.
    pub rounds: usize,
    /// Rounds that were not, as memory ran out.
    pub left_out: usize,
    /// Largest error of a conv or recurrent state, relative to `max(1, max|state|)`.
    pub state_error: f64,
    /// Largest error of the next row's logits, relative to `max(4, max|logit|)`.
    pub logit_error: f64,
    /// Bounds of the two.
    pub bounds: [f64; 2],
    /// The first round beyond a bound: sample and round.
    pub first: Option<(String, usize)>,
}

impl Agreement {
    /// Whether every round is within the bounds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.first.is_none()
    }

    fn note(&mut self, sample: &Sample, round: usize, [state, logits]: [f64; 2]) {
        self.rounds += 1;
        self.state_error = self.state_error.max(state);
        self.logit_error = self.logit_error.max(logits);
        // A NaN is beyond every bound: `error` makes it infinite.
        if self.first.is_none() && (state > self.bounds[0] || logits > self.bounds[1]) {
            self.first = Some((sample.id.clone(), round));
        }
    }
}

/// State after a round.
struct Seen {
    committed: usize,
    state: Snapshot,
    /// Logits of the anchor's row, the next one to be decoded.
    logits: Vec<f32>,
}

/// Compares after prefill and every round of every sample at temperature 0.
pub(super) fn check(
    backend: &mut dyn Backend,
    samples: &[Sample],
    stop_ids: &[u32],
    settings: &Settings,
    plan: Plan,
    tell: &mut dyn FnMut(&str),
) -> Result<Agreement, DecodeError> {
    let mut agreement = Agreement {
        cell: name(&plan),
        bounds: [settings.bounds.state, settings.bounds.logits],
        ..Agreement::default()
    };
    for sample in samples {
        tell(&format!("state: {}, {}", sample.id, name(&plan)));
        let (tokens, seen) = rounds(backend, sample, stop_ids, settings, plan, &mut agreement)?;
        one_by_one(backend, sample, &tokens, &seen, &mut agreement)?;
    }
    Ok(agreement)
}

/// Decodes with `plan`; the tokens with the prompt's, and what was seen after each round.
fn rounds(
    backend: &mut dyn Backend,
    sample: &Sample,
    stop_ids: &[u32],
    settings: &Settings,
    plan: Plan,
    agreement: &mut Agreement,
) -> Result<(Vec<u32>, Vec<Seen>), DecodeError> {
    let shape = backend.shape();
    let drawing = Drawing {
        sampling: Sampling::default(),
        seed: 0,
        stop_ids: stop_ids.to_vec(),
        logprobs: None,
    };
    let limit = settings
        .max_tokens
        .min(shape.max_context.saturating_sub(sample.tokens.len()));
    backend.reset()?;
    backend.set_drafting(plan.budget > 0);
    backend.set_needs(LogitNeeds::Full);
    let mut decoder = Decoder::new(drawing, shape.vocab)?;
    let (mut tokens, mut seen, mut bytes) = (sample.tokens.clone(), Vec::new(), 0);
    decoder.start(backend, &sample.tokens)?;
    loop {
        let drawn = decoder.drawn();
        let stopped = drawn.iter().any(|d| stop_ids.contains(&d.id));
        tokens.extend(drawn.iter().map(|d| d.id));
        let Some(anchor) = tokens.last().copied() else {
            return Ok((tokens, seen));
        };
        if tokens.len() < shape.max_context && bytes < MAX_BYTES {
            let mut logits = Vec::new();
            let state = backend.snapshot()?;
            rows::peek(backend, anchor, &mut logits)?;
            bytes += state.bytes() + 4 * logits.len();
            seen.push(Seen {
                committed: backend.committed(),
                state,
                logits,
            });
        } else {
            agreement.left_out += 1;
        }
        if stopped || tokens.len() - sample.tokens.len() >= limit {
            return Ok((tokens, seen));
        }
        decoder.round(backend, plan)?;
        let all = decoder.drawn().len();
        decoder.commit(backend, all)?;
    }
}

/// Decodes the same tokens one by one and compares where a round ended.
fn one_by_one(
    backend: &mut dyn Backend,
    sample: &Sample,
    tokens: &[u32],
    seen: &[Seen],
    agreement: &mut Agreement,
) -> Result<(), DecodeError> {
    backend.reset()?;
    backend.set_drafting(false);
    let mut logits = Vec::new();
    for (round, seen) in seen.iter().enumerate() {
        while backend.committed() < seen.committed.min(tokens.len()) {
            let next = tokens[backend.committed()];
            rows::push(backend, next)?;
        }
        let state = backend.snapshot()?;
        let Some(anchor) = tokens.get(seen.committed) else {
            // More rows are committed than tokens were drawn.
            agreement.note(sample, round, [f64::INFINITY; 2]);
            return Ok(());
        };
        rows::peek(backend, *anchor, &mut logits)?;
        let states = if state.states.len() == seen.state.states.len() {
            let pairs = seen.state.states.iter().zip(&state.states);
            pairs.map(|(a, b)| error(a, b, 1.0)).fold(0.0, f64::max)
        } else {
            f64::INFINITY
        };
        agreement.note(sample, round, [states, error(&seen.logits, &logits, 4.0)]);
    }
    Ok(())
}

/// Largest difference relative to `max(least, max|expected|)`; infinite for a NaN or another length.
fn error(found: &[f32], expected: &[f32], least: f64) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let scale = expected.iter().fold(least, |m, x| m.max(f64::from(*x).abs()));
    let errors = found.iter().zip(expected).map(|(a, b)| {
        // Equal infinities (entries that an engine does not report) are no error.
        if a == b {
            0.0
        } else {
            (f64::from(*a) - f64::from(*b)).abs() / scale
        }
    });
    errors.fold(0.0, |m, e| if e.is_finite() { m.max(e) } else { f64::INFINITY })
}
