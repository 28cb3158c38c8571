//! The HTTP side: routes, and what every request passes through.

mod body;
mod chunks;
mod generate;
mod guard;
mod info;
mod logprobs;
mod openapi;
mod tokens;
mod whole;

use super::engine::Queue;
use super::keys::Keys;
use super::model::Model;
use super::state::State;
use axum::Router;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
pub use openapi::description;
use std::sync::Arc;
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// Settings of the HTTP side.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Largest body in bytes.
    pub max_body: usize,
    /// Time that a request may take from its arrival.
    pub timeout: Duration,
    /// Time between keep-alive comments.
    pub keep_alive: Duration,
    /// Length of the queue, for messages.
    pub max_queue: usize,
    /// Status of refusals for want of room: 429 or 503.
    pub busy: StatusCode,
    /// Keys that are taken.
    pub keys: Keys,
    /// Origins that browsers may call from; empty switches CORS off.
    pub cors: Vec<HeaderValue>,
}

/// What handlers share.
#[derive(Debug)]
pub struct App {
    /// Where the server stands.
    pub state: Arc<State>,
    /// The model.
    pub model: Arc<Model>,
    /// The queue.
    pub queue: Arc<Queue>,
    /// Settings.
    pub settings: HttpSettings,
}

/// All routes.
pub fn router(app: App) -> Router {
    let app = Arc::new(app);
    let guarded = Router::new()
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completion))
        .route("/v1/models", get(info::models))
        .route("/v1/models/{id}", get(info::model))
        .route("/version", get(info::version))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/openapi.json", get(openapi::serve))
        .method_not_allowed_fallback(guard::method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&app), guard::key));
    let open = Router::new()
        .route("/", get(info::page))
        .route("/health", get(info::health))
        .route("/live", get(info::live))
        .route("/metrics", get(info::metrics))
        .method_not_allowed_fallback(guard::method_not_allowed);
    let mut router = guarded.merge(open).fallback(guard::not_found);
    if !app.settings.cors.is_empty() {
        let cors = CorsLayer::new()
            .allow_origin(origins(&app.settings.cors))
            .allow_methods([Method::GET, Method::POST])
            .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, guard::REQUEST_ID]);
        router = router.layer(cors);
    }
    router
        .layer(from_fn_with_state(Arc::clone(&app), guard::close_when_draining))
        .layer(from_fn(guard::request_id))
        .with_state(app)
}

/// Origins that browsers may call from; `*` is any.
fn origins(listed: &[HeaderValue]) -> AllowOrigin {
    if listed.iter().any(|o| o == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(listed.to_vec())
    }
}
