//! Request ids, keys, and the errors of paths.

use super::super::api::ApiError;
use super::super::state::Phase;
use super::App;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// The header that names a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest name of a request that is taken from a client.
const MAX_ID: usize = 128;

/// Name of a request, as an extension of it.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) String);

/// Takes the client's request id or makes one up, and sends it back.
pub(super) async fn request_id(mut request: Request, next: Next) -> Response {
    let (id, refused) = match request.headers().get(REQUEST_ID) {
        None => (fresh(), false),
        Some(value) => match value.to_str() {
            Ok(id) if !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(|b| b.is_ascii_graphic()) => {
                (id.to_owned(), false)
            }
            _ => (fresh(), true),
        },
    };
    let header = HeaderValue::from_str(&id);
    let mut response = if refused {
        let message = format!("expected 1 to {MAX_ID} printable ASCII characters without spaces");
        ApiError::invalid("x-request-id", message).into_response()
    } else {
        request.extensions_mut().insert(RequestId(id));
        next.run(request).await
    };
    if let Ok(header) = header {
        response.headers_mut().insert(REQUEST_ID, header);
    }
    response
}

fn fresh() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Lets a request through when it carries a key.
pub(super) async fn key(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let header = request.headers().get(header::AUTHORIZATION);
    if app.settings.keys.accept(header.map(HeaderValue::as_bytes)) {
        next.run(request).await
    } else {
        ApiError::unauthorized().into_response()
    }
}

/// While the server goes down, connections are not kept.
pub(super) async fn close_when_draining(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    if matches!(app.state.phase(), Phase::Draining | Phase::Dead) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

pub(super) async fn not_found(uri: Uri) -> ApiError {
    ApiError::not_found(uri.path())
}

pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::method_not_allowed()
}
