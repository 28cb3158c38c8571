//! Where the weights of a bundle lie: in place in the checkpoint, or in a file that the bundle owns.
//!
//! Planning and writing are apart. Graphs ask a [`Store`] for tensors and get their final place;
//! every missing, misshapen or left-over tensor is found before a byte is written.

mod convert;
mod matrix;
mod owned;
mod plan;
mod quantise;
mod write;

pub(crate) use matrix::Matrix;
pub(crate) use owned::{Owned, hash_file};
pub(crate) use plan::{Placed, Store};

use forkcast_engines::manifest::Dtype;

/// What happens to the numbers of a tensor on the way into the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Transform {
    /// Nothing but a conversion of type.
    None,
    /// `1 + w`, in float32.
    AddOne,
    /// `-exp(w)`, in float32.
    NegExp,
    /// Bytes of blocks that are quantised to this type.
    Blocks(Dtype),
    /// The scales of such blocks.
    Scales(Dtype),
}

impl Transform {
    /// The manifest's name.
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AddOne => "add-one",
            Self::NegExp => "neg-exp",
            Self::Blocks(_) => "blocks",
            Self::Scales(_) => "scales",
        }
    }
}

/// First place for an owned tensor at or after `offset`: vector loads for small ones, pages for large ones.
fn align(offset: u64, length: u64) -> u64 {
    let unit: u64 = if length >= 1 << 20 { 4096 } else { 64 };
    offset.next_multiple_of(unit)
}

/// Number of elements of a shape; shapes come from checked headers, so this cannot overflow.
fn elements(shape: &[usize]) -> u64 {
    shape.iter().map(|d| *d as u64).product()
}

/// Bytes of a tensor.
fn bytes(shape: &[usize], dtype: Dtype) -> u64 {
    elements(shape) * dtype.size() as u64
}
