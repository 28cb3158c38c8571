//! `forkcast serve`: one model, one stream, behind the interface that OpenAI clients speak.

pub mod api;
pub mod split;
