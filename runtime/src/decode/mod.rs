//! The decode loop: one for all methods, over the [`Backend`] trait.

mod adaptive;
mod decoder;
mod error;
mod needs;
mod plan;
mod report;
mod request;

pub use adaptive::{Adaptive, Used};
pub use decoder::{Decoder, Drawing, Drawn};
pub use error::DecodeError;
pub use report::{Report, StageSeconds};
pub use request::{
    DEFAULT_BUDGET, Emitted, FinishReason, Ignore, MAX_BUDGET, Method, Plan, Request, Sink, UnknownMethod,
    Verdict,
};

use forkcast_engines::backend::{Backend, LogitNeeds};
use std::time::Instant;

/// Generates an answer from a fresh stream: resets `backend`, then [`resume`]s.
///
/// # Errors
/// The request does not fit the engine, or the engine fails.
pub fn decode<B: Backend + ?Sized>(
    backend: &mut B,
    prompt: &[u32],
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<Report, DecodeError> {
    backend.reset()?;
    resume(backend, prompt, request, sink)
}

/// Generates an answer to `prompt`, of which `backend` may already have committed a proper prefix
/// (the caller vouches that the tokens are the same). Afterwards the engine has committed the
/// prompt and the answer except its last token.
///
/// # Errors
/// The request does not fit the engine, or the engine fails.
pub fn resume<B: Backend + ?Sized>(
    backend: &mut B,
    prompt: &[u32],
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<Report, DecodeError> {
    resume_with(backend, prompt, request, None, sink)
}

/// As [`resume`]; `policy` decides round by round whether to draft and how much, and its plan stands in for method, budget
/// and mode of the request. The tokens are the same.
///
/// # Errors
/// The request does not fit the engine, or the engine fails.
pub fn resume_with<B: Backend + ?Sized>(
    backend: &mut B,
    prompt: &[u32],
    request: &Request,
    mut policy: Option<&mut Adaptive>,
    sink: &mut dyn Sink,
) -> Result<Report, DecodeError> {
    let shape = backend.shape();
    let asked = Plan {
        method: request.method,
        budget: request.budget,
        mode: request.mode,
    };
    let plan = policy
        .as_deref()
        .map_or(asked, Adaptive::plan)
        .effective(&shape)?;
    let drawing = Drawing {
        sampling: request.sampling.clone(),
        seed: request.seed,
        stop_ids: request.stop_ids.clone(),
        logprobs: request.logprobs,
    };
    let mut decoder = Decoder::new(drawing, shape.vocab)?;
    let mut report = empty_report(prompt.len(), backend.committed(), plan, request.seed);
    let limit = request
        .max_tokens
        .min(shape.max_context.saturating_sub(prompt.len()));
    backend.set_drafting(plan.method != Method::Plain && plan.budget > 0);
    backend.set_needs(needs::needs(request));
    let begin = Instant::now();
    decoder.start(backend, prompt)?;
    report.time_to_first_token = begin.elapsed();
    let first = Instant::now();
    let (mut end, _) = emit(&decoder, 0, limit, request, sink, &mut report);
    while end.is_none() {
        decoder.round_with(backend, plan, policy.as_deref_mut())?;
        report.rounds += 1;
        report.draft_tokens += decoder.tree().len() - 1;
        report.drafted_rounds += usize::from(decoder.tree().len() > 1);
        sink.round(decoder.tree(), decoder.path());
        let kept;
        (end, kept) = emit(&decoder, report.rounds, limit, request, sink, &mut report);
        decoder.commit(backend, kept)?;
    }
    backend.set_needs(LogitNeeds::Full);
    report.finish_reason = end.unwrap_or(FinishReason::Length);
    report.decode_time = first.elapsed();
    report.seconds = decoder.seconds;
    report.tree_retries = decoder.retries();
    report.adaptive = policy.map(|p| p.used());
    Ok(report)
}

/// Hands the tokens of a round to the sink, in order. Says why the answer ends, if it does, and how
/// many tokens were handed over.
fn emit(
    decoder: &Decoder,
    round: usize,
    limit: usize,
    request: &Request,
    sink: &mut dyn Sink,
    report: &mut Report,
) -> (Option<FinishReason>, usize) {
    let before = report.token_ids.len();
    let drawn = decoder.drawn();
    let mut end = if limit == 0 {
        Some(FinishReason::Length)
    } else {
        None
    };
    let mut length = drawn.len();
    for (i, token) in drawn.iter().enumerate() {
        if end.is_some() {
            break;
        }
        let index = report.token_ids.len();
        report.token_ids.push(token.id);
        let emitted = Emitted {
            id: token.id,
            round,
            index,
            logprob: token.logprob,
            top: &token.top,
        };
        end = match sink.token(&emitted) {
            Verdict::Cancel => Some(FinishReason::Cancelled),
            Verdict::Stop => Some(FinishReason::Stop),
            Verdict::Continue if request.stop_ids.contains(&token.id) => Some(FinishReason::Stop),
            Verdict::Continue if report.token_ids.len() >= limit => Some(FinishReason::Length),
            Verdict::Continue => None,
        };
        if matches!(end, Some(FinishReason::Stop | FinishReason::Cancelled)) {
            length = i + 1;
        }
    }
    if round > 0 {
        report.accepted_lengths.push(length);
    }
    sink.round_over();
    (end, report.token_ids.len() - before)
}

fn empty_report(prompt_tokens: usize, committed: usize, plan: Plan, seed: u64) -> Report {
    Report {
        token_ids: Vec::new(),
        prompt_tokens,
        cached_tokens: committed,
        finish_reason: FinishReason::Length,
        method: plan.method,
        budget: plan.budget,
        seed,
        rounds: 0,
        accepted_lengths: Vec::new(),
        draft_tokens: 0,
        drafted_rounds: 0,
        adaptive: None,
        tree_retries: 0,
        seconds: StageSeconds::default(),
        time_to_first_token: std::time::Duration::ZERO,
        decode_time: std::time::Duration::ZERO,
    }
}
