use super::tensors::{Inputs, allocate, guard, refuse, required_inputs, required_outputs, same_shape};
use crate::{
    args::AttentionArgs,
    error::OperatorError,
    kernels::{Workspace, tree_attention},
    ops,
};
use ort::{
    operator::{
        ComputeContext, Kernel, KernelContext, Operator, OperatorInput, OperatorOutput, ShapeInferenceContext,
    },
    value::TensorElementType,
};

const INPUTS: [(&str, usize); 8] = [
    ("q", 3),
    ("k", 3),
    ("v", 3),
    ("past_k", 3),
    ("past_v", 3),
    ("past_len", 1),
    ("positions", 1),
    ("visible", 2),
];

pub(super) struct TreeAttention;

/// One node's kernel.
pub(super) struct AttentionKernel {
    scale: f32,
    window: i64,
    workspace: Workspace,
}

impl Operator for TreeAttention {
    type Kernel<'attr> = AttentionKernel;

    fn name(&self) -> &str {
        ops::TREE_ATTENTION
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        use TensorElementType::{Bool, Float32, Int64};
        required_inputs(&[Float32, Float32, Float32, Float32, Float32, Int64, Int64, Bool])
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        required_outputs(1)
    }

    fn create_kernel<'attr>(&self, kctx: &KernelContext<'attr>) -> ort::Result<Self::Kernel<'attr>> {
        let missing = |name: &str| {
            refuse(OperatorError::value(
                ops::TREE_ATTENTION,
                format!("attribute {name} is missing"),
            ))
        };
        Ok(AttentionKernel {
            scale: kctx.get::<f32>("scale").ok_or_else(|| missing("scale"))?,
            window: kctx.get::<i64>("window").ok_or_else(|| missing("window"))?,
            workspace: Workspace::default(),
        })
    }

    fn infer_shape(&self, ctx: &mut ShapeInferenceContext) -> ort::Result<()> {
        same_shape(ctx, 0, 0, 3)
    }
}

impl Kernel for AttentionKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = ops::TREE_ATTENTION;
        guard(op, ctx, |pool| {
            let inputs = Inputs {
                operator: op,
                names: &INPUTS,
                ctx,
            };
            let (q, k, v) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
            let (past_k, past_v) = (inputs.get(3)?, inputs.get(4)?);
            let (past_len, positions, visible) = (inputs.get(5)?, inputs.get(6)?, inputs.get(7)?);
            let (rows, heads, head_dim) = (q.dim(0), q.dim(1), q.dim(2));
            let kv_heads = k.dim(1);
            k.expect(&[rows, kv_heads, head_dim], "[N,KVH,D]")?;
            v.expect(&[rows, kv_heads, head_dim], "[N,KVH,D]")?;
            past_k.expect(&[past_k.dim(0), kv_heads, head_dim], "[C,KVH,D]")?;
            past_v.expect(&[past_k.dim(0), kv_heads, head_dim], "[C,KVH,D]")?;
            past_len.expect(&[1], "[1]")?;
            positions.expect(&[rows], "[N]")?;
            visible.expect(&[rows, rows], "[N,N]")?;
            let past_len = usize::try_from(past_len.data::<i64>()?[0])
                .map_err(|_| refuse(OperatorError::value(op, "past_len is negative")))?;
            let args = AttentionArgs {
                rows,
                heads,
                kv_heads,
                head_dim,
                past_len,
                scale: self.scale,
                window: self.window,
                q: q.data()?,
                k: k.data()?,
                v: v.data()?,
                past_k: past_k.data()?,
                past_v: past_v.data()?,
                positions: positions.data()?,
                visible: visible.data()?,
            };
            let mut o = allocate(ctx, 0, [rows, heads, head_dim])?;
            tree_attention(&args, &mut o, &mut self.workspace, pool).map_err(refuse)
        })
    }
}
