//! The thread that owns the engine and answers one job after another.

use super::super::api::{ApiError, CompletionDetails, Finish, Made, PromptDetails, Stages, Usage};
use super::super::metrics::Outcome;
use super::super::state::{EngineInfo, Phase, State};
use super::super::{ServeError, model::Model};
use super::emitter::{AnswerText, Emitter, Interruption, RoundClock, Watch};
use super::job::{Event, Job, Output};
use super::outbox::Outbox;
use super::{Prefix, Queue};
use crate::cost::Tune;
use crate::decode::{DecodeError, FinishReason, Ignore, Method, Plan, Report, Request, resume_with};
use crate::text::TextStream;
use forkcast_engines::backend::{Backend, BackendError, RowBatch};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Opens the engine, on the worker's thread.
pub type Loader = Box<dyn FnOnce() -> Result<Box<dyn Backend>, ServeError> + Send>;

/// What the worker does with every request.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Method that makes the trees; the best that the engine allows when none is given.
    pub method: Option<Method>,
    /// Most nodes of a tree.
    pub budget: usize,
    /// Costs by which rounds are decided one by one.
    pub adaptive: Option<Arc<Tune>>,
    /// Mode that `chain` and `ddtree` read.
    pub mode: usize,
    /// Most bytes of kept states.
    pub cache_bytes: usize,
}

/// A started worker.
#[derive(Debug)]
pub struct Running {
    /// Comes when the worker has ended: by itself after the queue was closed, or because it failed.
    pub ended: oneshot::Receiver<Result<(), ServeError>>,
}

/// Starts the worker: it opens the engine, warms it up, declares the server ready, then works until the
/// queue is closed.
///
/// # Errors
/// There is no thread to be had.
pub fn start(
    loader: Loader,
    settings: WorkerSettings,
    model: Arc<Model>,
    state: Arc<State>,
    queue: Arc<Queue>,
) -> Result<Running, ServeError> {
    let (sender, ended) = oneshot::channel();
    let run = move || {
        let guard = Guard {
            state: Arc::clone(&state),
            queue: Arc::clone(&queue),
        };
        let result = open(loader, settings, model, &state).and_then(|mut worker| worker.work(&queue));
        drop(guard);
        // Nobody may be left to hear it.
        let _ = sender.send(result);
    };
    std::thread::Builder::new()
        .name("forkcast-engine".to_owned())
        .spawn(run)
        .map_err(ServeError::Thread)?;
    Ok(Running { ended })
}

/// Leaves nobody waiting for a worker that is gone, even when it panicked.
struct Guard {
    state: Arc<State>,
    queue: Arc<Queue>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.state.advance(Phase::Dead);
        self.queue.close();
        self.queue.clear();
    }
}

struct Worker {
    backend: Box<dyn Backend>,
    settings: WorkerSettings,
    plan: Plan,
    /// The plan as the engine follows it.
    effective: Plan,
    model: Arc<Model>,
    state: Arc<State>,
    prefix: Prefix,
}

fn open(
    loader: Loader,
    settings: WorkerSettings,
    model: Arc<Model>,
    state: &Arc<State>,
) -> Result<Worker, ServeError> {
    let mut backend = loader()?;
    let shape = backend.shape();
    let plan = Plan {
        method: settings.method.unwrap_or_else(|| Method::best(shape.modes)),
        budget: settings.budget,
        mode: settings.mode,
    };
    let effective = plan.effective(&shape).map_err(ServeError::Settings)?;
    warm_up(&mut *backend, plan).map_err(ServeError::WarmUp)?;
    state.set_engine(EngineInfo {
        shape,
        method: effective.method,
        budget: effective.budget,
    });
    state
        .metrics
        .engine(&model.id, effective.method.name(), effective.budget);
    state.beat(false);
    state.advance(Phase::Ready);
    Ok(Worker {
        backend,
        prefix: Prefix::new(settings.cache_bytes),
        settings,
        plan,
        effective,
        model,
        state: Arc::clone(state),
    })
}

/// A short answer, so that the first request finds everything compiled and allocated.
fn warm_up(backend: &mut dyn Backend, plan: Plan) -> Result<(), DecodeError> {
    let request = Request {
        method: plan.method,
        budget: plan.budget,
        mode: plan.mode,
        max_tokens: 8,
        sampling: crate::sample::Sampling::default(),
        seed: 0,
        stop_ids: Vec::new(),
        logprobs: None,
    };
    crate::decode::decode(backend, &[0, 0], &request, &mut Ignore)?;
    backend.reset()?;
    Ok(())
}

