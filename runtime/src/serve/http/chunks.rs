//! Answers that are streamed as server-sent events.

use super::super::api::{
    Absent, ApiError, Called, ChatDelta, Envelope, Message, RoundView, TextChoice, ToolCall, TreeView,
};
use super::super::engine::{Event, Output, TokenEvent};
use super::super::model::Model;
use super::super::split::{ParsedCall, Part};
use super::generate::Submitted;
use super::logprobs::Logprobs;
use super::whole::next;
use axum::response::sse::{Event as Sse, KeepAlive, Sse as SseResponse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

/// Kind of completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An answer in a conversation.
    Chat,
    /// A continued text.
    Text,
}

impl Kind {
    /// `object` of a whole answer.
    pub(super) fn whole(self) -> &'static str {
        match self {
            Self::Chat => "chat.completion",
            Self::Text => "text_completion",
        }
    }

    fn chunk(self) -> &'static str {
        match self {
            Self::Chat => "chat.completion.chunk",
            Self::Text => "text_completion",
        }
    }
}

/// What all chunks of an answer share.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    id: String,
    created: u64,
    model: String,
}

impl Head {
    pub(super) fn new(kind: Kind, model: &Model) -> Self {
        let prefix = match kind {
            Kind::Chat => "chatcmpl",
            Kind::Text => "cmpl",
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            kind,
            id: format!("{prefix}-{}", uuid::Uuid::new_v4().simple()),
            created: now.map_or(0, |t| t.as_secs()),
            model: model.id.clone(),
        }
    }

    pub(super) fn envelope<C>(&self, object: &'static str, choices: Vec<C>) -> Envelope<C> {
        Envelope {
            id: self.id.clone(),
            object,
            created: self.created,
            model: self.model.clone(),
            choices,
            usage: None,
            forkcast: None,
            round: None,
        }
    }
}

/// A call as answers carry it; `index` in streams.
pub(super) fn call(parsed: ParsedCall, index: Option<usize>) -> ToolCall {
    ToolCall {
        index,
        id: format!("call_{}", uuid::Uuid::new_v4().simple()),
        kind: "function",
        function: Called {
            name: parsed.name,
            arguments: parsed.arguments,
        },
    }
}

/// Streams the answer. The status is chosen by the first event; when that takes longer than `keep_alive`,
/// the stream begins anyway and carries comments.
pub(super) async fn respond(mut submitted: Submitted, keep_alive: Duration) -> Response {
    let first = tokio::time::timeout(keep_alive, next(&mut submitted)).await;
    let mut streamer = Streamer::new(submitted);
    match first {
        Ok(Ok(Event::Failed(error)) | Err(error)) => return error.into_response(),
        Ok(Ok(event)) => streamer.event(event),
        Err(_) => {}
    }
    let events = stream::unfold(streamer, |mut streamer| async {
        let event = streamer.next().await?;
        Some((Ok::<_, Infallible>(event), streamer))
    });
    SseResponse::new(events)
        .keep_alive(KeepAlive::new().interval(keep_alive))
        .into_response()
}

struct Streamer {
    submitted: Submitted,
    ready: VecDeque<Sse>,
    logprobs: Logprobs,
    tree: Option<TreeView>,
    calls: usize,
    over: bool,
}

impl Streamer {
    fn new(submitted: Submitted) -> Self {
        let mut streamer = Self {
            submitted,
            ready: VecDeque::new(),
            logprobs: Logprobs::default(),
            tree: None,
            calls: 0,
            over: false,
        };
        if streamer.submitted.head.kind == Kind::Chat {
            let message = Message {
                role: Some("assistant"),
                content: Absent::Text(String::new()),
                ..Message::default()
            };
            streamer.chat_chunk(message, None, None);
        }
        streamer
    }

