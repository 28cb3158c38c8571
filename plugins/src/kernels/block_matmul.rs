//! Products with matrices that are stored in blocks: float32 activations, numbers of 8 or 4 bits, every number exactly as it
//! is stored. A library that rounds activations reads no less memory, and memory is what one row waits for.
//!
//! A result depends on its own row of x only, not on how many rows there are: a tree and a single row give the same bits.

use super::check_output;
use super::parallel::{Parallel, Shared};
use super::simd::{Isa, Task, dispatch};
use crate::args::{BLOCK, BlockMatMulArgs};
use crate::error::OperatorError;
use crate::ops::fused;

/// Columns whose numbers are decoded together: enough sums that no addition waits for the one before.
const GROUP: usize = 4;
/// Longest piece of a sum; its decoded columns and six rows of x fit a first-level cache.
const DEPTH: usize = 1024;
/// Rows of x for which a group is decoded once: their pieces fit a second-level cache.
const ROWS: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of a column that are asked for before they are needed. Four bits take longer to decode than to read.
const AHEAD: usize = 512;
/// Rows that are multiplied straight from registers; more are worth writing decoded numbers down.
const DIRECT: usize = 4;

/// `BlockMatMul` into `y` [N,M].
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn block_matmul(
    args: &BlockMatMulArgs<'_>,
    y: &mut [f32],
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    check_output(fused::BLOCK_MAT_MUL, y.len(), args.rows * args.columns)?;
    let columns = if args.columns < 256 { 16 } else { 64 };
    let pieces = args.columns.div_ceil(columns);
    let (args, y) = (*args, Shared::new(y));
    match args.bits {
        4 => dispatch(parallel, pieces, &Product::<HALF> { args, columns, y }),
        _ => dispatch(parallel, pieces, &Product::<BLOCK> { args, columns, y }),
    }
    Ok(())
}

/// Bytes of a block of 4 bits.
const HALF: usize = BLOCK / 2;

/// A product with blocks of `WIDTH` bytes: [`BLOCK`] or [`HALF`].
struct Product<'a, const WIDTH: usize> {
    args: BlockMatMulArgs<'a>,
    /// Columns of a piece, a multiple of [`GROUP`].
    columns: usize,
    y: Shared<'a>,
}

/// A piece of a product: rows of x, a group of columns, and a range of blocks of the sum.
#[derive(Clone, Copy)]
struct Part {
    row: usize,
    rows: usize,
    /// First column of the group; the others follow at distances of `stride`.
    column: usize,
    stride: usize,
    /// End of the columns of this piece.
    end: usize,
    block: usize,
    blocks: usize,
}

impl<const WIDTH: usize> Task for Product<'_, WIDTH> {
    fn scratch(&self, _: usize) -> usize {
        if self.args.rows > DIRECT { GROUP * DEPTH } else { 0 }
    }

    fn work(&self) -> usize {
        self.args.rows * self.args.columns * self.args.depth
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, piece: usize, scratch: &mut [f32]) {
        let first = piece * self.columns;
        let end = self.args.columns.min(first + self.columns);
        // Columns of a group lie apart, so that each is read on from where it ended: machines foresee a few long runs through
        // memory, but not short ones side by side.
        let stride = (end - first).div_ceil(GROUP);
        let all = self.args.depth / BLOCK;
        for row in (0..self.args.rows).step_by(ROWS) {
            for column in first..first + stride {
                for block in (0..all).step_by(DEPTH / BLOCK) {
                    let part = Part {
                        row,
                        rows: ROWS.min(self.args.rows - row),
                        column,
                        stride,
                        end,
                        block,
                        blocks: (DEPTH / BLOCK).min(all - block),
                    };
                    if self.args.rows > DIRECT {
                        self.written(isa, part, scratch);
                    } else {
                        self.direct(isa, part);
                    }
                }
            }
        }
    }
}

/// What turns the stored numbers of a block into floats.
#[derive(Clone, Copy)]
struct Scale<I: Isa> {
    scale: I::V,
    table: I::Table,
}

