//! What is told about a finished answer.

use forkcast::decode::{Report, StageSeconds, Used};
use serde::Serialize;

/// The object of `--json`. Names and meaning are fixed.
#[derive(Debug, Serialize)]
pub(super) struct Json<'a> {
    text: Option<&'a str>,
    token_ids: &'a [u32],
    prompt_tokens: usize,
    completion_tokens: usize,
    finish_reason: &'static str,
    method: &'static str,
    budget: usize,
    seed: u64,
    rounds: usize,
    accepted_lengths: &'a [usize],
    tau: f64,
    tokens_per_second: f64,
    seconds: StageSeconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<Used>,
}

impl<'a> Json<'a> {
    pub(super) fn new(report: &'a Report, text: Option<&'a str>) -> Self {
        Self {
            text,
            token_ids: &report.token_ids,
            prompt_tokens: report.prompt_tokens,
            completion_tokens: report.token_ids.len(),
            finish_reason: report.finish_reason.name(),
            method: report.method.name(),
            budget: report.budget,
            seed: report.seed,
            rounds: report.rounds,
            accepted_lengths: &report.accepted_lengths,
            tau: report.tau(),
            tokens_per_second: report.tokens_per_second(),
            seconds: report.seconds,
            adaptive: report.adaptive,
        }
    }
}

/// Two lines for people.
pub(in super::super) fn summary(report: &Report) -> String {
    let s = report.seconds;
    let adaptive = report.adaptive.map_or_else(String::new, |u| {
        format!(
            "adaptive: {} rounds drafted with {:.1} nodes each, {} plain, given up {} times, trust {:.2}\n",
            u.drafted_rounds,
            u.mean_nodes(),
            u.plain_rounds,
            u.rests,
            u.trust
        )
    });
    format!(
        "{} prompt tokens, {} answered ({}); {} budget {}: {:.1} tokens/s, tau {:.2}, {} rounds\n\
         seconds: prefill {:.3}, draft {:.3}, tree {:.3}, verify {:.3}, walk {:.3}, commit {:.3}\n{adaptive}",
        report.prompt_tokens,
        report.token_ids.len(),
        report.finish_reason.name(),
        report.method,
        report.budget,
        report.tokens_per_second(),
        report.tau(),
        report.rounds,
        s.prefill,
        s.draft,
        s.tree,
        s.verify,
        s.walk,
        s.commit,
    )
}
