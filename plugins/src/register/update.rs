use super::tensors::{Inputs, allocate, guard, refuse, required_inputs, required_outputs, same_shape};
use crate::{args::UpdateArgs, kernels::delta_branch_update, ops};
use ort::{
    operator::{
        ComputeContext, Kernel, KernelContext, Operator, OperatorInput, OperatorOutput, ShapeInferenceContext,
    },
    value::TensorElementType,
};

const INPUTS: [(&str, usize); 5] = [("state", 3), ("k", 3), ("u", 3), ("G", 2), ("path", 1)];

pub(super) struct DeltaBranchUpdate;

/// One node's kernel; it keeps nothing.
pub(super) struct UpdateKernel;

impl Operator for DeltaBranchUpdate {
    type Kernel<'attr> = UpdateKernel;

    fn name(&self) -> &str {
        ops::DELTA_BRANCH_UPDATE
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        use TensorElementType::{Float32, Int64};
        required_inputs(&[Float32, Float32, Float32, Float32, Int64])
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        required_outputs(1)
    }

    fn create_kernel<'attr>(&self, _: &KernelContext<'attr>) -> ort::Result<Self::Kernel<'attr>> {
        Ok(UpdateKernel)
    }

    fn infer_shape(&self, ctx: &mut ShapeInferenceContext) -> ort::Result<()> {
        same_shape(ctx, 0, 0, 3)
    }
}

impl Kernel for UpdateKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = ops::DELTA_BRANCH_UPDATE;
        guard(op, ctx, |pool| {
            let inputs = Inputs {
                operator: op,
                names: &INPUTS,
                ctx,
            };
            let (state, k, u) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
            let (gates, path) = (inputs.get(3)?, inputs.get(4)?);
            let (rows, key_heads, key_dim) = (k.dim(0), k.dim(1), k.dim(2));
            let (value_heads, value_dim) = (u.dim(1), u.dim(2));
            state.expect(&[value_heads, key_dim, value_dim], "[HV,DK,DV]")?;
            u.expect(&[rows, value_heads, value_dim], "[N,HV,DV]")?;
            gates.expect(&[rows, value_heads], "[N,HV]")?;
            let args = UpdateArgs {
                rows,
                key_heads,
                value_heads,
                key_dim,
                value_dim,
                state: state.data()?,
                k: k.data()?,
                u: u.data()?,
                gates: gates.data()?,
                path: path.data()?,
            };
            let mut new = allocate(ctx, 0, [value_heads, key_dim, value_dim])?;
            delta_branch_update(&args, &mut new, pool).map_err(refuse)
        })
    }
}