    async fn next(&mut self) -> Option<Sse> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            match next(&mut self.submitted).await {
                Ok(event) => self.event(event),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Round(tree) => self.tree = Some(*tree),
            Event::Token(token) => self.token(token),
            Event::Done(output) => self.finish(*output),
            Event::Failed(error) => self.fail(&error),
        }
    }

    fn token(&mut self, mut token: TokenEvent) {
        if self.submitted.logprobs {
            self.logprobs.push(&self.submitted.model, &token);
        }
        let parts = std::mem::take(&mut token.parts);
        if self.submitted.streaming.rounds {
            let round = RoundView {
                number: token.round,
                token: token.index,
                seconds: token.seconds,
                tree: self.tree.take(),
            };
            // Every token shows, even one whose text is held back.
            if parts.is_empty() {
                self.part(Part::Content(String::new()), Some(round));
                return;
            }
            let mut round = Some(round);
            for part in parts {
                let view = round.clone();
                if let Some(round) = &mut round {
                    round.tree = None;
                }
                self.part(part, view);
            }
            return;
        }
        for part in parts {
            self.part(part, None);
        }
    }

    fn part(&mut self, part: Part, round: Option<RoundView>) {
        match (self.submitted.head.kind, part) {
            (Kind::Text, Part::Content(text) | Part::Reasoning(text)) => self.text_chunk(text, None, round),
            // Without a splitter there are no calls.
            (Kind::Text, Part::Call(_)) => {}
            (Kind::Chat, part) => {
                let message = self.message(part);
                self.chat_chunk(message, None, round);
            }
        }
    }

    fn message(&mut self, part: Part) -> Message {
        let mut message = Message::default();
        match part {
            Part::Content(text) => message.content = Absent::Text(text),
            Part::Reasoning(text) => message.reasoning_content = Some(text),
            Part::Call(parsed) => {
                message.tool_calls.push(call(parsed, Some(self.calls)));
                self.calls += 1;
            }
        }
        message
    }

    fn finish(&mut self, output: Output) {
        for part in output.tail {
            self.part(part, None);
        }
        let end = Some((output.finish, output.made));
        match self.submitted.head.kind {
            Kind::Chat => self.chat_chunk(Message::default(), end, None),
            Kind::Text => self.text_chunk(String::new(), end, None),
        }
        if self.submitted.streaming.usage {
            let head = &self.submitted.head;
            let mut envelope = head.envelope::<()>(head.kind.chunk(), Vec::new());
            envelope.usage = Some(output.usage);
            self.send(&envelope);
        }
        self.ready.push_back(Sse::default().data("[DONE]"));
        self.over = true;
    }

    /// An error in a stream that has begun: it is the last event, and no `[DONE]` follows.
    fn fail(&mut self, error: &ApiError) {
        self.send(&error.body());
        self.over = true;
    }

    fn chat_chunk(&mut self, delta: Message, end: Option<End>, round: Option<RoundView>) {
        let (finish_reason, made) = end.unzip();
        let choice = ChatDelta {
            index: 0,
            delta,
            logprobs: self.logprobs.take().map(Logprobs::chat),
            finish_reason,
        };
        let head = &self.submitted.head;
        let mut envelope = head.envelope(head.kind.chunk(), vec![choice]);
        envelope.forkcast = made;
        envelope.round = round;
        self.send(&envelope);
    }

    fn text_chunk(&mut self, text: String, end: Option<End>, round: Option<RoundView>) {
        let (finish_reason, made) = end.unzip();
        let choice = TextChoice {
            index: 0,
            text,
            logprobs: self.logprobs.take().map(Logprobs::text),
            finish_reason,
        };
        let head = &self.submitted.head;
        let mut envelope = head.envelope(head.kind.chunk(), vec![choice]);
        envelope.forkcast = made;
        envelope.round = round;
        self.send(&envelope);
    }

    fn send<T: Serialize>(&mut self, value: &T) {
        // The types here always serialize; an event without data would be worse than a named failure.
        let data = serde_json::to_string(value)
            .unwrap_or_else(|e| format!("{{\"error\":{{\"message\":\"cannot be written: {e}\"}}}}"));
        self.ready.push_back(Sse::default().data(data));
    }
}

type End = (super::super::api::Finish, super::super::api::Made);
