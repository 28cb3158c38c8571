//! What `/metrics` shows. Names are listed once, in [`METRICS`]; the dashboard is tested against that list.

use super::api::{Finish, Made};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use std::time::Duration;

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets.
    Histogram(&'static [Upper]),
}

/// Upper bound of a bucket, in millionths: whole numbers compare.
pub type Upper = u64;

/// A metric that the server has.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name, prefix included.
    pub name: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Labels.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

const SECONDS: Kind = Kind::Histogram(&[
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
]);
const SHORT_SECONDS: Kind = Kind::Histogram(&[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
]);
const LENGTHS: Kind = Kind::Histogram(&[
    1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000, 6_000_000, 7_000_000, 8_000_000, 10_000_000,
    12_000_000, 16_000_000,
]);
const NODES: Kind = Kind::Histogram(&[
    0,
    7_000_000,
    15_000_000,
    31_000_000,
    63_000_000,
    127_000_000,
    255_000_000,
    511_000_000,
    1_023_000_000,
]);

macro_rules! metrics {
    ($($constant:ident = $name:literal, $kind:expr, [$($label:literal),*], $help:literal;)*) => {
        $(const $constant: Metric = Metric { name: $name, kind: $kind, labels: &[$($label),*], help: $help };)*

        /// All metrics.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    FIRST_TOKEN = "forkcast_time_to_first_token_seconds", SECONDS, [], "From the arrival of a request to its first token";
    INTER_TOKEN = "forkcast_inter_token_latency_seconds", SHORT_SECONDS, [],
        "Time of a round divided by its tokens, once a token; measured at the engine";
    DURATION = "forkcast_request_duration_seconds", SECONDS, [], "From the arrival of an accepted request to its end";
    QUEUE_WAIT = "forkcast_queue_wait_seconds", SECONDS, [], "Time that requests waited for the stream";
    WAITING = "forkcast_requests_waiting", Kind::Gauge, [], "Requests in the queue";
    RUNNING = "forkcast_requests_running", Kind::Gauge, [], "Requests being answered: 0 or 1";
    REQUESTS = "forkcast_requests_total", Kind::Counter, ["outcome"], "Requests for completions by how they ended";
    PROMPT_TOKENS = "forkcast_prompt_tokens_total", Kind::Counter, [], "Tokens of prompts, reused ones included";
    CACHED_TOKENS = "forkcast_cached_prompt_tokens_total", Kind::Counter, [], "Tokens of prompts whose state was reused";
    GENERATED = "forkcast_generation_tokens_total", Kind::Counter, [], "Tokens of answers";
    DRAFTS = "forkcast_spec_decode_num_drafts_total", Kind::Counter, [], "Rounds that drafted";
    DRAFT_TOKENS = "forkcast_spec_decode_num_draft_tokens_total", Kind::Counter, [], "Drafted tree nodes";
    ACCEPTED = "forkcast_spec_decode_num_accepted_tokens_total", Kind::Counter, [], "Accepted tree nodes";
    ACCEPTED_AT = "forkcast_spec_decode_num_accepted_tokens_per_pos_total", Kind::Counter, ["position"],
        "Accepted tree nodes by depth, from 1";
    LENGTH = "forkcast_accepted_length", LENGTHS, [], "Tokens per round: accepted nodes and the next token";
    TREE_NODES = "forkcast_tree_nodes", NODES, [], "Nodes of a round's tree";
    STAGE = "forkcast_stage_seconds", SECONDS, ["stage"], "Time of a stage within one answer";
    SNAPSHOT_BYTES = "forkcast_prefix_snapshot_bytes", Kind::Gauge, [], "Bytes of kept states at turn boundaries";
    READY = "forkcast_ready", Kind::Gauge, [], "1 while requests are taken";
    BUILD = "forkcast_build_info", Kind::Gauge, ["version"], "Always 1";
    ENGINE = "forkcast_engine_info", Kind::Gauge, ["model", "method", "budget"], "Always 1, once the engine is loaded";
}

/// How a request for a completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered.
    Finished(Finish),
    /// The client went away.
    Cancelled,
    /// The deadline passed.
    TimedOut,
    /// The queue was full.
    Rejected,
    /// Refused for what it asks: status 4xx other than 429.
    Refused,
    /// Not taken, or cut, because the server was loading or shutting down.
    Unavailable,
    /// The engine failed.
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Finished(Finish::Stop),
        Self::Finished(Finish::Length),
        Self::Finished(Finish::ToolCalls),
        Self::Cancelled,
        Self::TimedOut,
        Self::Rejected,
        Self::Refused,
        Self::Unavailable,
        Self::Failed,
    ];

    /// Name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished(finish) => finish.name(),
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timeout",
            Self::Rejected => "rejected",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

/// The metrics of one server. There is no global recorder, so servers in one process do not mix.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// Requests in the queue.
    pub waiting: Gauge,
    /// Requests being answered.
    pub running: Gauge,
    /// Bytes of kept states.
    pub snapshot_bytes: Gauge,
    /// 1 while requests are taken.
    pub ready: Gauge,
    first_token: Histogram,
    inter_token: Histogram,
    duration: Histogram,
    queue_wait: Histogram,
    accepted_length: Histogram,
    tree_nodes: Histogram,
    prompt_tokens: Counter,
    cached_tokens: Counter,
    generated: Counter,
    drafts: Counter,
    draft_tokens: Counter,
    accepted: Counter,
    requests: [Counter; Outcome::ALL.len()],
    stages: [Histogram; 6],
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

const STAGES: [&str; 6] = ["prefill", "draft", "tree", "verify", "walk", "commit"];
const META: Metadata<'static> = Metadata::new("forkcast", Level::INFO, None);

