//! Bodies of requests.

use forkcast::serve::api::{ApiError, ChatRequest, CompletionRequest, TokenizeRequest, read_detokenize};

/// A refusal must be one of the client's, name something, and not repeat the body.
fn refusal(error: &ApiError, body: &[u8]) {
    let text = format!("{error:?}");
    assert!(
        text.len() < 4096 + body.len() / 8,
        "a refusal of {} bytes",
        text.len()
    );
}

/// `POST /v1/chat/completions`.
pub fn chat_request(data: &[u8]) {
    match ChatRequest::parse(data) {
        Ok(request) => assert!(request.common.stop.len() <= forkcast::serve::api::MAX_STOPS),
        Err(error) => refusal(&error, data),
    }
    if let Err(error) = TokenizeRequest::parse(data) {
        refusal(&error, data);
    }
}

/// `POST /v1/completions`, and the token routes.
pub fn completion_request(data: &[u8]) {
    match CompletionRequest::parse(data) {
        Ok(request) => assert!(request.max_tokens > 0),
        Err(error) => refusal(&error, data),
    }
    if let Err(error) = read_detokenize(data) {
        refusal(&error, data);
    }
}
