//! What the server says about itself.

use super::super::api::{ApiError, ErrorBody, ModelEntry, ModelList, Status, Version};
use super::super::state::Phase;
use super::App;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use std::sync::Arc;

const OK: Json<Status> = Json(Status { status: "ok" });

/// Whether requests are taken.
#[utoipa::path(get, path = "/health", responses(
    (status = 200, body = Status), (status = 503, body = ErrorBody, description = "loading or shutting down")))]
pub(super) async fn health(State(app): State<Arc<App>>) -> Result<Json<Status>, ApiError> {
    app.state.check().map(|_| OK)
}

/// Whether the process works; restart it when not.
#[utoipa::path(get, path = "/live", responses(
    (status = 200, body = Status), (status = 503, body = ErrorBody, description = "the engine has stopped")))]
pub(super) async fn live(State(app): State<Arc<App>>) -> Result<Json<Status>, ApiError> {
    match app.state.phase() {
        Phase::Dead => Err(ApiError::engine_gone()),
        Phase::Loading | Phase::Ready | Phase::Draining => Ok(OK),
    }
}

/// Metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], app.state.metrics.render()).into_response()
}

/// The served model, as a list.
#[utoipa::path(get, path = "/v1/models", responses((status = 200, body = ModelList)))]
pub(super) async fn models(State(app): State<Arc<App>>) -> Json<ModelList> {
    Json(ModelList {
        object: "list",
        data: vec![entry(&app)],
    })
}

/// The served model.
#[utoipa::path(get, path = "/v1/models/{id}", params(("id" = String, Path)), responses(
    (status = 200, body = ModelEntry), (status = 404, body = ErrorBody)))]
pub(super) async fn model(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<ModelEntry>, ApiError> {
    app.model.check_name(Some(&id))?;
    Ok(Json(entry(&app)))
}

fn entry(app: &App) -> ModelEntry {
    ModelEntry {
        id: app.model.id.clone(),
        object: "model",
        created: app.model.created,
        owned_by: "forkcast",
        max_model_len: app.state.engine().map_or(0, |e| e.shape.max_context),
    }
}

/// Version and settings.
#[utoipa::path(get, path = "/version", responses((status = 200, body = Version)))]
pub(super) async fn version(State(app): State<Arc<App>>) -> Json<Version> {
    let engine = app.state.engine();
    Json(Version {
        version: env!("CARGO_PKG_VERSION"),
        model: app.model.id.clone(),
        method: engine.map(|e| e.method.name()),
        budget: engine.map(|e| e.budget),
    })
}

/// The built-in page. It may load nothing from elsewhere.
pub(super) async fn page() -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
        connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let policy = HeaderValue::from_static(POLICY);
    let page = Html(include_str!("../page.html"));
    ([(header::CONTENT_SECURITY_POLICY, policy)], page).into_response()
}
