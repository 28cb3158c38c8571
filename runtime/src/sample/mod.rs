//! From logits to a token: penalties, temperature, filters and a draw that depends on the seed and the
//! position only, so that every method emits the same text.
//!
//! Order, as in Hugging Face's generation: repetition penalty, presence and frequency penalties, bias, temperature,
//! top-k, top-p, min-p. The draw inverts the cumulative distribution in id order.

mod dice;
mod distance;
mod filter;
mod history;
pub mod reference;
mod sampler;
mod settings;
mod top;
mod weight;

pub use distance::distance;
pub use history::History;
pub use sampler::{Choice, Sampler};
pub use settings::{Sampling, SamplingError};

#[cfg(test)]
mod tests;
