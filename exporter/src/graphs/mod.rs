//! The graphs of a bundle, one file each; `docs/bundle.md` lists names and shapes of their values.
//!
//! Types: `dtype` is that of linear layers, activations and caches. Norms, softmax, rotary angles, the
//! delta rule and its gates are float32 whatever `dtype` is; so are `hidden`, `logits` and states.

mod attention;
mod commit;
mod context;
mod deltanet;
mod draft;
mod head;
mod linear;
mod net;
mod target;

pub(crate) use commit::commit;
pub(crate) use context::context;
pub(crate) use draft::{DraftParts, draft};
pub(crate) use head::head;
pub(crate) use target::target;

use forkcast_engines::manifest::Initializer;

/// A finished graph.
#[derive(Debug)]
pub(crate) struct Built {
    /// Bytes of the `.onnx` file.
    pub(crate) model: Vec<u8>,
    /// Its external initializers.
    pub(crate) initializers: Vec<Initializer>,
}
