//! One log line and one count for every request, whatever becomes of it.

use super::api::{ApiError, Made, Usage};
use super::metrics::{Metrics, Outcome};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The entry of a request. It is written when it is dropped, so no way out can miss it.
#[derive(Debug)]
pub struct Entry {
    metrics: Arc<Metrics>,
    /// Name of the request: honoured from the client, or made up.
    pub id: String,
    endpoint: &'static str,
    /// When the request came.
    pub arrived: Instant,
    outcome: Option<Outcome>,
    status: u16,
    accepted: bool,
    deadline: Option<Instant>,
    reason: Option<String>,
    usage: Usage,
    made: Option<Made>,
}

impl Entry {
    /// An entry for a request that just came.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, id: String, endpoint: &'static str) -> Self {
        Self {
            metrics,
            id,
            endpoint,
            arrived: Instant::now(),
            outcome: None,
            status: 200,
            accepted: false,
            deadline: None,
            reason: None,
            usage: Usage::default(),
            made: None,
        }
    }

    /// The request is in the queue, and must be answered by `deadline`.
    pub fn accept(&mut self, deadline: Instant) {
        self.accepted = true;
        self.deadline = Some(deadline);
    }

    /// Notes what was generated.
    pub fn generated(&mut self, usage: Usage, made: Made) {
        self.usage = usage;
        self.made = Some(made);
    }

    /// Notes how the request ended.
    pub fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Notes that the request was refused or failed, and gives the error back.
    pub fn refuse(&mut self, error: ApiError) -> ApiError {
        self.status = error.status.as_u16();
        self.reason = Some(error.detail.message.clone());
        self.outcome = Some(match error.status.as_u16() {
            _ if error.detail.code == "queue_full" => Outcome::Rejected,
            503 => Outcome::Unavailable,
            504 => Outcome::TimedOut,
            400..500 => Outcome::Refused,
            _ => Outcome::Failed,
        });
        error
    }

    fn write(&self, outcome: Outcome, duration: Duration) {
        let none = Made::default();
        let made = self.made.as_ref().unwrap_or(&none);
        let s = &made.stage_seconds;
        tracing::info!(
            target: "forkcast::request",
            request_id = %self.id,
            endpoint = self.endpoint,
            finish_reason = outcome.name(),
            status = self.status,
            prompt_tokens = self.usage.prompt_tokens,
            cached_tokens = self.usage.prompt_tokens_details.cached_tokens,
            completion_tokens = self.usage.completion_tokens,
            method = made.method,
            rounds = made.rounds,
            drafted_rounds = made.drafted_rounds,
            tau = made.tau,
            seconds = duration.as_secs_f64(),
            queue_seconds = made.queue_seconds,
            first_token_seconds = made.first_token_seconds,
            prefill_seconds = s.prefill,
            draft_seconds = s.draft,
            tree_seconds = s.tree,
            verify_seconds = s.verify,
            walk_seconds = s.walk,
            commit_seconds = s.commit,
            reason = self.reason.as_deref().unwrap_or(""),
            "request"
        );
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Without a verdict nobody listened any more: the deadline passed, or the client went away.
        let late = self.deadline.is_some_and(|d| Instant::now() >= d);
        let outcome = self.outcome.unwrap_or_else(|| {
            let (outcome, status) = if late {
                (Outcome::TimedOut, 504)
            } else {
                (Outcome::Cancelled, 499)
            };
            self.status = status;
            outcome
        });
        let duration = self.arrived.elapsed();
        self.metrics.ended(outcome, self.accepted, duration);
        self.write(outcome, duration);
    }
}
