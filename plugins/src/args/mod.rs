//! Arguments of the operators as slices with sizes, checked once at the border. References and
//! kernels take the same arguments. Tensors are row major; shapes are in [`crate::ops`].

mod fused;

pub use fused::{
    BLOCK, BlockMatMulArgs, DeltaInputsArgs, GatedNormArgs, HeadNormRopeArgs, SigmoidGateArgs, SwiGluArgs,
};

use crate::{error::OperatorError, ops};

/// Arguments of `TreeAttention`.
#[derive(Clone, Copy, Debug)]
pub struct AttentionArgs<'a> {
    /// N.
    pub rows: usize,
    /// QH.
    pub heads: usize,
    /// KVH, divides QH.
    pub kv_heads: usize,
    /// D.
    pub head_dim: usize,
    /// Committed rows, at most the capacity C.
    pub past_len: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Keys at this distance or farther are hidden; 0 means no window.
    pub window: i64,
    /// [N,QH,D]
    pub q: &'a [f32],
    /// [N,KVH,D]
    pub k: &'a [f32],
    /// [N,KVH,D]
    pub v: &'a [f32],
    /// [C,KVH,D]; rows from `past_len` on are never read.
    pub past_k: &'a [f32],
    /// [C,KVH,D]
    pub past_v: &'a [f32],
    /// [N]
    pub positions: &'a [i64],
    /// [N,N]
    pub visible: &'a [bool],
}

/// Arguments of `TreeCausalConv`.
#[derive(Clone, Copy, Debug)]
pub struct ConvArgs<'a> {
    /// N.
    pub rows: usize,
    /// CH.
    pub channels: usize,
    /// K.
    pub taps: usize,
    /// [N,CH]
    pub x: &'a [f32],
    /// [K-1,CH], oldest first.
    pub past: &'a [f32],
    /// [CH,K], tap K-1 meets the row itself.
    pub weight: &'a [f32],
    /// [N,N]
    pub ancestors: &'a [bool],
}

/// Arguments of `TreeDeltaRule`.
#[derive(Clone, Copy, Debug)]
pub struct DeltaArgs<'a> {
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
    /// [N,HK,DK]
    pub q: &'a [f32],
    /// [N,HK,DK]
    pub k: &'a [f32],
    /// [N,HV,DV]
    pub v: &'a [f32],
    /// [N,HV], log decay, <= 0.
    pub g: &'a [f32],
    /// [N,HV]
    pub beta: &'a [f32],
    /// [HV,DK,DV]
    pub state: &'a [f32],
    /// [N,N]
    pub ancestors: &'a [bool],
}

/// Arguments of `DeltaBranchUpdate`.
#[derive(Clone, Copy, Debug)]
pub struct UpdateArgs<'a> {
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
    /// [HV,DK,DV]
    pub state: &'a [f32],
    /// [N,HK,DK]
    pub k: &'a [f32],
    /// [N,HV,DV]
    pub u: &'a [f32],
    /// [N,HV], the output `G` of `TreeDeltaRule`.
    pub gates: &'a [f32],
    /// [P], rows of a root path in order.
    pub path: &'a [i64],
}

/// Fails with `what` unless `condition` holds.
fn require(operator: &'static str, condition: bool, what: &str) -> Result<(), OperatorError> {
    if condition {
        Ok(())
    } else {
        Err(OperatorError::value(operator, what))
    }
}

/// Fails unless every named slice has the given length.
fn lengths(operator: &'static str, slices: &[(&str, usize, usize)]) -> Result<(), OperatorError> {
    match slices.iter().find(|(_, found, expected)| found != expected) {
        None => Ok(()),
        Some((name, found, expected)) => Err(OperatorError::value(
            operator,
            format!("{name} has {found} elements, expected {expected}"),
        )),
    }
}

fn divides(operator: &'static str, few: usize, many: usize) -> Result<(), OperatorError> {
    if few > 0 && many > 0 && many.is_multiple_of(few) {
        Ok(())
    } else {
        Err(OperatorError::value(
            operator,
            format!("{many} heads cannot share {few} heads"),
        ))
    }
}

impl AttentionArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = ops::TREE_ATTENTION;
        divides(op, self.kv_heads, self.heads)?;
        require(op, self.head_dim > 0, "head dimension is 0")?;
        require(op, self.window >= 0, "window is negative")?;
        require(op, self.scale.is_finite(), "scale is not finite")?;
        let kv_row = self.kv_heads * self.head_dim;
        require(
            op,
            self.past_len <= self.past_k.len() / kv_row,
            "past_len exceeds the capacity of the cache",
        )?;
        lengths(
            op,
            &[
                ("q", self.q.len(), self.rows * self.heads * self.head_dim),
                ("k", self.k.len(), self.rows * kv_row),
                ("v", self.v.len(), self.rows * kv_row),
                ("past_v", self.past_v.len(), self.past_k.len()),
                ("positions", self.positions.len(), self.rows),
                ("visible", self.visible.len(), self.rows * self.rows),
            ],
        )
    }
}

impl ConvArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = ops::TREE_CAUSAL_CONV;
        require(op, self.taps > 0, "the weight has no taps")?;
        lengths(
            op,
            &[
                ("x", self.x.len(), self.rows * self.channels),
                ("past", self.past.len(), (self.taps - 1) * self.channels),
                ("weight", self.weight.len(), self.taps * self.channels),
                ("ancestors", self.ancestors.len(), self.rows * self.rows),
            ],
        )
    }
}

impl DeltaArgs<'_> {
    /// Checks every size.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = ops::TREE_DELTA_RULE;
        divides(op, self.key_heads, self.value_heads)?;
        require(op, self.key_dim > 0 && self.value_dim > 0, "head dimension is 0")?;
        let key = self.rows * self.key_heads * self.key_dim;
        let gate = self.rows * self.value_heads;
        lengths(
            op,
            &[
                ("q", self.q.len(), key),
                ("k", self.k.len(), key),
                ("v", self.v.len(), gate * self.value_dim),
                ("g", self.g.len(), gate),
                ("beta", self.beta.len(), gate),
                (
                    "state",
                    self.state.len(),
                    self.value_heads * self.key_dim * self.value_dim,
                ),
                ("ancestors", self.ancestors.len(), self.rows * self.rows),
            ],
        )
    }
}

impl UpdateArgs<'_> {
    /// Checks every size and that the path stays inside the rows.
    ///
    /// # Errors
    /// Names the first input that does not fit.
    pub fn check(&self) -> Result<(), OperatorError> {
        let op = ops::DELTA_BRANCH_UPDATE;
        divides(op, self.key_heads, self.value_heads)?;
        require(op, self.key_dim > 0 && self.value_dim > 0, "head dimension is 0")?;
        require(op, !self.path.is_empty(), "the path is empty")?;
        let inside = |row: &i64| usize::try_from(*row).is_ok_and(|row| row < self.rows);
        require(op, self.path.iter().all(inside), "the path leaves the rows")?;
        let gate = self.rows * self.value_heads;
        lengths(
            op,
            &[
                (
                    "state",
                    self.state.len(),
                    self.value_heads * self.key_dim * self.value_dim,
                ),
                ("k", self.k.len(), self.rows * self.key_heads * self.key_dim),
                ("u", self.u.len(), gate * self.value_dim),
                ("G", self.gates.len(), gate),
            ],
        )
    }
}