/// How a job ended short of an answer.
enum Failure {
    Interrupted(Interruption),
    Decode(DecodeError),
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Decode(error.into())
    }
}

impl Worker {
    fn work(&mut self, queue: &Queue) -> Result<(), ServeError> {
        loop {
            self.state.beat(false);
            let Some(job) = queue.pop() else {
                return Ok(());
            };
            let begin = Instant::now();
            let result = self.answer(job);
            let bytes = self.prefix.bytes() as f64;
            self.state.metrics.snapshot_bytes.set(bytes);
            // Who has the answer finds the stream free.
            queue.done(begin.elapsed());
            if let Some((outbox, event)) = result? {
                // A closed channel means that the client went away at the last moment.
                let _ = outbox.finish(event);
            }
        }
    }

    /// Answers one job and gives its last event; none when nobody listens any more.
    ///
    /// # Errors
    /// The engine does not recover.
    fn answer(&mut self, mut job: Job) -> Result<Option<(Outbox, Event)>, ServeError> {
        let mut outbox = Outbox::new(job.events.clone(), job.delivery);
        let event = match self.generate(&mut job, &mut outbox) {
            Ok(output) => {
                job.entry.end(Outcome::Finished(output.finish));
                Event::Done(Box::new(output))
            }
            // The entry knows what it means that nobody listens.
            Err(Failure::Interrupted(Interruption::Gone)) => return Ok(None),
            Err(Failure::Interrupted(Interruption::Refused(error))) => Event::Failed(job.entry.refuse(error)),
            Err(Failure::Decode(error)) => {
                if !error.is_input() {
                    self.prefix
                        .forget(&mut *self.backend)
                        .map_err(ServeError::Engine)?;
                }
                Event::Failed(job.entry.refuse(decode_error(&error)))
            }
        };
        // With the job its entry goes into log and metrics, before anybody has the answer.
        Ok(Some((outbox, event)))
    }

