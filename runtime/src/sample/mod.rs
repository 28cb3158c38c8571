//! From logits to a token: penalties, filters, temperature and a draw that depends on the seed and the
//! position only, so that every method emits the same text.

mod filter;
mod history;
mod sampler;
mod settings;

pub use history::History;
pub use sampler::{Choice, Sampler};
pub use settings::{Sampling, SamplingError};

#[cfg(test)]
mod tests;
