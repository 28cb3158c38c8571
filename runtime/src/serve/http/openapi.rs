//! The published description of the interface.

use super::super::api::{ChatDelta, Envelope};
use super::{generate, info, tokens};
use axum::Json;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Description;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, openapi::SecurityRequirement};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "forkcast",
        description = "OpenAI-compatible completions from one model on one stream. Fields that are not listed are \
            refused with 400."
    ),
    paths(
        generate::chat,
        generate::completion,
        info::models,
        info::model,
        info::version,
        info::health,
        info::live,
        info::metrics,
        tokens::tokenize,
        tokens::detokenize
    ),
    components(schemas(Envelope<ChatDelta>)),
    modifiers(&Keys)
)]
struct Api;

/// Requests carry a key, when the server has keys.
struct Keys;

impl Modify for Keys {
    fn modify(&self, description: &mut Description) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("key", scheme);
        let none: [String; 0] = [];
        description.security = Some(vec![
            SecurityRequirement::new("key", none),
            SecurityRequirement::default(),
        ]);
    }
}

/// The description as JSON, as `/openapi.json` and `docs/openapi.json` have it.
#[must_use]
pub fn description() -> Description {
    Api::openapi()
}

pub(super) async fn serve() -> Json<Description> {
    Json(description())
}