impl Metrics {
    /// Fresh metrics, all zero.
    ///
    /// # Errors
    /// A histogram has no buckets: a fault of [`METRICS`].
    pub fn new() -> Result<Self, BuildError> {
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if let Kind::Histogram(uppers) = metric.kind {
                let uppers: Vec<f64> = uppers.iter().map(|u| *u as f64 / 1e6).collect();
                builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), &uppers)?;
            }
        }
        let recorder = builder.build_recorder();
        for metric in METRICS {
            let (name, help) = (KeyName::from_const_str(metric.name), metric.help.into());
            match metric.kind {
                Kind::Counter => recorder.describe_counter(name, None, help),
                Kind::Gauge => recorder.describe_gauge(name, None, help),
                Kind::Histogram(_) => recorder.describe_histogram(name, None, help),
            }
        }
        let build = vec![Label::from_static_parts("version", env!("CARGO_PKG_VERSION"))];
        gauge(&recorder, BUILD, build).set(1);
        let counter = |metric| counter(&recorder, metric, Vec::new());
        let histogram = |metric| histogram(&recorder, metric, Vec::new());
        Ok(Self {
            waiting: gauge(&recorder, WAITING, Vec::new()),
            running: gauge(&recorder, RUNNING, Vec::new()),
            snapshot_bytes: gauge(&recorder, SNAPSHOT_BYTES, Vec::new()),
            ready: gauge(&recorder, READY, Vec::new()),
            first_token: histogram(FIRST_TOKEN),
            inter_token: histogram(INTER_TOKEN),
            duration: histogram(DURATION),
            queue_wait: histogram(QUEUE_WAIT),
            accepted_length: histogram(LENGTH),
            tree_nodes: histogram(TREE_NODES),
            prompt_tokens: counter(PROMPT_TOKENS),
            cached_tokens: counter(CACHED_TOKENS),
            generated: counter(GENERATED),
            drafts: counter(DRAFTS),
            draft_tokens: counter(DRAFT_TOKENS),
            accepted: counter(ACCEPTED),
            requests: Outcome::ALL.map(|o| {
                let label = Label::from_static_parts("outcome", o.name());
                self::counter(&recorder, REQUESTS, vec![label])
            }),
            stages: STAGES.map(|stage| {
                let label = Label::from_static_parts("stage", stage);
                self::histogram(&recorder, STAGE, vec![label])
            }),
            handle: recorder.handle(),
            recorder,
        })
    }

    /// Text for Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Moves observations into buckets; without scrapes nobody else does.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Says what engine is loaded.
    pub fn engine(&self, model: &str, method: &'static str, budget: usize) {
        let labels = vec![
            Label::new("model", model.to_owned()),
            Label::new("method", method),
            Label::new("budget", budget.to_string()),
        ];
        gauge(&self.recorder, ENGINE, labels).set(1);
    }

    /// A request left the queue.
    pub fn queue_wait(&self, wait: Duration) {
        self.queue_wait.record(wait.as_secs_f64());
    }

    /// The first token of an answer came.
    pub fn first_token(&self, since_arrival: Duration) {
        self.first_token.record(since_arrival.as_secs_f64());
    }

    /// A round gave `tokens` tokens.
    pub fn round(&self, time: Duration, tokens: usize) {
        if tokens > 0 {
            let each = time.as_secs_f64() / tokens as f64;
            self.inter_token.record_many(each, tokens);
        }
    }

    /// A tree of `nodes` nodes was verified.
    pub fn tree(&self, nodes: usize) {
        self.tree_nodes.record(nodes as f64);
    }

    /// An answer, or a part of one, was made.
    pub fn made(&self, prompt: usize, cached: usize, generated: usize, lengths: &[usize], made: &Made) {
        self.prompt_tokens.increment(prompt as u64);
        self.cached_tokens.increment(cached as u64);
        self.generated.increment(generated as u64);
        self.drafts.increment(made.drafted_rounds as u64);
        self.draft_tokens.increment(made.draft_tokens as u64);
        self.accepted.increment(made.accepted_tokens as u64);
        for length in lengths {
            self.accepted_length.record(*length as f64);
        }
        for position in 1..lengths.iter().copied().max().unwrap_or(0) {
            let accepted = lengths.iter().filter(|l| **l > position).count();
            let label = Label::new("position", position.to_string());
            counter(&self.recorder, ACCEPTED_AT, vec![label]).increment(accepted as u64);
        }
        let s = &made.stage_seconds;
        let seconds = [s.prefill, s.draft, s.tree, s.verify, s.walk, s.commit];
        for (histogram, seconds) in self.stages.iter().zip(seconds) {
            histogram.record(seconds);
        }
    }

    /// A request ended; `accepted` tells whether it had got into the queue.
    pub fn ended(&self, outcome: Outcome, accepted: bool, duration: Duration) {
        if let Some(i) = Outcome::ALL.iter().position(|o| *o == outcome) {
            self.requests[i].increment(1);
        }
        if accepted {
            self.duration.record(duration.as_secs_f64());
        }
    }
}

fn key(metric: Metric, labels: Vec<Label>) -> Key {
    debug_assert!(labels.iter().map(Label::key).eq(metric.labels.iter().copied()));
    Key::from_parts(metric.name, labels)
}

fn counter(recorder: &PrometheusRecorder, metric: Metric, labels: Vec<Label>) -> Counter {
    let counter = recorder.register_counter(&key(metric, labels), &META);
    counter.increment(0);
    counter
}

fn gauge(recorder: &PrometheusRecorder, metric: Metric, labels: Vec<Label>) -> Gauge {
    recorder.register_gauge(&key(metric, labels), &META)
}

fn histogram(recorder: &PrometheusRecorder, metric: Metric, labels: Vec<Label>) -> Histogram {
    recorder.register_histogram(&key(metric, labels), &META)
}
