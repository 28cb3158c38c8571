//! Blocks of keys against all queries of a tile.

use super::{Attention, Buffers, HIDDEN, KEYS, Tile, soften};
use crate::kernels::{
    math::{Mat, Size, dots, exp, gemm, gemm_transposed},
    simd::Isa,
};
use std::ops::Range;

/// Up to this many queries dot products beat the matrix product, whose lanes are queries.
pub(super) const FEW_QUERIES: usize = 8;

impl Attention<'_> {
    /// Vector of head `kv_head` in row `row` of keys or values [rows,KVH,D].
    #[inline(always)]
    pub(super) fn kv_row<'k>(&self, data: &'k [f32], kv_head: usize, row: usize) -> &'k [f32] {
        let a = &self.args;
        &data[(row * a.kv_heads + kv_head) * a.head_dim..][..a.head_dim]
    }

    /// Rows from `row` on as a matrix.
    #[inline(always)]
    fn kv_rows<'k>(&self, data: &'k [f32], kv_head: usize, row: usize) -> Mat<'k> {
        let a = &self.args;
        Mat {
            data: &data[(row * a.kv_heads + kv_head) * a.head_dim..],
            stride: a.kv_heads * a.head_dim,
        }
    }

    /// Scaled scores of a block of at most [`KEYS`] keys.
    #[inline(always)]
    pub(super) fn scores<I: Isa>(
        &self,
        isa: I,
        tile: &Tile,
        data: &[f32],
        keys: Range<usize>,
        buffers: &mut Buffers<'_>,
    ) {
        let stride = tile.padded;
        if tile.count > FEW_QUERIES {
            buffers.scores[..keys.len() * stride].fill(0.0);
            let size = Size {
                rows: keys.len(),
                columns: stride,
                depth: self.args.head_dim,
            };
            let queries = Mat {
                data: buffers.queries,
                stride,
            };
            let rows = self.kv_rows(data, tile.kv_head, keys.start);
            gemm(isa, size, rows, queries, buffers.scores, stride);
            return;
        }
        let mut key = keys.start;
        while key < keys.end {
            let at = (key - keys.start) * stride;
            let left = keys.end - key;
            key += if left >= 2 {
                self.few_scores::<I, 2>(isa, tile, data, key, &mut buffers.scores[at..])
            } else {
                self.few_scores::<I, 1>(isa, tile, data, key, &mut buffers.scores[at..])
            };
        }
    }

    /// Scores of `B` keys by dot products; returns `B`.
    #[inline(always)]
    fn few_scores<I: Isa, const B: usize>(
        &self,
        isa: I,
        tile: &Tile,
        data: &[f32],
        key: usize,
        scores: &mut [f32],
    ) -> usize {
        let keys: [&[f32]; B] = std::array::from_fn(|b| self.kv_row(data, tile.kv_head, key + b));
        let mut query = 0;
        while query < tile.count {
            let left = tile.count - query;
            query += if left >= 4 {
                self.dots_at::<I, 4, B>(isa, tile, query, keys, scores)
            } else if left >= 2 {
                self.dots_at::<I, 2, B>(isa, tile, query, keys, scores)
            } else {
                self.dots_at::<I, 1, B>(isa, tile, query, keys, scores)
            };
        }
        for b in 0..B {
            scores[b * tile.padded + tile.count..(b + 1) * tile.padded].fill(HIDDEN);
        }
        B
    }

    #[inline(always)]
    fn dots_at<I: Isa, const A: usize, const B: usize>(
        &self,
        isa: I,
        tile: &Tile,
        query: usize,
        keys: [&[f32]; B],
        scores: &mut [f32],
    ) -> usize {
        let queries: [&[f32]; A] = std::array::from_fn(|q| self.query(tile, query + q));
        for (q, dots) in dots(isa, queries, keys).iter().enumerate() {
            for (b, dot) in dots.iter().enumerate() {
                scores[b * tile.padded + query + q] = dot * self.args.scale;
            }
        }
        A
    }

    /// Hides keys from row number `row` of the tile.
    #[inline(always)]
    pub(super) fn hide(&self, tile: &Tile, row: usize, keys: Range<usize>, first: usize, scores: &mut [f32]) {
        for key in keys {
            scores[(key - first) * tile.padded + row * self.group..][..self.group].fill(HIDDEN);
        }
    }

    /// Turns the scores of a block into weights and adds the weighted values.
    #[inline(always)]
    pub(super) fn absorb<I: Isa>(
        &self,
        isa: I,
        tile: &Tile,
        data: &[f32],
        keys: Range<usize>,
        buffers: &mut Buffers<'_>,
    ) {
        let d = self.args.head_dim;
        for at in (0..tile.padded).step_by(I::LANES) {
            let max = isa.load(&buffers.max[at..]);
            let scores = &mut buffers.scores[at..];
            let (top, weights) = soften(isa, scores, tile.padded, keys.len(), max);
            let factor = exp(isa, isa.sub(max, top));
            let total = isa.fma(isa.load(&buffers.total[at..]), factor, weights);
            isa.store(&mut buffers.max[at..], top);
            isa.store(&mut buffers.total[at..], total);
            isa.store(&mut buffers.factor[at..], factor);
        }
        for (sums, factor) in buffers.sums.chunks_exact_mut(d).zip(&*buffers.factor) {
            if *factor != 1.0 {
                sums.iter_mut().for_each(|sum| *sum *= factor);
            }
        }
        let size = Size {
            rows: tile.count,
            columns: d,
            depth: keys.len(),
        };
        let weights = Mat {
            data: buffers.scores,
            stride: tile.padded,
        };
        let values = self.kv_rows(data, tile.kv_head, keys.start);
        gemm_transposed(isa, size, weights, values, buffers.sums, d, buffers.pack);
    }

    /// Rows of the pass between the first and the last that any row of the tile sees.
    #[inline(always)]
    pub(super) fn own_blocks<I: Isa>(
        &self,
        isa: I,
        tile: &Tile,
        columns: Range<usize>,
        buffers: &mut Buffers<'_>,
    ) {
        for first in columns.clone().step_by(KEYS) {
            let keys = first..columns.end.min(first + KEYS);
            self.scores(isa, tile, self.args.k, keys.clone(), buffers);
            for (at, row) in tile.rows.clone().enumerate() {
                let list = self.lists.row(row);
                let from = list.partition_point(|column| (*column as usize) < keys.start);
                let mut next = keys.start;
                for seen in list[from..].iter().map(|column| *column as usize) {
                    if seen >= keys.end {
                        break;
                    }
                    self.hide(tile, at, next..seen, first, buffers.scores);
                    next = seen + 1;
                }
                self.hide(tile, at, next..keys.end, first, buffers.scores);
            }
            self.absorb(isa, tile, self.args.v, keys, buffers);
        }
    }
}
