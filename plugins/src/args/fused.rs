//! Arguments of the fused operators ([`crate::ops::fused`]).

use super::{divides, lengths, require};
use crate::{error::OperatorError, ops::fused};

/// Arguments of `SwiGlu`.
#[derive(Clone, Copy, Debug)]
pub struct SwiGluArgs<'a> {
    /// N.
    pub rows: usize,
    /// I.
    pub width: usize,
    /// [N,2I]
    pub x: &'a [f32],
}

/// Arguments of `DeltaInputs`.
#[derive(Clone, Copy, Debug)]
pub struct DeltaInputsArgs<'a> {
    /// N.
    pub rows: usize,
    /// HK.
    pub key_heads: usize,
    /// HV, a multiple of HK.
    pub value_heads: usize,
    /// DK.
    pub key_dim: usize,
    /// DV.
    pub value_dim: usize,
    /// [N, 2*HK*DK + HV*DV]
    pub c: &'a [f32],
    /// [N,HV]
    pub a: &'a [f32],
    /// [N,HV]
    pub b: &'a [f32],
    /// [HV]
    pub dt_bias: &'a [f32],
    /// [HV], `-exp(A_log)`.
    pub decay: &'a [f32],
}

/// Arguments of `GatedNorm`.
#[derive(Clone, Copy, Debug)]
pub struct GatedNormArgs<'a> {
    /// N.
    pub rows: usize,
    /// H.
    pub heads: usize,
    /// D.
    pub head_dim: usize,
    /// Added to the mean square.
    pub epsilon: f32,
    /// [N,H,D]
    pub o: &'a [f32],
    /// [N,H*D]
    pub z: &'a [f32],
    /// [D]
    pub w: &'a [f32],
}

/// Arguments of `HeadNormRope`.
#[derive(Clone, Copy, Debug)]
pub struct HeadNormRopeArgs<'a> {
    /// N.
    pub rows: usize,
    /// H.
    pub heads: usize,
    /// D.
    pub head_dim: usize,
    /// S, numbers of a head in `x`, at least D.
    pub stride: usize,
    /// R, rotated dimensions: even, at most D.
    pub rotary: usize,
    /// Added to the mean square.
    pub epsilon: f32,
    /// [N,H*S]
    pub x: &'a [f32],
    /// [D]
    pub w: &'a [f32],
    /// [N,R/2]
    pub cos: &'a [f32],
    /// [N,R/2]
    pub sin: &'a [f32],
}

/// Arguments of `SigmoidGate`.
#[derive(Clone, Copy, Debug)]
pub struct SigmoidGateArgs<'a> {
    /// N.
    pub rows: usize,
    /// H.
    pub heads: usize,
    /// D.
    pub head_dim: usize,
    /// [N,H,D]
    pub o: &'a [f32],
    /// [N,H*2D]
    pub x: &'a [f32],
}

/// Numbers of a row that share a scale.
pub const BLOCK: usize = 32;

/// Arguments of `BlockMatMul`.
#[derive(Clone, Copy, Debug)]
pub struct BlockMatMulArgs<'a> {
    /// N.
    pub rows: usize,
    /// K, a multiple of [`BLOCK`].
    pub depth: usize,
    /// M.
    pub columns: usize,
    /// 8 or 4.
    pub bits: usize,
    /// [N,K]
    pub x: &'a [f32],
    /// [M,K/32,4*bits]
    pub w: &'a [u8],
    /// [M,K/32]
    pub scales: &'a [f32],
}

impl BlockMatMulArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = fused::BLOCK_MAT_MUL;
        require(op, matches!(self.bits, 4 | 8), "bits is neither 4 nor 8")?;
        let whole = self.depth > 0 && self.depth.is_multiple_of(BLOCK);
        require(op, whole, "K is no multiple of 32")?;
        let blocks = self.columns * (self.depth / BLOCK);
        lengths(
            op,
            &[
                ("x", self.x.len(), self.rows * self.depth),
                ("w", self.w.len(), blocks * BLOCK * self.bits / 8),
                ("scales", self.scales.len(), blocks),
            ],
        )
    }
}

impl SwiGluArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        lengths(fused::SWI_GLU, &[("x", self.x.len(), 2 * self.rows * self.width)])
    }
}

impl DeltaInputsArgs<'_> {
    /// Numbers of a row of `c`.
    #[must_use]
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = fused::DELTA_INPUTS;
        divides(op, self.key_heads, self.value_heads)?;
        require(op, self.key_dim > 0 && self.value_dim > 0, "head dimension is 0")?;
        let gates = self.rows * self.value_heads;
        lengths(
            op,
            &[
                ("c", self.c.len(), self.rows * self.channels()),
                ("a", self.a.len(), gates),
                ("b", self.b.len(), gates),
                ("dt_bias", self.dt_bias.len(), self.value_heads),
                ("decay", self.decay.len(), self.value_heads),
            ],
        )
    }
}

impl GatedNormArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = fused::GATED_NORM;
        require(op, self.head_dim > 0, "head dimension is 0")?;
        require(op, self.epsilon >= 0.0, "epsilon is negative")?;
        let all = self.rows * self.heads * self.head_dim;
        lengths(
            op,
            &[
                ("o", self.o.len(), all),
                ("z", self.z.len(), all),
                ("w", self.w.len(), self.head_dim),
            ],
        )
    }
}

impl HeadNormRopeArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = fused::HEAD_NORM_ROPE;
        require(op, self.head_dim > 0, "head dimension is 0")?;
        require(op, self.epsilon >= 0.0, "epsilon is negative")?;
        require(op, self.stride >= self.head_dim, "a head of x is shorter than w")?;
        let fits = self.rotary.is_multiple_of(2) && self.rotary <= self.head_dim;
        require(op, fits, "rotary is odd or exceeds the head dimension")?;
        let table = self.rows * self.rotary / 2;
        lengths(
            op,
            &[
                ("x", self.x.len(), self.rows * self.heads * self.stride),
                ("w", self.w.len(), self.head_dim),
                ("cos", self.cos.len(), table),
                ("sin", self.sin.len(), table),
            ],
        )
    }
}

impl SigmoidGateArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let all = self.rows * self.heads * self.head_dim;
        lengths(
            fused::SIGMOID_GATE,
            &[("o", self.o.len(), all), ("x", self.x.len(), 2 * all)],
        )
    }
}
