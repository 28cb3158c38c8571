//! Refusals and failures as clients see them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Body of an error: the same shape alone and inside a stream.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorDetail {
    /// One sentence for people.
    pub message: String,
    /// Class of the error, as OpenAI clients know it.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Field of the request that is at fault, for example `messages[0].content`.
    pub param: Option<String>,
    /// Word for programs.
    pub code: &'static str,
}

/// An error on its way to a client.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", detail.message)]
pub struct ApiError {
    /// HTTP status, when it is not too late for one.
    pub status: StatusCode,
    /// The body.
    pub detail: Box<ErrorDetail>,
    /// Seconds after which a client may try again.
    pub retry_after: Option<u64>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        let detail = ErrorDetail {
            message: message.into(),
            kind,
            param: None,
            code,
        };
        Self {
            status,
            detail: Box::new(detail),
            retry_after: None,
        }
    }

    /// 400: `param` has a value that cannot be honoured.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("{param}: {}", message.into());
        Self::bad_request("invalid_value", message).at(param)
    }

    /// 400: the server does not know this field.
    pub fn unknown_field(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("{param}: this field is not supported");
        Self::bad_request("unknown_field", message).at(param)
    }

    /// 400 without a field.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", code, message)
    }

    /// 401: no key, or a wrong one.
    #[must_use]
    pub fn unauthorized() -> Self {
        let message = "a valid API key is needed: Authorization: Bearer KEY";
        Self::new(
            StatusCode::UNAUTHORIZED,
            "authentication_error",
            "invalid_api_key",
            message,
        )
    }

    /// 404: nothing under this path.
    pub fn not_found(path: &str) -> Self {
        let message = format!("there is nothing at {path}");
        Self::new(
            StatusCode::NOT_FOUND,
            "invalid_request_error",
            "not_found",
            message,
        )
    }

    /// 404: another model was asked for.
    pub fn model_not_found(asked: &str, served: &str) -> Self {
        let message = format!("model: {asked:?} is not served here, {served:?} is");
        Self::new(
            StatusCode::NOT_FOUND,
            "invalid_request_error",
            "model_not_found",
            message,
        )
        .at("model")
    }

    /// 405: the path exists with another method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "this path does not take this method";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "invalid_request_error",
            "method_not_allowed",
            message,
        )
    }

    /// 413: the body is larger than the limit.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        let message = format!("the request body is larger than {limit} bytes (--max-body-bytes)");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "invalid_request_error",
            "body_too_large",
            message,
        )
    }

    /// 415: the body is not declared as JSON.
    #[must_use]
    pub fn not_json() -> Self {
        let message = "the body must be JSON and say so: Content-Type: application/json";
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_request_error",
            "not_json",
            message,
        )
    }

    /// Queue and stream are full. `status` is 429, or 503 before balancers that try only that elsewhere.
    #[must_use]
    pub fn busy(status: StatusCode, queue: usize, retry_after: u64) -> Self {
        let message = format!("the stream is busy and the queue of {queue} is full");
        Self::new(status, "rate_limit_error", "queue_full", message).retry(retry_after)
    }

    /// 503: not warmed up yet.
    #[must_use]
    pub fn loading() -> Self {
        let message = "the model is being loaded";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable_error",
            "loading",
            message,
        )
        .retry(5)
    }

    /// 503: shutting down.
    #[must_use]
    pub fn draining() -> Self {
        let message = "the server is shutting down";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable_error",
            "draining",
            message,
        )
        .retry(1)
    }

    /// 503: the engine is gone; the process is about to end.
    #[must_use]
    pub fn engine_gone() -> Self {
        let message = "the engine has stopped";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable_error",
            "engine_gone",
            message,
        )
        .retry(5)
    }

    /// 504: the deadline passed before the answer was whole.
    #[must_use]
    pub fn deadline(seconds: u64) -> Self {
        let message = format!("the answer was not finished within {seconds} s (--request-timeout)");
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "timeout_error",
            "deadline_exceeded",
            message,
        )
    }

    /// 500: the engine failed.
    pub fn engine(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            "engine_failed",
            message,
        )
    }

    /// The same error about `param`.
    #[must_use]
    pub fn at(mut self, param: impl Into<String>) -> Self {
        self.detail.param = Some(param.into());
        self
    }

    fn retry(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The body, for a stream that has begun.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: (*self.detail).clone(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // The same word as in the body, for balancers.
        headers.insert("x-error-code", HeaderValue::from_static(self.detail.code));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
