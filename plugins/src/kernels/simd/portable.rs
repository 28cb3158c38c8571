//! Eight floats in an array: what the compiler makes of it on any machine.

use super::Isa;

/// No special instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable;

#[inline(always)]
fn zip(a: [f32; 8], b: [f32; 8], f: impl Fn(f32, f32) -> f32) -> [f32; 8] {
    std::array::from_fn(|lane| f(a[lane], b[lane]))
}

impl Isa for Portable {
    type V = [f32; 8];
    type Table = f32;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; 8]
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::V {
        *from.first_chunk().expect("eight floats")
    }

    #[inline(always)]
    fn store(self, to: &mut [f32], x: Self::V) {
        *to.first_chunk_mut().expect("eight floats") = x;
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Two roundings: `mul_add` would be a library call on such a machine.
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn sum(self, x: Self::V) -> f32 {
        ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]))
    }

    #[inline(always)]
    fn sums(self, x: [Self::V; 4]) -> [f32; 4] {
        std::array::from_fn(|i| self.sum(x[i]))
    }

    #[inline(always)]
    fn bytes(self, from: &[u8]) -> Self::V {
        let from: &[u8; 8] = from.first_chunk().expect("eight bytes");
        from.map(|q| f32::from(q.cast_signed()))
    }

    #[inline(always)]
    fn table(self, scale: f32) -> f32 {
        scale
    }

    #[inline(always)]
    fn nibbles(self, from: &[u8], scale: f32) -> Self::V {
        let from: &[u8; 4] = from.first_chunk().expect("four bytes");
        std::array::from_fn(|i| {
            let q = (from[i / 2] >> (4 * (i % 2))) & 15;
            scale * (f32::from(q) - 8.0)
        })
    }

    #[inline(always)]
    fn prefetch<T>(self, _: &[T], _: usize) {}

    #[inline(always)]
    fn scale_pow2(self, x: Self::V, n: Self::V) -> Self::V {
        zip(x, n, |x, n| x * f32::from_bits(((n as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn keep_ge(self, x: Self::V, limit: Self::V, value: Self::V) -> Self::V {
        std::array::from_fn(|lane| if x[lane] >= limit[lane] { value[lane] } else { 0.0 })
    }
}
