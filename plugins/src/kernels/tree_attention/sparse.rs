//! Single pairs of a row and a key: what a row of a tree sees of its own pass.

use super::{Attention, Buffers, HIDDEN, KEYS, Tile, soften};
use crate::kernels::{
    math::{Mat, combine, dots, exp1},
    simd::Isa,
};

impl Attention<'_> {
    /// Adds the keys in `columns` to all queries of row number `at` of the tile.
    #[inline(always)]
    pub(super) fn own_pairs<I: Isa>(
        &self,
        isa: I,
        tile: &Tile,
        at: usize,
        columns: &[u32],
        buffers: &mut Buffers<'_>,
    ) {
        let first = at * self.group;
        for columns in columns.chunks(KEYS) {
            let mut query = 0;
            while query < self.group {
                let left = self.group - query;
                query += if left >= 4 {
                    self.pairs::<I, 4>(isa, tile, first + query, columns, buffers)
                } else if left >= 2 {
                    self.pairs::<I, 2>(isa, tile, first + query, columns, buffers)
                } else {
                    self.pairs::<I, 1>(isa, tile, first + query, columns, buffers)
                };
            }
        }
    }

    /// Adds keys to `T` queries of one row; returns `T`. Here scores lie [queries, keys].
    #[inline(always)]
    fn pairs<I: Isa, const T: usize>(
        &self,
        isa: I,
        tile: &Tile,
        query: usize,
        columns: &[u32],
        buffers: &mut Buffers<'_>,
    ) -> usize {
        let a = &self.args;
        let padded = columns.len().next_multiple_of(I::LANES);
        let scores = &mut buffers.scores[..T * padded];
        let queries: [&[f32]; T] = std::array::from_fn(|t| self.query(tile, query + t));
        let key = |at: usize| self.kv_row(a.k, tile.kv_head, columns[at] as usize);
        let mut at = 0;
        while at + 2 <= columns.len() {
            let found = dots(isa, queries, [key(at), key(at + 1)]);
            for (t, [first, second]) in found.iter().enumerate() {
                scores[t * padded + at] = first * a.scale;
                scores[t * padded + at + 1] = second * a.scale;
            }
            at += 2;
        }
        if at < columns.len() {
            let found = dots(isa, queries, [key(at)]);
            for (t, [dot]) in found.iter().enumerate() {
                scores[t * padded + at] = dot * a.scale;
            }
        }
        for t in 0..T {
            let scores = &mut scores[t * padded..(t + 1) * padded];
            scores[columns.len()..].fill(HIDDEN);
            let max = buffers.max[query + t];
            let top = scores
                .iter()
                .fold(max, |top, score| if *score > top { *score } else { top });
            // Vectors of keys, all against one maximum.
            let keys = padded / I::LANES;
            let (_, weights) = soften(isa, scores, I::LANES, keys, isa.splat(top));
            let factor = exp1(isa, max - top);
            buffers.max[query + t] = top;
            buffers.total[query + t] = buffers.total[query + t] * factor + isa.sum(weights);
            if factor != 1.0 {
                let sums = &mut buffers.sums[(query + t) * a.head_dim..][..a.head_dim];
                sums.iter_mut().for_each(|sum| *sum *= factor);
            }
        }
        let factors = Mat {
            data: scores,
            stride: padded,
        };
        let value = |at: usize| self.kv_row(a.v, tile.kv_head, columns[at] as usize);
        let sums = &mut buffers.sums[query * a.head_dim..];
        combine::<I, T>(isa, factors, columns.len(), value, sums, a.head_dim);
        T
    }
}
