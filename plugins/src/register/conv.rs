use super::tensors::{Inputs, allocate, guard, refuse, required_inputs, required_outputs, same_shape};
use crate::{
    args::ConvArgs,
    kernels::{Workspace, tree_causal_conv},
    ops,
};
use ort::{
    operator::{
        ComputeContext, Kernel, KernelContext, Operator, OperatorInput, OperatorOutput, ShapeInferenceContext,
    },
    value::TensorElementType,
};

const INPUTS: [(&str, usize); 4] = [("x", 2), ("past", 2), ("weight", 2), ("ancestors", 2)];

pub(super) struct TreeCausalConv;

/// One node's kernel.
#[derive(Default)]
pub(super) struct ConvKernel {
    workspace: Workspace,
}

impl Operator for TreeCausalConv {
    type Kernel<'attr> = ConvKernel;

    fn name(&self) -> &str {
        ops::TREE_CAUSAL_CONV
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        use TensorElementType::{Bool, Float32};
        required_inputs(&[Float32, Float32, Float32, Bool])
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        required_outputs(1)
    }

    fn create_kernel<'attr>(&self, _: &KernelContext<'attr>) -> ort::Result<Self::Kernel<'attr>> {
        Ok(ConvKernel::default())
    }

    fn infer_shape(&self, ctx: &mut ShapeInferenceContext) -> ort::Result<()> {
        same_shape(ctx, 0, 0, 2)
    }
}

impl Kernel for ConvKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = ops::TREE_CAUSAL_CONV;
        guard(op, ctx, |pool| {
            let inputs = Inputs {
                operator: op,
                names: &INPUTS,
                ctx,
            };
            let (x, past) = (inputs.get(0)?, inputs.get(1)?);
            let (weight, ancestors) = (inputs.get(2)?, inputs.get(3)?);
            let (rows, channels, taps) = (x.dim(0), x.dim(1), weight.dim(1));
            weight.expect(&[channels, taps], "[CH,K]")?;
            past.expect(&[taps.saturating_sub(1), channels], "[K-1,CH]")?;
            ancestors.expect(&[rows, rows], "[N,N]")?;
            let args = ConvArgs {
                rows,
                channels,
                taps,
                x: x.data()?,
                past: past.data()?,
                weight: weight.data()?,
                ancestors: ancestors.data()?,
            };
            let mut y = allocate(ctx, 0, [rows, channels])?;
            tree_causal_conv(&args, &mut y, &mut self.workspace, pool).map_err(refuse)
        })
    }
}
