//! Arithmetic that the kernels share: exp, dot products, register-tiled matrix products.

use super::simd::Isa;

/// exp(x): 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] with the coefficients of the Cephes library's
/// `expf`. Relative error below 2.5e-7 on [-87, 88]; smaller x gives 0 and larger x gives exp(88), so
/// nothing overflows.
#[inline(always)]
pub(super) fn exp<I: Isa>(isa: I, x: I::V) -> I::V {
    /// 1.5 * 2^23: adding it rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let lowest = isa.splat(-87.0);
    let clamped = isa.min(isa.max(x, lowest), isa.splat(88.0));
    let round = isa.splat(ROUND);
    let n = isa.sub(
        isa.fma(clamped, isa.splat(std::f32::consts::LOG2_E), round),
        round,
    );
    // ln 2 in two parts, the first exact when multiplied by n.
    let r = isa.fma(n, isa.splat(-0.693_359_4), clamped);
    let r = isa.fma(n, isa.splat(2.121_944_4e-4), r);
    let mut p = isa.splat(1.987_569_1e-4);
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = isa.fma(p, r, isa.splat(c));
    }
    let p = isa.add(isa.fma(isa.mul(p, r), r, r), isa.splat(1.0));
    isa.keep_ge(x, lowest, isa.scale_pow2(p, n))
}

/// [`exp`] of one number.
#[inline(always)]
pub(super) fn exp1<I: Isa>(isa: I, x: f32) -> f32 {
    // All lanes are equal; the first is read through a sum that the compiler folds.
    let mut lanes = [0.0; 16];
    isa.store(&mut lanes, exp(isa, isa.splat(x)));
    lanes[0]
}

// Vectors are never passed through closures: those would be compiled without the features.

/// Dot products of `A` vectors with `B` vectors, all as long as `b[0]`.
#[inline(always)]
pub(super) fn dots<I: Isa, const A: usize, const B: usize>(
    isa: I,
    a: [&[f32]; A],
    b: [&[f32]; B],
) -> [[f32; B]; A] {
    let len = b[0].len();
    let a = a.map(|row| &row[..len]);
    let b = b.map(|row| &row[..len]);
    let mut acc = [[isa.splat(0.0); B]; A];
    let mut p = 0;
    while p + I::LANES <= len {
        let mut right = [isa.splat(0.0); B];
        for (right, row) in right.iter_mut().zip(&b) {
            *right = isa.load(&row[p..]);
        }
        for (acc, row) in acc.iter_mut().zip(&a) {
            let left = isa.load(&row[p..]);
            for (acc, right) in acc.iter_mut().zip(&right) {
                *acc = isa.fma(left, *right, *acc);
            }
        }
        p += I::LANES;
    }
    let mut sums = [[0.0; B]; A];
    for ((sums, acc), a) in sums.iter_mut().zip(&acc).zip(&a) {
        for ((sum, acc), b) in sums.iter_mut().zip(acc).zip(&b) {
            *sum = isa.sum(*acc);
            for (a, b) in a[p..].iter().zip(&b[p..]) {
                *sum += a * b;
            }
        }
    }
    sums
}

/// A matrix inside a slice: element (row, column) lies at `row * stride + column`.
#[derive(Clone, Copy)]
pub(super) struct Mat<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
}

impl<'a> Mat<'a> {
    #[inline(always)]
    fn from(self, at: usize) -> Mat<'a> {
        Mat {
            data: &self.data[at..],
            stride: self.stride,
        }
    }
}

/// Sizes of a matrix product: C [rows,columns] from a sum over `depth`.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
}

/// `C += A B`; A is [rows,depth], B is [depth,columns], C has row stride `c_stride`.
#[inline(always)]
pub(super) fn gemm<I: Isa>(isa: I, size: Size, a: Mat<'_>, b: Mat<'_>, c: &mut [f32], c_stride: usize) {
    let mut column = 0;
    // Few rows or many registers: wide tiles, so that B is swept in long pieces.
    while (size.rows < 4 || many_registers::<I>()) && column + 4 * I::LANES <= size.columns {
        strip::<I, 4, false>(isa, size, a, b.from(column), &mut c[column..], c_stride);
        column += 4 * I::LANES;
    }
    while column + 2 * I::LANES <= size.columns {
        strip::<I, 2, false>(isa, size, a, b.from(column), &mut c[column..], c_stride);
        column += 2 * I::LANES;
    }
    if column + I::LANES <= size.columns {
        strip::<I, 1, false>(isa, size, a, b.from(column), &mut c[column..], c_stride);
        column += I::LANES;
    }
    for row in 0..size.rows {
        for column in column..size.columns {
            let a = &a.data[row * a.stride..][..size.depth];
            let products = a
                .iter()
                .zip(b.data[column..].iter().step_by(b.stride))
                .map(|(a, b)| a * b);
            c[row * c_stride + column] += products.sum::<f32>();
        }
    }
}

