//! forkcast's exporter: a checkpoint goes in, a bundle of ONNX graphs and a manifest comes out.
//!
//! Nothing is traced and no Python runs: graphs are written node by node ([`graphs`](self) of the
//! crate), weights stay where they are when their type fits. [`export`] plans everything first (each
//! missing, misshapen or left-over tensor is found before a byte is written), then writes into a
//! folder beside the final one and renames it.

#![forbid(unsafe_code)]

mod checkpoint;
mod config;
#[doc(hidden)]
pub mod entry;
mod error;
mod export;
mod graphs;
mod model;
mod output;
mod text;
mod weights;

pub use checkpoint::hub::HubCache;
pub use error::ExportError;
pub use export::{ExportOptions, Progress, Summary, export};
