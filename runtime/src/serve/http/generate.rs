//! Completions: from a request to a place in the queue, and from events to an answer.

use super::super::api::{
    ApiError, ChatBody, ChatChoice, ChatRequest, Common, CompletionBody, CompletionRequest, Envelope,
    ErrorBody, Prompt, Streaming, TextChoice,
};
use super::super::engine::{Delivery, Event, Full, Job};
use super::super::ledger::Entry;
use super::super::model::{Model, Prepared};
use super::super::split::Splitter;
use super::chunks::{self, Head, Kind};
use super::guard::RequestId;
use super::{App, body, tokens, whole};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

/// A request in the queue.
pub(super) struct Submitted {
    pub(super) events: UnboundedReceiver<Vec<Event>>,
    /// What came and was not looked at yet.
    pub(super) batch: std::vec::IntoIter<Event>,
    pub(super) deadline: Instant,
    pub(super) timeout: u64,
    pub(super) head: Head,
    pub(super) streaming: Streaming,
    pub(super) logprobs: bool,
    pub(super) model: Arc<Model>,
}

/// What a request turns into.
struct Wanted {
    kind: Kind,
    common: Common,
    prepared: Prepared,
    max_tokens: Option<usize>,
    logprobs: Option<usize>,
    splitter: Option<Splitter>,
}

/// An answer in a conversation.
#[utoipa::path(post, path = "/v1/chat/completions", request_body = ChatBody, responses(
    (status = 200, body = Envelope<ChatChoice>, description = "with stream: chunks as server-sent events"),
    (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 413, body = ErrorBody), (status = 429, body = ErrorBody, description = "see Retry-After"),
    (status = 503, body = ErrorBody), (status = 504, body = ErrorBody)))]
pub(super) async fn chat(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let entry = entry(&app, id, "chat");
    respond(&app, entry, request, |body, model| {
        let request = ChatRequest::parse(body)?;
        model.check_name(request.common.model.as_deref())?;
        let prepared = model.chat(&request.messages, &request.tools, request.thinking)?;
        let tools = (!request.tools.is_empty()).then(|| Arc::new(request.tools));
        Ok(Wanted {
            kind: Kind::Chat,
            splitter: Some(Splitter::new(prepared.start, tools)),
            prepared,
            common: request.common,
            max_tokens: request.max_tokens,
            logprobs: request.logprobs,
        })
    })
    .await
}

/// The continuation of a text.
#[utoipa::path(post, path = "/v1/completions", request_body = CompletionBody, responses(
    (status = 200, body = Envelope<TextChoice>, description = "with stream: chunks as server-sent events"),
    (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 413, body = ErrorBody), (status = 429, body = ErrorBody, description = "see Retry-After"),
    (status = 503, body = ErrorBody), (status = 504, body = ErrorBody)))]
pub(super) async fn completion(
    State(app): State<Arc<App>>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let entry = entry(&app, id, "completion");
    respond(&app, entry, request, |body, model| {
        let request = CompletionRequest::parse(body)?;
        model.check_name(request.common.model.as_deref())?;
        let tokens = match &request.prompt {
            Prompt::Text(text) => model.encode(text)?,
            Prompt::Ids(ids) => ids.clone(),
        };
        Ok(Wanted {
            kind: Kind::Text,
            splitter: None,
            prepared: Model::continuation(tokens),
            common: request.common,
            max_tokens: Some(request.max_tokens),
            logprobs: request.logprobs,
        })
    })
    .await
}

fn entry(app: &App, id: RequestId, endpoint: &'static str) -> Entry {
    Entry::new(Arc::clone(&app.state.metrics), id.0, endpoint)
}

async fn respond<F>(app: &Arc<App>, mut entry: Entry, request: Request, read: F) -> Response
where
    F: FnOnce(&[u8], &Model) -> Result<Wanted, ApiError> + Send + 'static,
{
    let wanted = match prepare(app, request, read).await {
        Ok(wanted) => wanted,
        Err(error) => return entry.refuse(error).into_response(),
    };
    match submit(app, entry, wanted) {
        Ok(submitted) if submitted.streaming.on => chunks::respond(submitted, app.settings.keep_alive).await,
        Ok(submitted) => whole::respond(submitted).await,
        Err(error) => error.into_response(),
    }
}

