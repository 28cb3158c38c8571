//! Matrices of linear layers: plain, or quantised by blocks.

use super::plan::{Placed, Store};
use super::{Transform, elements};
use crate::ExportError;
use forkcast_engines::manifest::{Dtype, QUANT_BLOCK};

/// A matrix `[rows, cols]`.
#[derive(Clone, Debug)]
pub(crate) enum Matrix {
    /// Row-major numbers.
    Plain(Placed),
    /// Blocks of [`QUANT_BLOCK`] numbers of a row share one scale: bytes `[rows, cols/32, 32 or 16]`, scales
    /// `[rows, cols/32]`.
    Blocks {
        /// The bytes.
        data: Placed,
        /// The scales.
        scales: Placed,
        /// Columns.
        cols: usize,
    },
}

impl Matrix {
    /// The parts of a stack from number `first` on.
    pub(crate) fn tail(&self, first: usize) -> Self {
        match self {
            Self::Plain(placed) => Self::Plain(placed.tail(first)),
            Self::Blocks { data, scales, cols } => Self::Blocks {
                data: data.tail(first),
                scales: scales.tail(first),
                cols: *cols,
            },
        }
    }
}

/// Fewest numbers of a matrix that is quantised: smaller ones save nothing.
const WORTH: u64 = 4096;
/// Projections that decide decay and step of the delta rule: a few rows, and every later state depends on them.
const EXACT: [&str; 2] = ["in_proj_a.weight", "in_proj_b.weight"];

impl Store<'_> {
    /// Whether `[rows, cols]` under `name` is quantised in this bundle.
    fn quantises(&self, name: &str, rows: usize, cols: usize) -> Option<Dtype> {
        let worth = cols.is_multiple_of(QUANT_BLOCK) && elements(&[rows, cols]) >= WORTH;
        let exact = EXACT.iter().any(|e| name.ends_with(e));
        self.quantised.filter(|_| worth && !exact)
    }

    /// Places one matrix; `dtype` is its type unless it is quantised.
    pub(crate) fn matrix(
        &mut self,
        name: &str,
        [rows, cols]: [usize; 2],
        dtype: Dtype,
    ) -> Result<Matrix, ExportError> {
        let parts = [(name.to_owned(), rows)];
        match self.quantises(name, rows, cols) {
            Some(quantised) => self.blocks(&parts, cols, quantised),
            None => self
                .place(name, &[rows, cols], dtype, Transform::None)
                .map(Matrix::Plain),
        }
    }

    /// Places `[rows, cols]` matrices one after another, provided that all of them are written anyway.
    /// `None`: at least one can be referenced in place or is not quantised as the others, so they stay apart; or the bundle is
    /// for a GPU, where every checkpoint of one shape must give the same graphs whatever type it is stored in, so that
    /// one engine runs all.
    pub(crate) fn stack(
        &mut self,
        parts: &[(String, usize)],
        cols: usize,
        dtype: Dtype,
    ) -> Result<Option<Matrix>, ExportError> {
        let kinds: Vec<Option<Dtype>> = parts
            .iter()
            .map(|(name, rows)| self.quantises(name, *rows, cols))
            .collect();
        match kinds.first() {
            Some(Some(quantised)) if kinds.iter().all(|k| k == &kinds[0]) => {
                self.blocks(parts, cols, *quantised).map(Some)
            }
            _ if kinds.iter().any(Option::is_some) => Ok(None),
            _ => Ok(self.stack_plain(parts, cols, dtype)?.map(Matrix::Plain)),
        }
    }

    fn blocks(
        &mut self,
        parts: &[(String, usize)],
        cols: usize,
        quantised: Dtype,
    ) -> Result<Matrix, ExportError> {
        let rows = parts.iter().map(|(_, rows)| rows).sum();
        let blocks = cols / QUANT_BLOCK;
        let bytes = quantised.block_bytes().unwrap_or(QUANT_BLOCK);
        let shape = vec![rows, blocks, bytes];
        let data = self.made(parts, cols, shape, quantised, Transform::Blocks(quantised))?;
        let shape = vec![rows, blocks];
        let scales = self.made(parts, cols, shape, Dtype::F32, Transform::Scales(quantised))?;
        Ok(Matrix::Blocks { data, scales, cols })
    }
}
