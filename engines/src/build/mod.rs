//! From a bundle to an engine directory: graphs are rewritten for a GPU, checked, compiled, and described.
//!
//! Everything up to the compiler is plain rewriting of ONNX messages and runs anywhere; the compiler is behind
//! [`Compiler`], so that tests can put another one in its place.

mod bodies;
mod directory;
mod error;
mod heads;
mod inputs;
mod prepare;
mod profiles;
mod support;
#[cfg(any(feature = "tensorrt", feature = "tensorrt-enterprise"))]
mod tensorrt;
mod weights;

pub use directory::{BuildOptions, Summary, build};
pub use error::BuildError;
pub(crate) use inputs::onnx_type;
pub use prepare::{Prepared, prepare};
#[cfg(any(feature = "tensorrt", feature = "tensorrt-enterprise"))]
pub use tensorrt::TensorRt;

use crate::recipe::{Flavour, Recipe};

/// Version of the library that this build of forkcast compiles with and loads, by flavour.
#[must_use]
pub fn library_version(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::TensorrtRtx => "1.7.1",
        Flavour::Tensorrt => "11.4.0",
    }
}

/// What a build tells while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A graph is being compiled.
    Graph {
        /// Its stage.
        stage: &'a str,
        /// Its number, from 1.
        number: usize,
        /// Graphs in all.
        of: usize,
    },
    /// The compiler is at step `step` of `steps` of a phase.
    Phase {
        /// The compiler's name for it.
        name: &'a str,
        /// Steps done.
        step: usize,
        /// Steps in all; 0 when unknown.
        steps: usize,
    },
}

/// Listens to a build; called from the compiler's thread. Returns whether to go on.
pub type Listener = std::sync::Arc<dyn Fn(&Progress<'_>) -> bool + Send + Sync>;

/// Turns a prepared graph into a plan.
pub trait Compiler {
    /// Version of the library, as `1.7.1`.
    fn version(&self) -> String;

    /// The plan of `graph` for the GPU of `recipe`.
    ///
    /// # Errors
    /// The library refuses the graph, or the listener cancelled.
    fn compile(&self, graph: &Prepared, recipe: &Recipe, listener: &Listener) -> Result<Vec<u8>, BuildError>;
}
