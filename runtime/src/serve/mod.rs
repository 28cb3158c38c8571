//! `forkcast serve`: one model, one stream, behind the interface that OpenAI clients speak.
//!
//! One thread owns the engine and answers one job after another from a bounded queue ([`engine`]); text is made
//! and taken apart there, token by token ([`split`]). The asynchronous side ([`http`]) reads requests
//! strictly ([`api`]) and only writes down what comes. Whatever happens to a request, it leaves one line and one
//! count ([`ledger`]).

mod accept;
pub mod api;
mod args;
pub mod engine;
mod error;
pub mod http;
pub mod keys;
pub mod ledger;
pub mod log;
pub mod metrics;
pub mod model;
mod run;
pub mod server;
pub mod split;
pub mod state;

pub use args::{BusyStatus, ServeArgs};
pub use error::ServeError;
pub use run::run;

#[cfg(test)]
mod tests;
