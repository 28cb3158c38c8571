use super::tensors::{Inputs, allocate, guard, refuse, required_inputs, required_outputs, same_shape};
use crate::{
    args::DeltaArgs,
    kernels::{DeltaOutputs, Workspace, tree_delta_rule},
    ops,
};
use ort::{
    operator::{
        ComputeContext, Kernel, KernelContext, Operator, OperatorInput, OperatorOutput, ShapeInferenceContext,
    },
    value::TensorElementType,
};

const INPUTS: [(&str, usize); 7] = [
    ("q", 3),
    ("k", 3),
    ("v", 3),
    ("g", 2),
    ("beta", 2),
    ("state", 3),
    ("ancestors", 2),
];

pub(super) struct TreeDeltaRule;

/// One node's kernel.
#[derive(Default)]
pub(super) struct DeltaKernel {
    workspace: Workspace,
}

impl Operator for TreeDeltaRule {
    type Kernel<'attr> = DeltaKernel;

    fn name(&self) -> &str {
        ops::TREE_DELTA_RULE
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        use TensorElementType::{Bool, Float32};
        required_inputs(&[Float32, Float32, Float32, Float32, Float32, Float32, Bool])
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        required_outputs(3)
    }

    fn create_kernel<'attr>(&self, _: &KernelContext<'attr>) -> ort::Result<Self::Kernel<'attr>> {
        Ok(DeltaKernel::default())
    }

    fn infer_shape(&self, ctx: &mut ShapeInferenceContext) -> ort::Result<()> {
        same_shape(ctx, 2, 0, 3)?;
        same_shape(ctx, 2, 1, 3)?;
        same_shape(ctx, 3, 2, 2)
    }
}

impl Kernel for DeltaKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = ops::TREE_DELTA_RULE;
        guard(op, ctx, |pool| {
            let inputs = Inputs {
                operator: op,
                names: &INPUTS,
                ctx,
            };
            let (q, k, v) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
            let (g, beta) = (inputs.get(3)?, inputs.get(4)?);
            let (state, ancestors) = (inputs.get(5)?, inputs.get(6)?);
            let (rows, key_heads, key_dim) = (q.dim(0), q.dim(1), q.dim(2));
            let (value_heads, value_dim) = (v.dim(1), v.dim(2));
            k.expect(&[rows, key_heads, key_dim], "[N,HK,DK]")?;
            v.expect(&[rows, value_heads, value_dim], "[N,HV,DV]")?;
            g.expect(&[rows, value_heads], "[N,HV]")?;
            beta.expect(&[rows, value_heads], "[N,HV]")?;
            state.expect(&[value_heads, key_dim, value_dim], "[HV,DK,DV]")?;
            ancestors.expect(&[rows, rows], "[N,N]")?;
            let args = DeltaArgs {
                rows,
                key_heads,
                value_heads,
                key_dim,
                value_dim,
                q: q.data()?,
                k: k.data()?,
                v: v.data()?,
                g: g.data()?,
                beta: beta.data()?,
                state: state.data()?,
                ancestors: ancestors.data()?,
            };
            let mut o = allocate(ctx, 0, [rows, value_heads, value_dim])?;
            let mut u = allocate(ctx, 1, [rows, value_heads, value_dim])?;
            let mut gates = allocate(ctx, 2, [rows, value_heads])?;
            let out = DeltaOutputs {
                o: &mut o,
                u: &mut u,
                gates: &mut gates,
            };
            tree_delta_rule(&args, out, &mut self.workspace, pool).map_err(refuse)
        })
    }
}