impl<I: Isa> Scale<I> {
    #[inline(always)]
    fn new(isa: I, scale: f32) -> Self {
        Self {
            scale: isa.splat(scale),
            table: isa.table(scale),
        }
    }
}

/// Numbers `at..at + LANES` of a block. The product with the scale is rounded once, whatever instructions there are.
#[inline(always)]
fn numbers<I: Isa, const WIDTH: usize>(isa: I, block: &[u8; WIDTH], at: usize, scale: &Scale<I>) -> I::V {
    if WIDTH == HALF {
        isa.nibbles(&block[at / 2..], scale.table)
    } else {
        isa.mul(isa.bytes(&block[at..]), scale.scale)
    }
}

impl<const WIDTH: usize> Product<'_, WIDTH> {
    /// Column `i` of the group; `None` past the end of the piece.
    #[inline(always)]
    fn place(part: Part, i: usize) -> Option<usize> {
        let column = part.column + i * part.stride;
        (column < part.end).then_some(column)
    }

    /// Stored blocks and scales of a column's part. The first column stands for those past the end, which are not written.
    #[inline(always)]
    fn column(&self, part: Part, i: usize) -> (&[[u8; WIDTH]], &[f32]) {
        let blocks = self.args.depth / BLOCK;
        let first = Self::place(part, i).unwrap_or(part.column) * blocks + part.block;
        let (codes, _) = self.args.w.as_chunks::<WIDTH>();
        (
            &codes[first..][..part.blocks],
            &self.args.scales[first..][..part.blocks],
        )
    }

    /// Asks for line `line / GROUP` of what comes [`AHEAD`] bytes after this part of column `line % GROUP`.
    #[inline(always)]
    fn prefetch<I: Isa>(&self, isa: I, part: Part, line: usize) {
        let column = part.column + line % GROUP * part.stride;
        let block = column * (self.args.depth / BLOCK) + part.block;
        isa.prefetch(self.args.w, block * WIDTH + line / GROUP * LINE + AHEAD);
    }

    #[inline(always)]
    fn x(&self, part: Part, row: usize) -> &[f32] {
        &self.args.x[(part.row + row) * self.args.depth + part.block * BLOCK..][..part.blocks * BLOCK]
    }

    /// Adds the sums of rows `row..row + R` to the output, or begins it.
    #[inline(always)]
    fn add<I: Isa, const R: usize>(&self, isa: I, part: Part, row: usize, sums: [[I::V; GROUP]; R]) {
        for (i, sums) in sums.into_iter().enumerate() {
            let sums = isa.sums(sums);
            let from = (part.row + row + i) * self.args.columns;
            for (column, sum) in sums.into_iter().enumerate() {
                let Some(column) = Self::place(part, column) else {
                    break;
                };
                #[expect(unsafe_code, reason = "a piece owns its columns")]
                // SAFETY: a column of this piece, in a row that nothing else refers to now.
                let y = &mut unsafe { self.y.part(from + column, 1) }[0];
                *y = if part.block == 0 { sum } else { *y + sum };
            }
        }
    }

    /// Few rows: decoded numbers stay in registers.
    #[inline(always)]
    fn direct<I: Isa>(&self, isa: I, part: Part) {
        match part.rows {
            1 => self.registers::<I, 1>(isa, part),
            2 => self.registers::<I, 2>(isa, part),
            3 => self.registers::<I, 3>(isa, part),
            _ => self.registers::<I, 4>(isa, part),
        }
    }

    #[inline(always)]
    fn registers<I: Isa, const R: usize>(&self, isa: I, part: Part) {
        let blocks = part.blocks;
        // Closures would be compiled without the instruction set.
        let (mut codes, mut scales) = ([&[][..]; GROUP], [&[][..]; GROUP]);
        for i in 0..GROUP {
            let (c, s) = self.column(part, i);
            (codes[i], scales[i]) = (&c[..blocks], &s[..blocks]);
        }
        let mut x: [&[[f32; BLOCK]]; R] = [&[]; R];
        for (row, x) in x.iter_mut().enumerate() {
            *x = &self.x(part, row).as_chunks::<BLOCK>().0[..blocks];
        }
        let mut sums = [[isa.splat(0.0); GROUP]; R];
        for block in 0..blocks {
            if WIDTH == BLOCK && (block * WIDTH).is_multiple_of(LINE) {
                for column in 0..GROUP {
                    self.prefetch(isa, part, block * WIDTH / LINE * GROUP + column);
                }
            }
            for i in 0..GROUP {
                let scale = Scale::new(isa, scales[i][block]);
                let mut at = 0;
                while at < BLOCK {
                    let w = numbers(isa, &codes[i][block], at, &scale);
                    for row in 0..R {
                        sums[row][i] = isa.fma(isa.load(&x[row][block][at..]), w, sums[row][i]);
                    }
                    at += I::LANES;
                }
            }
        }
        self.add(isa, part, 0, sums);
    }

    /// Many rows: decoded numbers are written down once for all of them.
    #[inline(always)]
    fn written<I: Isa>(&self, isa: I, part: Part, scratch: &mut [f32]) {
        let depth = part.blocks * BLOCK;
        for (i, decoded) in scratch[..GROUP * depth].chunks_exact_mut(depth).enumerate() {
            self.decode(isa, self.column(part, i), decoded);
        }
        let w = &scratch[..GROUP * depth];
        let mut row = 0;
        // As many sums as there are registers for.
        if I::LANES >= 16 {
            while row + 6 <= part.rows {
                self.tile::<I, 6>(isa, part, row, w);
                row += 6;
            }
        }
        while row + 2 <= part.rows {
            self.tile::<I, 2>(isa, part, row, w);
            row += 2;
        }
        if row < part.rows {
            self.tile::<I, 1>(isa, part, row, w);
        }
    }

    #[inline(always)]
    fn decode<I: Isa>(&self, isa: I, (codes, scales): (&[[u8; WIDTH]], &[f32]), decoded: &mut [f32]) {
        let (decoded, _) = decoded.as_chunks_mut::<BLOCK>();
        for ((codes, scale), decoded) in codes.iter().zip(scales).zip(decoded) {
            let scale = Scale::new(isa, *scale);
            let mut at = 0;
            while at < BLOCK {
                isa.store(&mut decoded[at..], numbers(isa, codes, at, &scale));
                at += I::LANES;
            }
        }
    }

    #[inline(always)]
    fn tile<I: Isa, const R: usize>(&self, isa: I, part: Part, row: usize, w: &[f32]) {
        let depth = part.blocks * BLOCK;
        let mut x: [&[f32]; R] = [&[]; R];
        for (i, x) in x.iter_mut().enumerate() {
            *x = self.x(part, row + i);
        }
        let mut columns: [&[f32]; GROUP] = [&[]; GROUP];
        for (column, w) in columns.iter_mut().zip(w.chunks_exact(depth)) {
            *column = w;
        }
        let mut sums = [[isa.splat(0.0); GROUP]; R];
        let lines = if WIDTH == BLOCK {
            part.blocks * WIDTH * GROUP / LINE
        } else {
            0
        };
        let mut at = 0;
        while at + I::LANES <= depth {
            // The first rows ask for what comes next, one line a step: many at once would have to wait.
            if row == 0 && at / I::LANES < lines {
                self.prefetch(isa, part, at / I::LANES);
            }
            let mut right = [isa.splat(0.0); GROUP];
            for (right, w) in right.iter_mut().zip(&columns) {
                *right = isa.load(&w[at..][..I::LANES]);
            }
            for (sums, x) in sums.iter_mut().zip(&x) {
                let left = isa.load(&x[at..][..I::LANES]);
                for (sum, right) in sums.iter_mut().zip(&right) {
                    *sum = isa.fma(left, *right, *sum);
                }
            }
            at += I::LANES;
        }
        self.add(isa, part, row, sums);
    }
}
