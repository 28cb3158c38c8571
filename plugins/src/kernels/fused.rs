//! Kernels of the fused operators ([`crate::ops::fused`]): one pass over a row for each, a row a piece.

use super::check_output;
use super::math::{dots, exp};
use super::parallel::{Parallel, Shared};
use super::simd::{Isa, Task, dispatch};
use crate::args::{DeltaInputsArgs, GatedNormArgs, HeadNormRopeArgs, SigmoidGateArgs, SwiGluArgs};
use crate::error::OperatorError;
use crate::ops::fused;

/// Epsilon under the root of a head's squared length (`qwen.md` 3.6).
const L2_EPSILON: f32 = 1e-6;
/// Multiply-adds that an exponential and a division cost, roughly.
const EXP: usize = 12;

/// `y = a op b` element by element; a trait and no closure, since vectors must not pass through closures.
trait Pair {
    fn apply<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V;
}

/// `silu(a) * b`
struct SiluTimes;
/// `a * sigmoid(b)`
struct TimesSigmoid;

impl Pair for SiluTimes {
    #[inline(always)]
    fn apply<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.mul(isa.mul(a, sigmoid(isa, a)), b)
    }
}

impl Pair for TimesSigmoid {
    #[inline(always)]
    fn apply<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.mul(a, sigmoid(isa, b))
    }
}

#[inline(always)]
fn sigmoid<I: Isa>(isa: I, x: I::V) -> I::V {
    let e = exp(isa, isa.sub(isa.splat(0.0), x));
    isa.div(isa.splat(1.0), isa.add(isa.splat(1.0), e))
}

#[inline(always)]
fn pairs<I: Isa, P: Pair>(isa: I, a: &[f32], b: &[f32], y: &mut [f32]) {
    let len = y.len();
    let (a, b) = (&a[..len], &b[..len]);
    let mut at = 0;
    while at + I::LANES <= len {
        isa.store(
            &mut y[at..],
            P::apply(isa, isa.load(&a[at..]), isa.load(&b[at..])),
        );
        at += I::LANES;
    }
    if at < len {
        let [mut left, mut right, mut result] = [[0.0; 16]; 3];
        left[..len - at].copy_from_slice(&a[at..]);
        right[..len - at].copy_from_slice(&b[at..]);
        isa.store(&mut result, P::apply(isa, isa.load(&left), isa.load(&right)));
        y[at..].copy_from_slice(&result[..len - at]);
    }
}

/// `x * factor`, or `x * w * factor` with a `w`.
#[inline(always)]
fn scaled<I: Isa>(isa: I, x: &[f32], w: Option<&[f32]>, factor: f32, y: &mut [f32]) {
    let len = y.len();
    let x = &x[..len];
    let all = isa.splat(factor);
    let mut at = 0;
    while at + I::LANES <= len {
        let mut v = isa.mul(isa.load(&x[at..]), all);
        if let Some(w) = w {
            v = isa.mul(v, isa.load(&w[at..]));
        }
        isa.store(&mut y[at..], v);
        at += I::LANES;
    }
    for i in at..len {
        y[i] = x[i] * factor * w.map_or(1.0, |w| w[i]);
    }
}

#[inline(always)]
fn sum_of_squares<I: Isa>(isa: I, x: &[f32]) -> f32 {
    dots(isa, [x], [x])[0][0]
}

/// `1 / sqrt(mean(x²) + epsilon)`
#[inline(always)]
fn inverse_rms<I: Isa>(isa: I, x: &[f32], epsilon: f32) -> f32 {
    1.0 / (sum_of_squares(isa, x) / x.len() as f32 + epsilon).sqrt()
}

/// `len` numbers from `at` on of an output that rows share.
///
/// # Safety
/// A piece takes numbers of its own row only.
#[expect(unsafe_code, clippy::mut_from_ref, reason = "pieces own rows")]
#[inline(always)]
unsafe fn own<'s>(shared: &'s Shared<'_>, at: usize, len: usize) -> &'s mut [f32] {
    // SAFETY: by the promise of the caller no other piece takes them; a piece takes its parts one after the other.
    unsafe { shared.part(at, len) }
}

struct SwiGlu<'a>(SwiGluArgs<'a>, Shared<'a>);

/// `SwiGlu` into `y` [N,I].
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn swi_glu(args: &SwiGluArgs<'_>, y: &mut [f32], parallel: &dyn Parallel) -> Result<(), OperatorError> {
    args.check()?;
    check_output(fused::SWI_GLU, y.len(), args.rows * args.width)?;
    dispatch(parallel, args.rows, &SwiGlu(*args, Shared::new(y)));
    Ok(())
}

