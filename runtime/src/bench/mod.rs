//! Measuring a model: suites of prompts, every method and budget in turn on one engine, and what came out.
//!
//! The pipeline: [`suite`] reads prompts, [`settings`] spells the cells (method, budget, temperature), [`run`] answers
//! every prompt with every cell, interleaved, [`record`] is what is kept of it (`bench.json`), [`summary`] condenses it,
//! [`markdown`] and [`plot`] show it, [`compare`] sets two records side by side. [`synthetic`] replaces luck with a
//! chosen acceptance.

pub mod compare;
mod error;
mod frequent;
mod host;
pub mod markdown;
pub mod plot;
pub mod record;
pub mod run;
pub mod settings;
mod stats;
pub mod suite;
pub mod summary;
pub mod synthetic;

pub use error::BenchError;
pub use frequent::frequent;
pub use host::{Host, commit, host};

#[cfg(test)]
mod tests;
