//! `/tokenize` and `/detokenize`.

use super::super::api::{
    ApiError, DetokenizeBody, Detokenized, ErrorBody, TokenizeBody, TokenizeRequest, Tokenized,
    read_detokenize,
};
use super::super::model::Model;
use super::{App, body};
use axum::Json;
use axum::extract::{Request, State};
use std::sync::Arc;

/// Tokens of a text or of a conversation's prompt.
#[utoipa::path(post, path = "/tokenize", request_body = TokenizeBody, responses(
    (status = 200, body = Tokenized), (status = 400, body = ErrorBody)))]
pub(super) async fn tokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Tokenized>, ApiError> {
    let body = body::read(request, &app.settings).await?;
    let (model, what) = TokenizeRequest::parse(&body)?;
    app.model.check_name(model.as_deref())?;
    let max_model_len = app.state.engine().map_or(0, |e| e.shape.max_context);
    let tokens = blocking(&app, move |model| match what {
        TokenizeRequest::Text(text) => model.encode(&text),
        TokenizeRequest::Chat {
            messages,
            tools,
            thinking,
        } => model.chat(&messages, &tools, thinking).map(|p| p.tokens),
    })
    .await?;
    Ok(Json(Tokenized {
        count: tokens.len(),
        max_model_len,
        tokens,
    }))
}

/// Text of tokens.
#[utoipa::path(post, path = "/detokenize", request_body = DetokenizeBody, responses(
    (status = 200, body = Detokenized), (status = 400, body = ErrorBody)))]
pub(super) async fn detokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Detokenized>, ApiError> {
    let body = body::read(request, &app.settings).await?;
    let (model, ids) = read_detokenize(&body)?;
    app.model.check_name(model.as_deref())?;
    let prompt = blocking(&app, move |model| {
        let tokenizer = model
            .tokenizer()
            .map_err(|e| ApiError::invalid("tokens", e.to_string()))?;
        let known = tokenizer.len();
        if let Some(i) = ids.iter().position(|id| *id as usize >= known) {
            let reason = format!("{} is outside the vocabulary of {known}", ids[i]);
            return Err(ApiError::invalid(format!("tokens[{i}]"), reason));
        }
        Ok(tokenizer.decode(&ids, true))
    })
    .await?;
    Ok(Json(Detokenized { prompt }))
}

/// Runs work on text off the threads that serve connections.
pub(super) async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Model) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let model = Arc::clone(&app.model);
    let result = tokio::task::spawn_blocking(move || work(&model)).await;
    result.unwrap_or_else(|_| Err(ApiError::engine("the request could not be read")))
}
