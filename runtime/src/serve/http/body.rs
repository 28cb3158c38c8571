//! Reads request bodies of bounded size in bounded time.

use super::super::api::ApiError;
use super::HttpSettings;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;

/// The body of a JSON request.
pub(super) async fn read(request: Request, settings: &HttpSettings) -> Result<Vec<u8>, ApiError> {
    let headers = request.headers();
    // Browsers send other types across origins without asking first.
    if !is_json(headers) {
        return Err(ApiError::not_json());
    }
    let limit = settings.max_body;
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(ApiError::too_large(limit));
    }
    let collect = async move {
        let mut stream = request.into_body().into_data_stream();
        let mut body = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|e| {
                ApiError::bad_request("body_unreadable", format!("the body ended early: {e}"))
            })?;
            if body.len() + chunk.len() > limit {
                return Err(ApiError::too_large(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    };
    match tokio::time::timeout(settings.timeout, collect).await {
        Ok(body) => body,
        Err(_) => Err(ApiError::deadline(settings.timeout.as_secs())),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let kind = kind.and_then(|k| k.split(';').next());
    kind.is_some_and(|k| k.trim().eq_ignore_ascii_case("application/json"))
}