    fn generate(&mut self, job: &mut Job, outbox: &mut Outbox) -> Result<Output, Failure> {
        let begin = Instant::now();
        let wait = begin - job.entry.arrived;
        self.state.metrics.queue_wait(wait);
        let state = Arc::clone(&self.state);
        let model = Arc::clone(&self.model);
        let watch = Watch {
            state: &state,
            outbox,
            deadline: job.deadline,
            timeout: job.timeout,
        };
        if let Some(interruption) = watch.interruption() {
            return Err(Failure::Interrupted(interruption));
        }
        let cached = self.prefix.reuse(&mut *self.backend, &job.prompt)?;
        self.prefill(job, &watch)?;
        let prefill = begin.elapsed().as_secs_f64();
        let tokenizer = model.tokenizer().map_err(|e| bad_text(&e))?;
        let text = TextStream::new(&job.stop, false).map_err(|e| bad_text(&e))?;
        let mut emitter = Emitter {
            watch,
            tokenizer,
            text: AnswerText::new(text, job.splitter.take()),
            stop_ids: &model.stop_ids,
            trees: job.trees,
            arrived: job.entry.arrived,
            begin,
            first_token: None,
            interruption: None,
            clock: RoundClock::new(),
        };
        let request = self.request(job);
        let tune = self.settings.adaptive.as_ref();
        let mut policy = tune.map(|t| t.adaptive(self.effective));
        let result = resume_with(
            &mut *self.backend,
            &job.prompt,
            &request,
            policy.as_mut(),
            &mut emitter,
        );
        emitter.clock.flush(&state);
        let mut report = result?;
        report.cached_tokens = cached;
        report.seconds.prefill += prefill;
        self.remember(job, &report)?;
        let first = emitter.first_token.map_or(0.0, |t| t.as_secs_f64());
        let made = made(&report, wait.as_secs_f64(), first);
        let usage = usage(&report, emitter.text.reasoning_tokens);
        self.state.metrics.made(
            report.prompt_tokens,
            cached,
            report.token_ids.len(),
            &report.accepted_lengths,
            &made,
        );
        job.entry.generated(usage, made.clone());
        if let Some(interruption) = emitter.interruption.take() {
            return Err(Failure::Interrupted(interruption));
        }
        let mut tail = Vec::new();
        let stopped = emitter.text.finish(&mut tail);
        let finish = match report.finish_reason {
            FinishReason::Length if !stopped => Finish::Length,
            _ if emitter.text.called => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        Ok(Output {
            tail,
            finish,
            usage,
            made,
        })
    }

    fn request(&self, job: &Job) -> Request {
        Request {
            method: self.plan.method,
            budget: self.plan.budget,
            mode: self.plan.mode,
            max_tokens: job.max_tokens,
            sampling: job.sampling.clone(),
            seed: job.seed,
            stop_ids: self.model.stop_ids.clone(),
            logprobs: job.logprobs,
        }
    }

    /// Commits the prompt up to its last boundary, keeping the state at each.
    fn prefill(&mut self, job: &Job, watch: &Watch<'_>) -> Result<(), Failure> {
        if self.settings.cache_bytes == 0 {
            return Ok(());
        }
        let shape = self.backend.shape();
        if job.prompt.len() >= shape.max_context {
            // The loop refuses it by name.
            return Ok(());
        }
        let drafts = self.plan.method != Method::Plain && self.plan.budget > 0;
        self.backend.set_drafting(drafts);
        for boundary in &job.boundaries {
            let boundary = (*boundary).min(job.prompt.len().saturating_sub(1));
            if boundary <= self.prefix.tokens().len() {
                continue;
            }
            while self.prefix.tokens().len() < boundary {
                if let Some(interruption) = watch.interruption() {
                    return Err(Failure::Interrupted(interruption));
                }
                let start = self.prefix.tokens().len();
                let end = boundary.min(start + shape.prefill_rows.max(1));
                commit_chain(&mut *self.backend, &job.prompt[start..end])?;
                self.prefix.extend(&job.prompt[start..end]);
            }
            self.prefix.keep(&mut *self.backend)?;
        }
        Ok(())
    }

    /// Notes what the engine has committed: prompt and answer without its last token.
    fn remember(&mut self, job: &Job, report: &Report) -> Result<(), Failure> {
        let known = self.prefix.tokens().len();
        self.prefix.extend(&job.prompt[known..]);
        let answer = &report.token_ids[..report.token_ids.len().saturating_sub(1)];
        self.prefix.extend(answer);
        if self.backend.committed() != self.prefix.tokens().len() {
            self.prefix.forget(&mut *self.backend)?;
        }
        Ok(())
    }
}

/// Verifies and commits `tokens` as a chain after what is committed.
fn commit_chain(backend: &mut dyn Backend, tokens: &[u32]) -> Result<(), BackendError> {
    let n = tokens.len();
    let start = backend.committed();
    backend.reserve(start + n)?;
    let positions: Vec<i64> = (start..start + n).map(|p| p as i64).collect();
    let ancestors: Vec<bool> = (0..n * n).map(|i| i % n <= i / n).collect();
    backend.verify(&RowBatch {
        tokens,
        positions: &positions,
        ancestors: &ancestors,
    })?;
    let path: Vec<u32> = (0..n as u32).collect();
    backend.commit(&path)
}

fn bad_text(error: &crate::text::TextError) -> Failure {
    Failure::Interrupted(Interruption::Refused(ApiError::bad_request(
        "invalid_value",
        error.to_string(),
    )))
}

/// The error of the loop as clients see it.
fn decode_error(error: &DecodeError) -> ApiError {
    if !error.is_input() {
        return ApiError::engine(error.to_string());
    }
    let refusal = ApiError::bad_request("invalid_value", error.to_string());
    match error {
        DecodeError::PromptTooLong { .. } => {
            ApiError::bad_request("context_length_exceeded", error.to_string())
        }
        DecodeError::Sampling(crate::sample::SamplingError::Range { field, .. }) => refusal.at(*field),
        _ => refusal,
    }
}

fn usage(report: &Report, reasoning_tokens: usize) -> Usage {
    Usage {
        prompt_tokens: report.prompt_tokens,
        completion_tokens: report.token_ids.len(),
        total_tokens: report.prompt_tokens + report.token_ids.len(),
        prompt_tokens_details: PromptDetails {
            cached_tokens: report.cached_tokens,
        },
        completion_tokens_details: CompletionDetails { reasoning_tokens },
    }
}

fn made(report: &Report, queue_seconds: f64, first_token_seconds: f64) -> Made {
    let s = report.seconds;
    Made {
        method: report.method.name(),
        budget: report.budget,
        seed: report.seed,
        rounds: report.rounds,
        drafted_rounds: report.drafted_rounds,
        draft_tokens: report.draft_tokens,
        accepted_tokens: report.accepted_lengths.iter().map(|l| l.saturating_sub(1)).sum(),
        tau: report.tau(),
        queue_seconds,
        first_token_seconds,
        tokens_per_second: report.tokens_per_second(),
        stage_seconds: Stages {
            prefill: s.prefill,
            draft: s.draft,
            tree: s.tree,
            verify: s.verify,
            walk: s.walk,
            commit: s.commit,
        },
    }
}