/// Whether a tile of 4 rows and 4 vectors fits the registers (32 of them with AVX-512, else 16).
#[inline(always)]
fn many_registers<I: Isa>() -> bool {
    I::LANES >= 16
}

/// `C += A^T B`; A is [depth,rows], B is [depth,columns], C has row stride `c_stride`. `pack` holds
/// `depth * 4 * LANES` floats: strips of B are copied there when many rows read them, because rows of B
/// that lie a power of two apart share few cache sets.
#[inline(always)]
pub(super) fn gemm_transposed<I: Isa>(
    isa: I,
    size: Size,
    a: Mat<'_>,
    b: Mat<'_>,
    c: &mut [f32],
    c_stride: usize,
    pack: &mut [f32],
) {
    let mut column = 0;
    while many_registers::<I>() && column + 4 * I::LANES <= size.columns {
        packed_strip::<I, 4>(isa, size, a, b.from(column), &mut c[column..], c_stride, pack);
        column += 4 * I::LANES;
    }
    while column + 2 * I::LANES <= size.columns {
        packed_strip::<I, 2>(isa, size, a, b.from(column), &mut c[column..], c_stride, pack);
        column += 2 * I::LANES;
    }
    if column + I::LANES <= size.columns {
        strip::<I, 1, true>(isa, size, a, b.from(column), &mut c[column..], c_stride);
        column += I::LANES;
    }
    for row in 0..size.rows {
        for column in column..size.columns {
            let a = a.data[row..].iter().step_by(a.stride).take(size.depth);
            let products = a
                .zip(b.data[column..].iter().step_by(b.stride))
                .map(|(a, b)| a * b);
            c[row * c_stride + column] += products.sum::<f32>();
        }
    }
}

/// A strip of `A^T B` from a packed copy of B.
#[inline(always)]
fn packed_strip<I: Isa, const C: usize>(
    isa: I,
    size: Size,
    a: Mat<'_>,
    b: Mat<'_>,
    c: &mut [f32],
    c_stride: usize,
    pack: &mut [f32],
) {
    if size.rows <= 8 {
        strip::<I, C, true>(isa, size, a, b, c, c_stride);
        return;
    }
    let stride = C * I::LANES;
    for p in 0..size.depth {
        pack[p * stride..][..stride].copy_from_slice(&b.data[p * b.stride..][..stride]);
    }
    strip::<I, C, true>(isa, size, a, Mat { data: pack, stride }, c, c_stride);
}

/// All rows of `C` vectors' worth of columns.
#[inline(always)]
fn strip<I: Isa, const C: usize, const TRANS: bool>(
    isa: I,
    size: Size,
    a: Mat<'_>,
    b: Mat<'_>,
    c: &mut [f32],
    c_stride: usize,
) {
    let from = |row: usize| a.from(if TRANS { row } else { row * a.stride });
    let mut row = 0;
    if C == 1 {
        while row + 8 <= size.rows {
            tile::<I, 8, C, TRANS>(isa, size.depth, from(row), b, &mut c[row * c_stride..], c_stride);
            row += 8;
        }
    }
    if C == 2 || many_registers::<I>() {
        while row + 6 <= size.rows {
            tile::<I, 6, C, TRANS>(isa, size.depth, from(row), b, &mut c[row * c_stride..], c_stride);
            row += 6;
        }
    }
    if C <= 2 || many_registers::<I>() {
        while row + 4 <= size.rows {
            tile::<I, 4, C, TRANS>(isa, size.depth, from(row), b, &mut c[row * c_stride..], c_stride);
            row += 4;
        }
    }
    while row + 2 <= size.rows {
        tile::<I, 2, C, TRANS>(isa, size.depth, from(row), b, &mut c[row * c_stride..], c_stride);
        row += 2;
    }
    if row < size.rows {
        tile::<I, 1, C, TRANS>(isa, size.depth, from(row), b, &mut c[row * c_stride..], c_stride);
    }
}