impl Task for SwiGlu<'_> {
    fn scratch(&self, _: usize) -> usize {
        0
    }

    fn work(&self) -> usize {
        self.0.rows * self.0.width * EXP
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, row: usize, _: &mut [f32]) {
        let width = self.0.width;
        let (gate, up) = self.0.x[row * 2 * width..][..2 * width].split_at(width);
        #[expect(unsafe_code, reason = "a piece owns its row")]
        // SAFETY: the row of this piece.
        let y = unsafe { own(&self.1, row * width, width) };
        pairs::<I, SiluTimes>(isa, gate, up, y);
    }
}

struct SigmoidGate<'a>(SigmoidGateArgs<'a>, Shared<'a>);

/// `SigmoidGate` into `y` [N,H*D].
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn sigmoid_gate(
    args: &SigmoidGateArgs<'_>,
    y: &mut [f32],
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    check_output(fused::SIGMOID_GATE, y.len(), args.o.len())?;
    dispatch(parallel, args.rows, &SigmoidGate(*args, Shared::new(y)));
    Ok(())
}

impl Task for SigmoidGate<'_> {
    fn scratch(&self, _: usize) -> usize {
        0
    }

    fn work(&self) -> usize {
        self.0.o.len() * EXP
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, row: usize, _: &mut [f32]) {
        let d = self.0.head_dim;
        for head in row * self.0.heads..(row + 1) * self.0.heads {
            #[expect(unsafe_code, reason = "a piece owns its row")]
            // SAFETY: a head of this piece's row.
            let y = unsafe { own(&self.1, head * d, d) };
            let gate = &self.0.x[head * 2 * d + d..][..d];
            pairs::<I, TimesSigmoid>(isa, &self.0.o[head * d..][..d], gate, y);
        }
    }
}

struct GatedNorm<'a>(GatedNormArgs<'a>, Shared<'a>);

/// `GatedNorm` into `y` [N,H*D].
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn gated_norm(
    args: &GatedNormArgs<'_>,
    y: &mut [f32],
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    check_output(fused::GATED_NORM, y.len(), args.o.len())?;
    dispatch(parallel, args.rows, &GatedNorm(*args, Shared::new(y)));
    Ok(())
}

impl Task for GatedNorm<'_> {
    fn scratch(&self, _: usize) -> usize {
        self.0.head_dim
    }

    fn work(&self) -> usize {
        self.0.o.len() * (EXP + 3)
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, row: usize, scratch: &mut [f32]) {
        let d = self.0.head_dim;
        for head in row * self.0.heads..(row + 1) * self.0.heads {
            let o = &self.0.o[head * d..][..d];
            let normed = &mut scratch[..d];
            scaled(
                isa,
                o,
                Some(self.0.w),
                inverse_rms(isa, o, self.0.epsilon),
                normed,
            );
            #[expect(unsafe_code, reason = "a piece owns its row")]
            // SAFETY: a head of this piece's row.
            let y = unsafe { own(&self.1, head * d, d) };
            pairs::<I, SiluTimes>(isa, &self.0.z[head * d..][..d], normed, y);
        }
    }
}

struct HeadNormRope<'a>(HeadNormRopeArgs<'a>, Shared<'a>);

/// `HeadNormRope` into `y` [N,H,D].
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn head_norm_rope(
    args: &HeadNormRopeArgs<'_>,
    y: &mut [f32],
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    check_output(
        fused::HEAD_NORM_ROPE,
        y.len(),
        args.rows * args.heads * args.head_dim,
    )?;
    dispatch(parallel, args.rows, &HeadNormRope(*args, Shared::new(y)));
    Ok(())
}

impl Task for HeadNormRope<'_> {
    fn scratch(&self, _: usize) -> usize {
        self.0.head_dim
    }

    fn work(&self) -> usize {
        self.0.rows * self.0.heads * self.0.head_dim * 6
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, row: usize, scratch: &mut [f32]) {
        let a = &self.0;
        let (d, half) = (a.head_dim, a.rotary / 2);
        let (cos, sin) = (&a.cos[row * half..][..half], &a.sin[row * half..][..half]);
        for head in row * a.heads..(row + 1) * a.heads {
            let x = &a.x[head * a.stride..][..d];
            let normed = &mut scratch[..d];
            scaled(isa, x, Some(a.w), inverse_rms(isa, x, a.epsilon), normed);
            #[expect(unsafe_code, reason = "a piece owns its row")]
            // SAFETY: a head of this piece's row.
            let y = unsafe { own(&self.1, head * d, d) };
            y[a.rotary..].copy_from_slice(&normed[a.rotary..]);
            let (left, right) = y[..a.rotary].split_at_mut(half);
            rotate(isa, &normed[..a.rotary], [cos, sin], [left, right]);
        }
    }
}

