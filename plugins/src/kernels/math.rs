//! Arithmetic that the kernels share: dot products, register-tiled matrix products, exp.

/// `a * b + c`, fused where that is one instruction.
#[inline(always)]
pub(super) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// The first `W` elements from `at` on, as an array.
#[inline(always)]
fn lanes<const W: usize>(slice: &[f32], at: usize) -> &[f32; W] {
    slice[at..at + W].first_chunk().expect("W elements")
}

/// exp(x) for vectorised loops: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2], coefficients of the
/// Cephes library's `expf`. Relative error below 2e-7 on [-87, 88]; smaller x gives 0 and larger x
/// exp(88), so nothing overflows.
#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
    let clamped = x.clamp(-87.0, 88.0);
    let n = fma::<FMA>(clamped, std::f32::consts::LOG2_E, ROUND) - ROUND;
    // ln 2 in two parts, the first exact when multiplied by n.
    let r = fma::<FMA>(n, -0.693_359_375, clamped);
    let r = fma::<FMA>(n, 2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = fma::<FMA>(p, r, c);
    }
    let p = fma::<FMA>(p * r, r, r) + 1.0;
    #[expect(clippy::cast_possible_truncation, reason = "n is an integer in -126..=127")]
    let scale = f32::from_bits((((n as i32) + 127) as u32) << 23);
    if x < -87.0 { 0.0 } else { p * scale }
}

/// Dot products of `R` vectors with one vector, all of the same length.
#[inline(always)]
pub(super) fn dots<const FMA: bool, const R: usize>(a: [&[f32]; R], b: &[f32]) -> [f32; R] {
    const W: usize = 16;
    let len = b.len();
    let a = a.map(|row| &row[..len]);
    let mut acc = [[0.0f32; W]; R];
    let mut p = 0;
    while p + W <= len {
        let b = lanes::<W>(b, p);
        for (row, acc) in a.iter().zip(&mut acc) {
            let row = lanes::<W>(row, p);
            for l in 0..W {
                acc[l] = fma::<FMA>(row[l], b[l], acc[l]);
            }
        }
        p += W;
    }
    let mut sums = [0.0f32; R];
    for (sum, acc) in sums.iter_mut().zip(&acc) {
        let mut half = [0.0f32; 8];
        for l in 0..8 {
            half[l] = acc[l] + acc[l + 8];
        }
        let mut quarter = [0.0f32; 4];
        for l in 0..4 {
            quarter[l] = half[l] + half[l + 4];
        }
        *sum = (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
    }
    for (row, sum) in a.iter().zip(&mut sums) {
        for at in p..len {
            *sum = fma::<FMA>(row[at], b[at], *sum);
        }
    }
    sums
}

/// `y += factor * x`.
#[inline(always)]
pub(super) fn axpy<const FMA: bool>(factor: f32, x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = fma::<FMA>(factor, *x, *y);
    }
}

/// A matrix inside a slice: element (row, column) lies at `row * stride + column`.
#[derive(Clone, Copy)]
pub(super) struct Mat<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
}

/// Sizes of a matrix product: C [rows,columns] from a sum over `depth`.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
}

/// `C += A B`, or `C += A^T B` with `TRANS` (A is then [depth, rows]); C is [rows, columns] with row stride
/// `c_stride`. Register tiles of 4 rows and `W` columns.
#[inline(always)]
pub(super) fn gemm<const FMA: bool, const W: usize, const TRANS: bool>(
    size: Size,
    a: Mat<'_>,
    b: Mat<'_>,
    c: &mut [f32],
    c_stride: usize,
) {
    let mut column = 0;
    while column < size.columns {
        let left = size.columns - column;
        let b = Mat {
            data: &b.data[column..],
            stride: b.stride,
        };
        let c = &mut c[column..];
        column += if left >= W {
            column_strip::<FMA, W, TRANS>(size, a, b, c, c_stride)
        } else if left >= 16 {
            column_strip::<FMA, 16, TRANS>(size, a, b, c, c_stride)
        } else if left >= 8 {
            column_strip::<FMA, 8, TRANS>(size, a, b, c, c_stride)
        } else {
            column_strip::<FMA, 1, TRANS>(size, a, b, c, c_stride)
        };
    }
}

/// All rows of `W` columns; returns `W`.
#[inline(always)]
fn column_strip<const FMA: bool, const W: usize, const TRANS: bool>(
    size: Size,
    a: Mat<'_>,
    b: Mat<'_>,
    c: &mut [f32],
    c_stride: usize,
) -> usize {
    let start = |row: usize| Mat {
        data: &a.data[if TRANS { row } else { row * a.stride }..],
        stride: a.stride,
    };
    let mut row = 0;
    while row + 4 <= size.rows {
        tile::<FMA, 4, W, TRANS>(size.depth, start(row), b, &mut c[row * c_stride..], c_stride);
        row += 4;
    }
    while row < size.rows {
        tile::<FMA, 1, W, TRANS>(size.depth, start(row), b, &mut c[row * c_stride..], c_stride);
        row += 1;
    }
    W
}

#[inline(always)]
fn tile<const FMA: bool, const R: usize, const W: usize, const TRANS: bool>(
    depth: usize,
    a: Mat<'_>,
    b: Mat<'_>,
    c: &mut [f32],
    c_stride: usize,
) {
    let mut acc = [[0.0f32; W]; R];
    for (r, acc) in acc.iter_mut().enumerate() {
        *acc = *lanes::<W>(c, r * c_stride);
    }
    if TRANS {
        for p in 0..depth {
            let a = lanes::<R>(a.data, p * a.stride);
            let b = lanes::<W>(b.data, p * b.stride);
            for (acc, a) in acc.iter_mut().zip(a) {
                for l in 0..W {
                    acc[l] = fma::<FMA>(*a, b[l], acc[l]);
                }
            }
        }
    } else {
        let rows: [&[f32]; R] = std::array::from_fn(|r| &a.data[r * a.stride..][..depth]);
        for p in 0..depth {
            let b = lanes::<W>(b.data, p * b.stride);
            for (acc, row) in acc.iter_mut().zip(&rows) {
                let a = row[p];
                for l in 0..W {
                    acc[l] = fma::<FMA>(a, b[l], acc[l]);
                }
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        c[r * c_stride..][..W].copy_from_slice(acc);
    }
}