/// Reads a request and makes its prompt.
async fn prepare<F>(app: &App, request: Request, read: F) -> Result<Wanted, ApiError>
where
    F: FnOnce(&[u8], &Model) -> Result<Wanted, ApiError> + Send + 'static,
{
    app.state.check()?;
    let body = body::read(request, &app.settings).await?;
    tokens::blocking(app, move |model| read(&body, model)).await
}

/// Checks what the engine's sizes decide, and queues the job.
fn submit(app: &App, mut entry: Entry, wanted: Wanted) -> Result<Submitted, ApiError> {
    match check(app, &wanted) {
        Ok(()) => {}
        Err(error) => return Err(entry.refuse(error)),
    }
    let (sender, events) = unbounded_channel();
    let head = Head::new(wanted.kind, &app.model);
    let deadline = entry.arrived + app.settings.timeout;
    let timeout = app.settings.timeout.as_secs();
    let sampling = app.model.sampling(&wanted.common.sampling);
    let streaming = wanted.common.streaming;
    let job = Job {
        prompt: wanted.prepared.tokens,
        boundaries: wanted.prepared.boundaries,
        max_tokens: wanted.max_tokens.unwrap_or(usize::MAX),
        sampling,
        seed: wanted.common.sampling.seed.unwrap_or_else(random_seed),
        stop: wanted.common.stop,
        splitter: wanted.splitter,
        logprobs: wanted.logprobs,
        trees: streaming.rounds,
        deadline,
        timeout,
        events: sender,
        delivery: if streaming.on {
            Delivery::Rounds
        } else {
            Delivery::End
        },
        entry,
    };
    if let Err(Full { mut job, retry_after }) = app.queue.push(job) {
        // A queue that was closed in the meantime is not busy.
        let busy = || ApiError::busy(app.settings.busy, app.settings.max_queue, retry_after);
        let error = app.state.check().err().unwrap_or_else(busy);
        return Err(job.entry.refuse(error));
    }
    Ok(Submitted {
        events,
        batch: Vec::new().into_iter(),
        deadline: deadline.into(),
        timeout,
        head,
        streaming,
        logprobs: wanted.logprobs.is_some(),
        model: Arc::clone(&app.model),
    })
}

fn check(app: &App, wanted: &Wanted) -> Result<(), ApiError> {
    let shape = app.state.check()?.shape;
    let field = match wanted.kind {
        Kind::Chat => "messages",
        Kind::Text => "prompt",
    };
    let tokens = &wanted.prepared.tokens;
    if tokens.is_empty() {
        return Err(ApiError::invalid(field, "the prompt is empty"));
    }
    if tokens.len() >= shape.max_context {
        let message = format!(
            "{field}: the prompt has {} tokens, the context holds {} with at least one token of answer",
            tokens.len(),
            shape.max_context
        );
        return Err(ApiError::bad_request("context_length_exceeded", message).at(field));
    }
    if let Some(i) = tokens.iter().position(|t| *t as usize >= shape.vocab) {
        let reason = format!(
            "token id {} is outside the vocabulary of {}",
            tokens[i], shape.vocab
        );
        return Err(ApiError::invalid(format!("{field}[{i}]"), reason));
    }
    let outside = wanted
        .common
        .sampling
        .logit_bias
        .iter()
        .find(|(t, _)| *t as usize >= shape.vocab);
    if let Some((token, _)) = outside {
        let reason = format!("the token is outside the vocabulary of {}", shape.vocab);
        return Err(ApiError::invalid(format!("logit_bias.{token}"), reason));
    }
    Ok(())
}

/// A seed for requests that bring none; the answer reports it.
fn random_seed() -> u64 {
    // 63 bits: JSON readers with signed integers can send it back.
    (uuid::Uuid::new_v4().as_u64_pair().1 << 2) >> 1
}