/// The halves `x1 cos - x2 sin` and `x2 cos + x1 sin` of `x = [x1 | x2]`.
#[inline(always)]
fn rotate<I: Isa>(isa: I, x: &[f32], [cos, sin]: [&[f32]; 2], [left, right]: [&mut [f32]; 2]) {
    let half = left.len();
    let (x1, x2) = x.split_at(half);
    let (cos, sin, right) = (&cos[..half], &sin[..half], &mut right[..half]);
    let mut at = 0;
    while at + I::LANES <= half {
        let (a, b) = (isa.load(&x1[at..]), isa.load(&x2[at..]));
        let (c, s) = (isa.load(&cos[at..]), isa.load(&sin[at..]));
        isa.store(&mut left[at..], isa.sub(isa.mul(a, c), isa.mul(b, s)));
        isa.store(&mut right[at..], isa.fma(b, c, isa.mul(a, s)));
        at += I::LANES;
    }
    for i in at..half {
        left[i] = x1[i] * cos[i] - x2[i] * sin[i];
        right[i] = x2[i] * cos[i] + x1[i] * sin[i];
    }
}

/// Where `DeltaInputs` writes.
#[derive(Debug)]
pub struct DeltaInputsOutputs<'a> {
    /// [N,HK,DK]
    pub q: &'a mut [f32],
    /// [N,HK,DK]
    pub k: &'a mut [f32],
    /// [N,HV,DV]
    pub v: &'a mut [f32],
    /// [N,HV]
    pub g: &'a mut [f32],
    /// [N,HV]
    pub beta: &'a mut [f32],
}

struct DeltaInputs<'a> {
    args: DeltaInputsArgs<'a>,
    q: Shared<'a>,
    k: Shared<'a>,
    v: Shared<'a>,
    g: Shared<'a>,
    beta: Shared<'a>,
}

/// `DeltaInputs` into `out`.
///
/// # Errors
/// Refuses arguments that do not fit together.
pub fn delta_inputs(
    args: &DeltaInputsArgs<'_>,
    out: DeltaInputsOutputs<'_>,
    parallel: &dyn Parallel,
) -> Result<(), OperatorError> {
    args.check()?;
    let keys = args.rows * args.key_heads * args.key_dim;
    let gates = args.rows * args.value_heads;
    for (found, expected) in [
        (out.q.len(), keys),
        (out.k.len(), keys),
        (out.v.len(), gates * args.value_dim),
        (out.g.len(), gates),
        (out.beta.len(), gates),
    ] {
        check_output(fused::DELTA_INPUTS, found, expected)?;
    }
    let task = DeltaInputs {
        args: *args,
        q: Shared::new(out.q),
        k: Shared::new(out.k),
        v: Shared::new(out.v),
        g: Shared::new(out.g),
        beta: Shared::new(out.beta),
    };
    dispatch(parallel, args.rows, &task);
    Ok(())
}

impl Task for DeltaInputs<'_> {
    fn scratch(&self, _: usize) -> usize {
        0
    }

    fn work(&self) -> usize {
        self.args.rows * (3 * self.args.channels() + 2 * EXP * self.args.value_heads)
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, row: usize, _: &mut [f32]) {
        let a = &self.args;
        let (keys, values, heads) = (
            a.key_heads * a.key_dim,
            a.value_heads * a.value_dim,
            a.value_heads,
        );
        #[expect(unsafe_code, reason = "a piece owns its row")]
        // SAFETY: the row of this piece, in five outputs.
        let (q, k, v, g, beta) = unsafe {
            (
                own(&self.q, row * keys, keys),
                own(&self.k, row * keys, keys),
                own(&self.v, row * values, values),
                own(&self.g, row * heads, heads),
                own(&self.beta, row * heads, heads),
            )
        };
        let c = &a.c[row * a.channels()..][..a.channels()];
        let scale = 1.0 / (a.key_dim as f32).sqrt();
        for (y, factor, from) in [(q, scale, 0), (k, 1.0, keys)] {
            let heads = c[from..from + keys].chunks_exact(a.key_dim);
            for (x, y) in heads.zip(y.chunks_exact_mut(a.key_dim)) {
                let length = (sum_of_squares(isa, x) + L2_EPSILON).sqrt();
                scaled(isa, x, None, factor / length, y);
            }
        }
        v.copy_from_slice(&c[2 * keys..]);
        let (step, gate) = (&a.a[row * heads..][..heads], &a.b[row * heads..][..heads]);
        for head in 0..heads {
            let x = step[head] + a.dt_bias[head];
            // ln(1 + e^x) without overflow.
            g[head] = a.decay[head] * (x.max(0.0) + (-x.abs()).exp().ln_1p());
            beta[head] = 1.0 / (1.0 + (-gate[head]).exp());
        }
    }
}
