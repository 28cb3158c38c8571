//! `TreeAttention`: softmax online over blocks of keys (as in flash attention), a tile of rows at a time.
//!
//! A task is one key head and a tile of rows; all query heads of the group and all rows of the tile are its
//! *queries*. Scores of a block of keys are laid out [keys, queries], so that the softmax runs over
//! vectors of queries and both matrix products read K, V and the queries where they lie, K and V of
//! committed rows once per tile. Rows of a tree see few other rows of the pass: those are visited one by
//! one ([`sparse`]); dense parts (a prompt chunk, a drafter's block) go through blocks ([`dense`]).

mod dense;
mod sparse;

use super::{
    Workspace,
    math::exp,
    parallel::{Parallel, Shared},
    paths::ColumnLists,
    simd::{Isa, Task, dispatch},
};
use crate::{args::AttentionArgs, error::OperatorError, ops};
use std::ops::Range;

/// Queries of a tile (unless one row has more).
const QUERIES: usize = 64;
/// Keys of a block.
const KEYS: usize = 128;
/// Score of a hidden key. Below any real score, and finite: differences stay numbers.
const HIDDEN: f32 = f32::MIN;
/// Running maximum before any key was seen: above [`HIDDEN`] by so much that hidden keys weigh 0.
const NO_KEY_YET: f32 = -1e30;

struct Attention<'a> {
    args: AttentionArgs<'a>,
    /// Rows of the pass that each row sees, window applied.
    lists: &'a ColumnLists,
    /// QH / KVH.
    group: usize,
    tile_rows: usize,
    o: Shared<'a>,
}

/// `TreeAttention` into `o` [N,QH,D]. A row that sees no key at all gives zeros.
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn tree_attention(
    args: &AttentionArgs<'_>,
    o: &mut [f32],
    workspace: &mut Workspace,
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    super::check_output(ops::TREE_ATTENTION, o.len(), args.q.len())?;
    let Workspace { lists, .. } = workspace;
    lists.rebuild(args.visible, args.rows);
    if args.window > 0 {
        let positions = args.positions;
        lists.retain(|row, column| positions[row].saturating_sub(positions[column]) < args.window);
    }
    let group = args.heads / args.kv_heads;
    let task = Attention {
        args: *args,
        lists,
        group,
        tile_rows: (QUERIES / group).clamp(1, args.rows.max(1)),
        o: Shared::new(o),
    };
    let tiles = args.rows.div_ceil(task.tile_rows);
    dispatch(parallel, tiles * args.kv_heads, &task);
    Ok(())
}

/// Scratch memory of a piece. Q: queries rounded up to whole vectors.
struct Buffers<'s> {
    /// Scaled queries [D,Q].
    queries: &'s mut [f32],
    /// Scores, then weights, of a block of keys [KEYS,Q].
    scores: &'s mut [f32],
    /// Weighted sums of values [queries,D].
    sums: &'s mut [f32],
    /// Running maximum, sum of weights, and factor of the last block, [Q] each.
    max: &'s mut [f32],
    total: &'s mut [f32],
    factor: &'s mut [f32],
    /// See [`super::math::gemm_transposed`].
    pack: &'s mut [f32],
}

/// The rows of one piece.
#[derive(Clone)]
struct Tile {
    kv_head: usize,
    rows: Range<usize>,
    /// Queries: rows times group.
    count: usize,
    /// Queries rounded up to whole vectors.
    padded: usize,
}

impl Attention<'_> {
    fn padded(&self, queries: usize, lanes: usize) -> usize {
        queries.next_multiple_of(lanes)
    }

    /// Query number `query` of a tile, unscaled.
    #[inline(always)]
    fn query(&self, tile: &Tile, query: usize) -> &[f32] {
        let a = &self.args;
        let row = tile.rows.start + query / self.group;
        let head = tile.kv_head * self.group + query % self.group;
        &a.q[(row * a.heads + head) * a.head_dim..][..a.head_dim]
    }

    /// First committed row that `row` sees.
    #[inline(always)]
    fn first_key(&self, row: usize) -> usize {
        let a = &self.args;
        if a.window == 0 {
            return 0;
        }
        let first = a.positions[row].saturating_sub(a.window).saturating_add(1);
        usize::try_from(first).unwrap_or(0).min(a.past_len)
    }
}

