//! What a round costs on this host, and which rounds pay.
//!
//! [`measure`] times the stages of an engine, [`acceptance`] how many drafts of each tree size are accepted, [`choose`] puts
//! the two together (`algorithms.md` 3.7), [`Tune`] is the file that keeps it beside a model, and [`bounds`] says what
//! the host allows.

pub mod acceptance;
pub mod bounds;
pub mod choose;
mod error;
pub mod host;
pub mod measure;
mod model;
mod tune;

pub use error::CostError;
pub use model::{CostModel, DraftCost};
pub use tune::{FILE_NAME, Found, Measured, SCHEMA, Tune, beside, defaults, find, write};

#[cfg(test)]
pub(crate) mod tests;