/// `R` rows and `C` vectors of columns, accumulated in registers.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "one index into several slices")]
fn tile<I: Isa, const R: usize, const C: usize, const TRANS: bool>(
    isa: I,
    depth: usize,
    a: Mat<'_>,
    b: Mat<'_>,
    c: &mut [f32],
    c_stride: usize,
) {
    let mut acc = [[isa.splat(0.0); C]; R];
    for (r, acc) in acc.iter_mut().enumerate() {
        let c = &c[r * c_stride..][..C * I::LANES];
        for (l, acc) in acc.iter_mut().enumerate() {
            *acc = isa.load(&c[l * I::LANES..]);
        }
    }
    // Row-major A: rows cut to the same length, so that one comparison guards all of them.
    let rows: [&[f32]; R] = std::array::from_fn(|r| {
        if TRANS {
            &a.data[..0]
        } else {
            &a.data[r * a.stride..][..depth]
        }
    });
    for p in 0..depth {
        let left: [f32; R] = if TRANS {
            *a.data[p * a.stride..].first_chunk().expect("R rows")
        } else {
            std::array::from_fn(|r| rows[r][p])
        };
        let b = &b.data[p * b.stride..][..C * I::LANES];
        let mut right = [isa.splat(0.0); C];
        for (l, right) in right.iter_mut().enumerate() {
            *right = isa.load(&b[l * I::LANES..]);
        }
        for (acc, left) in acc.iter_mut().zip(left) {
            let left = isa.splat(left);
            for (acc, right) in acc.iter_mut().zip(&right) {
                *acc = isa.fma(left, *right, *acc);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let c = &mut c[r * c_stride..][..C * I::LANES];
        for (l, acc) in acc.iter().enumerate() {
            isa.store(&mut c[l * I::LANES..], *acc);
        }
    }
}

/// `y[t] += sum_j factors[t][j] x_j` for `T` targets at once, with the vectors x_j wherever they lie:
/// `y` is [T, len], `factors` is [T, count], x_j = `x(j)` has `len` elements.
#[inline(always)]
pub(super) fn combine<'x, I: Isa, const T: usize>(
    isa: I,
    factors: Mat<'_>,
    count: usize,
    x: impl Fn(usize) -> &'x [f32],
    y: &mut [f32],
    len: usize,
) {
    let factors: [&[f32]; T] = std::array::from_fn(|t| &factors.data[t * factors.stride..][..count]);
    let mut at = 0;
    while at + 2 * I::LANES <= len {
        combine_strip::<I, T, 2>(isa, factors, &x, y, len, at);
        at += 2 * I::LANES;
    }
    if at + I::LANES <= len {
        combine_strip::<I, T, 1>(isa, factors, &x, y, len, at);
        at += I::LANES;
    }
    for (t, factors) in factors.iter().enumerate() {
        let y = &mut y[t * len..][at..len];
        for (j, factor) in factors.iter().enumerate() {
            for (y, x) in y.iter_mut().zip(&x(j)[at..]) {
                *y += factor * x;
            }
        }
    }
}

/// `C` vectors' worth of elements from `at` on.
#[inline(always)]
fn combine_strip<'x, I: Isa, const T: usize, const C: usize>(
    isa: I,
    factors: [&[f32]; T],
    x: &impl Fn(usize) -> &'x [f32],
    y: &mut [f32],
    len: usize,
    at: usize,
) {
    let mut acc = [[isa.splat(0.0); C]; T];
    for (t, acc) in acc.iter_mut().enumerate() {
        for (l, acc) in acc.iter_mut().enumerate() {
            *acc = isa.load(&y[t * len + at + l * I::LANES..]);
        }
    }
    for j in 0..factors[0].len() {
        let x = &x(j)[at..at + C * I::LANES];
        let mut right = [isa.splat(0.0); C];
        for (l, right) in right.iter_mut().enumerate() {
            *right = isa.load(&x[l * I::LANES..]);
        }
        for (acc, factors) in acc.iter_mut().zip(&factors) {
            let factor = isa.splat(factors[j]);
            for (acc, right) in acc.iter_mut().zip(&right) {
                *acc = isa.fma(factor, *right, *acc);
            }
        }
    }
    for (t, acc) in acc.iter().enumerate() {
        for (l, acc) in acc.iter().enumerate() {
            isa.store(&mut y[t * len + at + l * I::LANES..], *acc);
        }
    }
}
