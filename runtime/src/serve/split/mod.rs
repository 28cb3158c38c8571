//! Takes the text of an answer apart while it streams: reasoning, content, tool calls.
//!
//! Tags may be cut anywhere; whatever could still become part of a tag is held back, so no field
//! ever carries a piece of one.

mod call;

use super::api::Tool;
pub use call::ParsedCall;
use std::sync::Arc;

const THINK: &str = "<think>";
const END_THINK: &str = "</think>";
const CALL: &str = "<tool_call>";
const END_CALL: &str = "</tool_call>";

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// What the model thinks before it answers.
    Reasoning(String),
    /// Text for the reader.
    Content(String),
    /// A tool that is called.
    Call(ParsedCall),
}

/// Where an answer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The prompt ends inside of a reasoning block.
    Reasoning,
    /// The model decides whether it opens a reasoning block.
    Open,
    /// There is no reasoning: the block was closed in the prompt, or the model knows none.
    Content,
}

impl Start {
    /// How an answer starts after `prompt`, for a model that knows reasoning tags.
    #[must_use]
    pub fn after(prompt: &str) -> Self {
        let prompt = prompt.trim_end();
        if prompt.ends_with(THINK) {
            Self::Reasoning
        } else if prompt.ends_with(END_THINK) {
            Self::Content
        } else {
            Self::Open
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but whitespace so far.
    Open,
    /// Inside of the block, before anything but line breaks.
    ReasoningStart,
    Reasoning,
    /// After the block, before anything but line breaks.
    ContentStart,
    Content,
    Call,
}

/// Takes one answer apart.
#[derive(Clone, Debug)]
pub struct Splitter {
    state: State,
    held: String,
    tools: Option<Arc<Vec<Tool>>>,
}

impl Splitter {
    /// A splitter; without `tools` calls are left in the content.
    #[must_use]
    pub fn new(start: Start, tools: Option<Arc<Vec<Tool>>>) -> Self {
        let state = match start {
            Start::Reasoning => State::ReasoningStart,
            Start::Open => State::Open,
            Start::Content => State::Content,
        };
        Self {
            state,
            held: String::new(),
            tools,
        }
    }

    /// Whether what comes next is reasoning.
    #[must_use]
    pub fn in_reasoning(&self) -> bool {
        matches!(self.state, State::ReasoningStart | State::Reasoning)
    }

    /// Takes the next piece of text and appends what it completes to `out`.
    pub fn push(&mut self, text: &str, out: &mut Vec<Part>) {
        self.held.push_str(text);
        while self.step(out) {}
    }

    /// Ends the answer: what was held back is released. An unfinished call is text.
    pub fn finish(&mut self, out: &mut Vec<Part>) {
        let rest = std::mem::take(&mut self.held);
        match self.state {
            State::ReasoningStart | State::Reasoning => reasoning(rest, out),
            State::Call => content(format!("{CALL}{rest}"), out),
            State::Open | State::ContentStart | State::Content => content(rest, out),
        }
    }

    /// Goes on as far as the held text decides; true when there may be more to do.
    fn step(&mut self, out: &mut Vec<Part>) -> bool {
        match self.state {
            State::Open => self.open(),
            State::ReasoningStart => self.skip_breaks(State::Reasoning),
            State::Reasoning => self.reasoning(out),
            State::ContentStart => self.skip_breaks(State::Content),
            State::Content => self.content(out),
            State::Call => self.call(out),
        }
    }

    fn open(&mut self) -> bool {
        let text = self.held.trim_start();
        if let Some(rest) = text.strip_prefix(THINK) {
            self.held = rest.to_owned();
            self.state = State::ReasoningStart;
        } else if THINK.starts_with(text) {
            return false;
        } else {
            self.state = State::Content;
        }
        true
    }

    fn skip_breaks(&mut self, next: State) -> bool {
        let rest = self.held.trim_start_matches('\n');
        if rest.is_empty() {
            self.held.clear();
            return false;
        }
        self.held = rest.to_owned();
        self.state = next;
        true
    }

    fn reasoning(&mut self, out: &mut Vec<Part>) -> bool {
        if let Some(before) = self.cut_at(END_THINK) {
            reasoning(before.trim_end().to_owned(), out);
            self.state = State::ContentStart;
            return true;
        }
        let free = self.free(END_THINK);
        reasoning(free, out);
        false
    }

    fn content(&mut self, out: &mut Vec<Part>) -> bool {
        if self.tools.is_none() {
            content(std::mem::take(&mut self.held), out);
            return false;
        }
        if let Some(before) = self.cut_at(CALL) {
            content(before.trim_end().to_owned(), out);
            self.state = State::Call;
            return true;
        }
        let free = self.free(CALL);
        content(free, out);
        false
    }

    fn call(&mut self, out: &mut Vec<Part>) -> bool {
        let Some(body) = self.cut_at(END_CALL) else {
            return false;
        };
        let tools = self.tools.as_deref().map_or(&[][..], Vec::as_slice);
        match call::parse(&body, tools) {
            Some(call) => {
                out.push(Part::Call(call));
                self.state = State::ContentStart;
            }
            // What is no call is shown as it came, not dropped.
            None => {
                content(format!("{CALL}{body}{END_CALL}"), out);
                self.state = State::Content;
            }
        }
        true
    }

    /// Text before `tag`, if it is there; the tag is dropped and the rest held.
    fn cut_at(&mut self, tag: &str) -> Option<String> {
        let at = self.held.find(tag)?;
        let rest = self.held.split_off(at + tag.len());
        let mut before = std::mem::replace(&mut self.held, rest);
        before.truncate(at);
        Some(before)
    }

    /// Takes the text that can neither be part of `tag` nor the whitespace before it.
    fn free(&mut self, tag: &str) -> String {
        let longest = tag.len().min(self.held.len() + 1);
        let partial = (1..longest).rev().find(|n| self.held.ends_with(&tag[..*n]));
        let end = self.held.len() - partial.unwrap_or(0);
        let end = self.held[..end].trim_end().len();
        let rest = self.held.split_off(end);
        std::mem::replace(&mut self.held, rest)
    }
}

fn reasoning(text: String, out: &mut Vec<Part>) {
    if !text.is_empty() {
        out.push(Part::Reasoning(text));
    }
}

fn content(text: String, out: &mut Vec<Part>) {
    if !text.is_empty() {
        out.push(Part::Content(text));
    }
}

#[cfg(test)]
mod tests;
