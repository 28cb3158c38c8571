//! Answers that are sent at once.

use super::super::api::{Absent, ApiError, ChatChoice, Message, TextChoice, ToolCall};
use super::super::engine::{Event, Output};
use super::super::split::Part;
use super::chunks::{Kind, call};
use super::generate::Submitted;
use super::logprobs::Logprobs;
use axum::Json;
use axum::response::{IntoResponse, Response};

/// Collects the answer and sends it.
pub(super) async fn respond(mut submitted: Submitted) -> Response {
    let mut answer = Answer::default();
    let mut logprobs = submitted.logprobs.then(Logprobs::default);
    let output = loop {
        match next(&mut submitted).await {
            Ok(Event::Round(_)) => {}
            Ok(Event::Token(token)) => {
                if let Some(logprobs) = &mut logprobs {
                    logprobs.push(&submitted.model, &token);
                }
                answer.extend(token.parts);
            }
            Ok(Event::Done(output)) => break output,
            Ok(Event::Failed(error)) | Err(error) => return error.into_response(),
        }
    };
    let Output {
        tail,
        finish,
        usage,
        made,
    } = *output;
    answer.extend(tail);
    let head = submitted.head;
    match head.kind {
        Kind::Chat => {
            let choice = ChatChoice {
                index: 0,
                message: answer.message(),
                logprobs: logprobs.map(Logprobs::chat),
                finish_reason: finish,
            };
            let mut envelope = head.envelope(head.kind.whole(), vec![choice]);
            envelope.usage = Some(usage);
            envelope.forkcast = Some(made);
            Json(envelope).into_response()
        }
        Kind::Text => {
            let choice = TextChoice {
                index: 0,
                text: answer.content,
                logprobs: logprobs.map(Logprobs::text),
                finish_reason: Some(finish),
            };
            let mut envelope = head.envelope(head.kind.whole(), vec![choice]);
            envelope.usage = Some(usage);
            envelope.forkcast = Some(made);
            Json(envelope).into_response()
        }
    }
}

/// The next event, or the error that takes its place.
pub(super) async fn next(submitted: &mut Submitted) -> Result<Event, ApiError> {
    loop {
        if let Some(event) = submitted.batch.next() {
            return Ok(event);
        }
        match tokio::time::timeout_at(submitted.deadline, submitted.events.recv()).await {
            Ok(Some(batch)) => submitted.batch = batch.into_iter(),
            Ok(None) => return Err(ApiError::engine_gone()),
            Err(_) => return Err(ApiError::deadline(submitted.timeout)),
        }
    }
}

#[derive(Default)]
struct Answer {
    content: String,
    reasoning: String,
    calls: Vec<ToolCall>,
}

impl Answer {
    fn extend(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part {
                Part::Content(text) => self.content += &text,
                Part::Reasoning(text) => self.reasoning += &text,
                Part::Call(parsed) => self.calls.push(call(parsed, None)),
            }
        }
    }

    fn message(self) -> Message {
        Message {
            role: Some("assistant"),
            content: if self.content.is_empty() && !self.calls.is_empty() {
                Absent::Null
            } else {
                Absent::Text(self.content)
            },
            reasoning_content: (!self.reasoning.is_empty()).then_some(self.reasoning),
            tool_calls: self.calls,
        }
    }
}
