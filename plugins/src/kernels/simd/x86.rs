//! AVX2 with FMA, and AVX-512. The types can only be made by `detect`, so that a value proves that the
//! instructions exist: this is what every SAFETY note below relies on.
#![expect(unsafe_code, reason = "vector instructions")]

use super::{Isa, Task};
use core::arch::x86_64::*;

/// AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

/// AVX-512 (F, VL, DQ, BW).
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        found.then_some(Self(()))
    }
}

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        let found = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw");
        found.then_some(Self(()))
    }
}

/// Runs one piece of `task` compiled for AVX2.
pub(super) fn run_avx2<T: Task>(isa: Avx2, task: &T, index: usize, scratch: &mut [f32]) {
    #[target_feature(enable = "avx2,fma")]
    fn inner<T: Task>(isa: Avx2, task: &T, index: usize, scratch: &mut [f32]) {
        task.run(isa, index, scratch);
    }
    // SAFETY: `isa` proves the features.
    unsafe { inner(isa, task, index, scratch) }
}

/// Runs one piece of `task` compiled for AVX-512.
pub(super) fn run_avx512<T: Task>(isa: Avx512, task: &T, index: usize, scratch: &mut [f32]) {
    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
    fn inner<T: Task>(isa: Avx512, task: &T, index: usize, scratch: &mut [f32]) {
        task.run(isa, index, scratch);
    }
    // SAFETY: `isa` proves the features.
    unsafe { inner(isa, task, index, scratch) }
}

#[inline(always)]
fn prefetch<T>(from: &[T], at: usize) {
    // SAFETY: every x86-64 has the instruction, and it is a hint that reads nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().wrapping_add(at).cast()) }
}

impl Isa for Avx2 {
    type V = __m256;
    type Table = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::V {
        assert!(from.len() >= Self::LANES);
        // SAFETY: `self` proves the instructions; the slice is long enough by the assertion.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32], x: Self::V) {
        assert!(to.len() >= Self::LANES);
        // SAFETY: `self` proves the instructions; the slice is long enough by the assertion.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn sum(self, x: Self::V) -> f32 {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
        }
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [Self::V; 4]) -> [f32; 4] {
        // SAFETY: `self` proves the instructions; four floats are written to four.
        unsafe {
            let pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            let all = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps::<1>(pairs));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), all);
            sums
        }
    }

    #[inline(always)]
    fn bytes(self, from: &[u8]) -> Self::V {
        assert!(from.len() >= Self::LANES);
        // SAFETY: `self` proves the instructions; the slice is long enough by the assertion.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn table(self, scale: f32) -> Self::Table {
        self.splat(scale)
    }

    #[inline(always)]
    fn nibbles(self, from: &[u8], scale: Self::Table) -> Self::V {
        let bits = i32::from_le_bytes(*from.first_chunk().expect("four bytes"));
        // SAFETY: `self` proves the instructions.
        unsafe {
            let places = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
            let q = _mm256_and_si256(
                _mm256_srlv_epi32(_mm256_set1_epi32(bits), places),
                _mm256_set1_epi32(15),
            );
            let q = _mm256_sub_epi32(q, _mm256_set1_epi32(8));
            _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale)
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, from: &[T], at: usize) {
        prefetch(from, at);
    }

    #[inline(always)]
    fn scale_pow2(self, x: Self::V, n: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        }
    }

    #[inline(always)]
    fn keep_ge(self, x: Self::V, limit: Self::V, value: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(x, limit), value) }
    }
}

impl Isa for Avx512 {
    type V = __m512;
    type Table = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::V {
        assert!(from.len() >= Self::LANES);
        // SAFETY: `self` proves the instructions; the slice is long enough by the assertion.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32], x: Self::V) {
        assert!(to.len() >= Self::LANES);
        // SAFETY: `self` proves the instructions; the slice is long enough by the assertion.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn sum(self, x: Self::V) -> f32 {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_reduce_add_ps(x) }
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [Self::V; 4]) -> [f32; 4] {
        // SAFETY: `self` proves the instructions; four floats are written to four.
        unsafe {
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
            let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
            // Every quarter holds a part of all four sums.
            let all = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
            let all = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all));
            let all = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), all);
            sums
        }
    }

    #[inline(always)]
    fn bytes(self, from: &[u8]) -> Self::V {
        assert!(from.len() >= Self::LANES);
        // SAFETY: `self` proves the instructions; the slice is long enough by the assertion.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn table(self, scale: f32) -> Self::Table {
        // SAFETY: `self` proves the instructions.
        let steps = unsafe {
            _mm512_setr_ps(
                -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
            )
        };
        self.mul(steps, self.splat(scale))
    }

    #[inline(always)]
    fn nibbles(self, from: &[u8], table: Self::Table) -> Self::V {
        let [low, high] =
            [0, 4].map(|at| i32::from_le_bytes(*from[at..].first_chunk().expect("eight bytes")));
        // SAFETY: `self` proves the instructions.
        unsafe {
            let places = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
            let bits = _mm512_mask_set1_epi32(_mm512_set1_epi32(low), 0xff00, high);
            // The lookup takes the last four bits of every lane.
            _mm512_permutexvar_ps(_mm512_srlv_epi32(bits, places), table)
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, from: &[T], at: usize) {
        prefetch(from, at);
    }

    #[inline(always)]
    fn scale_pow2(self, x: Self::V, n: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_scalef_ps(x, n) }
    }

    #[inline(always)]
    fn keep_ge(self, x: Self::V, limit: Self::V, value: Self::V) -> Self::V {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, limit), value) }
    }
}