impl Task for Attention<'_> {
    fn scratch(&self, lanes: usize) -> usize {
        let queries = self.tile_rows * self.group;
        let padded = self.padded(queries, lanes);
        padded * (self.args.head_dim + KEYS + 3) + queries * self.args.head_dim + KEYS * 4 * lanes
    }

    fn work(&self) -> usize {
        let a = &self.args;
        2 * a.heads * a.head_dim * (a.rows * a.past_len + self.lists.pairs())
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, index: usize, scratch: &mut [f32]) {
        let a = &self.args;
        let d = a.head_dim;
        let first = index / a.kv_heads * self.tile_rows;
        let rows = first..a.rows.min(first + self.tile_rows);
        let count = rows.len() * self.group;
        let tile = Tile {
            kv_head: index % a.kv_heads,
            rows,
            count,
            padded: self.padded(count, I::LANES),
        };
        let (queries, rest) = scratch.split_at_mut(tile.padded * d);
        let (scores, rest) = rest.split_at_mut(tile.padded * KEYS);
        let (sums, rest) = rest.split_at_mut(count * d);
        let (max, rest) = rest.split_at_mut(tile.padded);
        let (total, rest) = rest.split_at_mut(tile.padded);
        let (factor, pack) = rest.split_at_mut(tile.padded);
        let mut buffers = Buffers {
            queries,
            scores,
            sums,
            max,
            total,
            factor,
            pack,
        };
        buffers.sums.fill(0.0);
        buffers.max.fill(NO_KEY_YET);
        buffers.total.fill(0.0);
        self.load_queries(&tile, &mut buffers);
        self.committed_keys(isa, &tile, &mut buffers);
        self.own_keys(isa, &tile, &mut buffers);
        self.write(&tile, &buffers);
    }
}

impl Attention<'_> {
    /// Transposes and scales the queries; small tiles read them in place instead.
    #[inline(always)]
    fn load_queries(&self, tile: &Tile, buffers: &mut Buffers<'_>) {
        if tile.count <= dense::FEW_QUERIES {
            return;
        }
        buffers.queries.fill(0.0);
        for query in 0..tile.count {
            for (at, x) in self.query(tile, query).iter().enumerate() {
                buffers.queries[at * tile.padded + query] = x * self.args.scale;
            }
        }
    }

    /// Blocks of committed rows.
    #[inline(always)]
    fn committed_keys<I: Isa>(&self, isa: I, tile: &Tile, buffers: &mut Buffers<'_>) {
        let a = &self.args;
        let first_keys = || tile.rows.clone().map(|row| self.first_key(row));
        let start = first_keys().min().unwrap_or(0);
        let seen_by_all = first_keys().max().unwrap_or(0);
        let mut key = start;
        while key < a.past_len {
            let keys = key..a.past_len.min(key + KEYS);
            self.scores(isa, tile, a.past_k, keys.clone(), buffers);
            if keys.start < seen_by_all {
                for (query, first) in first_keys().enumerate() {
                    let hidden = keys.start..first.clamp(keys.start, keys.end);
                    self.hide(tile, query, hidden, keys.start, buffers.scores);
                }
            }
            self.absorb(isa, tile, a.past_v, keys.clone(), buffers);
            key = keys.end;
        }
    }

    /// Rows of the pass.
    #[inline(always)]
    fn own_keys<I: Isa>(&self, isa: I, tile: &Tile, buffers: &mut Buffers<'_>) {
        let lists = || tile.rows.clone().map(|row| self.lists.row(row));
        let seen: usize = lists().map(<[u32]>::len).sum();
        let start = lists().filter_map(|l| l.first()).min().map_or(0, |c| *c as usize);
        let end = lists()
            .filter_map(|l| l.last())
            .max()
            .map_or(0, |c| *c as usize + 1);
        // Blocks compute hidden pairs too, but several times faster than single pairs.
        if seen * 4 >= tile.rows.len() * (end - start.min(end)) {
            self.own_blocks(isa, tile, start..end, buffers);
        } else {
            for (at, row) in tile.rows.clone().enumerate() {
                self.own_pairs(isa, tile, at, self.lists.row(row), buffers);
            }
        }
    }

    /// Divides by the sum of the weights.
    #[inline(always)]
    fn write(&self, tile: &Tile, buffers: &Buffers<'_>) {
        let a = &self.args;
        for query in 0..tile.count {
            let row = tile.rows.start + query / self.group;
            let head = tile.kv_head * self.group + query % self.group;
            #[expect(unsafe_code, reason = "tasks own heads of one output")]
            // SAFETY: only this task writes these rows and heads, one at a time.
            let o = unsafe { self.o.part((row * a.heads + head) * a.head_dim, a.head_dim) };
            let total = buffers.total[query];
            let factor = if total > 0.0 { 1.0 / total } else { 0.0 };
            for (o, sum) in o.iter_mut().zip(&buffers.sums[query * a.head_dim..]) {
                *o = factor * sum;
            }
        }
    }
}

/// Running maximum, factor for what was summed so far, and new sum of weights of a vector of queries over
/// `scores` [keys, stride]; turns the scores into weights.
#[inline(always)]
fn soften<I: Isa>(isa: I, scores: &mut [f32], stride: usize, keys: usize, max: I::V) -> (I::V, I::V) {
    let mut top = max;
    for key in 0..keys {
        top = isa.max(top, isa.load(&scores[key * stride..]));
    }
    let mut total = isa.splat(0.0);
    for key in 0..keys {
        let weight = exp(isa, isa.sub(isa.load(&scores[key * stride..]), top));
        total = isa.add(total, weight);
        isa.store(&mut scores[key * stride..], weight);
    }
    (top, total)
}
