//! Requests and answers: read strictly, written as OpenAI clients expect them.

mod chat;
mod common;
mod completion;
mod envelope;
mod error;
mod fields;
mod message;
mod response;
mod schema;
mod strict;
mod tokens;
mod tool;

pub use chat::ChatRequest;
pub use common::{Common, MAX_STOPS, MAX_TOP_LOGPROBS, SamplingFields, Streaming};
pub use completion::{CompletionRequest, DEFAULT_MAX_TOKENS, Prompt};
pub use envelope::{
    ChatChoice, ChatDelta, Envelope, ModelEntry, ModelList, RoundView, Status, TextChoice, TreeView, Version,
};
pub use error::{ApiError, ErrorBody, ErrorDetail};
pub use message::Messages;
pub use response::{
    Absent, Alternative, Called, ChatLogprobs, CompletionDetails, Finish, Made, Message, PromptDetails,
    Stages, TextLogprobs, TokenLogprob, ToolCall, Usage,
};
pub use schema::{ChatBody, CompletionBody, DetokenizeBody, MessageBody, TokenizeBody};
pub use tokens::{Detokenized, TokenizeRequest, Tokenized, read_detokenize};
pub use tool::Tool;

#[cfg(test)]
mod tests;
