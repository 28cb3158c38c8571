//! The fused operators ([`crate::ops::fused`]) for ONNX Runtime.

use super::tensors::{Inputs, allocate, guard, refuse, required_inputs, required_outputs};
use crate::args::{
    BLOCK, BlockMatMulArgs, DeltaInputsArgs, GatedNormArgs, HeadNormRopeArgs, SigmoidGateArgs, SwiGluArgs,
};
use crate::error::OperatorError;
use crate::kernels::{self as all, fused as kernels};
use crate::ops::fused;
use ort::operator::{ComputeContext, Kernel, KernelContext, Operator, OperatorInput, OperatorOutput};
use ort::value::TensorElementType::{Float32, Uint8};

/// An operator of float32 tensors and its kernel.
macro_rules! operator {
    ($operator:ident, $kernel:ident, $name:expr, $inputs:literal, $outputs:expr, $create:expr) => {
        operator!(
            $operator,
            $kernel,
            $name,
            [Float32; $inputs],
            $outputs,
            $create
        );
    };
    ($operator:ident, $kernel:ident, $name:expr, $inputs:expr, $outputs:expr, $create:expr) => {
        pub(super) struct $operator;

        impl Operator for $operator {
            type Kernel<'attr> = $kernel;

            fn name(&self) -> &str {
                $name
            }

            fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
                required_inputs(&$inputs)
            }

            fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
                required_outputs($outputs)
            }

            fn create_kernel<'attr>(
                &self,
                context: &KernelContext<'attr>,
            ) -> ort::Result<Self::Kernel<'attr>> {
                let create: fn(&KernelContext<'attr>) -> ort::Result<$kernel> = $create;
                create(context)
            }
        }
    };
}

fn missing(op: &'static str, name: &str) -> ort::Error {
    refuse(OperatorError::value(op, format!("attribute {name} is missing")))
}

/// A count that an attribute gives.
fn count(context: &KernelContext<'_>, op: &'static str, name: &str) -> ort::Result<usize> {
    let value = context.get::<i64>(name).ok_or_else(|| missing(op, name))?;
    usize::try_from(value)
        .map_err(|_| refuse(OperatorError::value(op, format!("attribute {name} is negative"))))
}

fn epsilon(context: &KernelContext<'_>, op: &'static str) -> ort::Result<f32> {
    context
        .get::<f32>("epsilon")
        .ok_or_else(|| missing(op, "epsilon"))
}

pub(super) struct SwiGluKernel;
operator!(SwiGlu, SwiGluKernel, fused::SWI_GLU, 1, 1, |_| Ok(SwiGluKernel));

impl Kernel for SwiGluKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = fused::SWI_GLU;
        guard(op, ctx, |pool| {
            let names = &[("x", 2)];
            let inputs = Inputs {
                operator: op,
                names,
                ctx,
            };
            let x = inputs.get(0)?;
            let (rows, width) = (x.dim(0), x.dim(1) / 2);
            x.expect(&[rows, 2 * width], "[N,2I]")?;
            let args = SwiGluArgs {
                rows,
                width,
                x: x.data()?,
            };
            let mut y = allocate(ctx, 0, [rows, width])?;
            kernels::swi_glu(&args, &mut y, pool).map_err(refuse)
        })
    }
}

pub(super) struct SigmoidGateKernel;
operator!(SigmoidGate, SigmoidGateKernel, fused::SIGMOID_GATE, 2, 1, |_| Ok(
    SigmoidGateKernel
));

impl Kernel for SigmoidGateKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = fused::SIGMOID_GATE;
        guard(op, ctx, |pool| {
            let names = &[("o", 3), ("x", 2)];
            let inputs = Inputs {
                operator: op,
                names,
                ctx,
            };
            let (o, x) = (inputs.get(0)?, inputs.get(1)?);
            let (rows, heads, head_dim) = (o.dim(0), o.dim(1), o.dim(2));
            x.expect(&[rows, heads * 2 * head_dim], "[N,H*2D]")?;
            let args = SigmoidGateArgs {
                rows,
                heads,
                head_dim,
                o: o.data()?,
                x: x.data()?,
            };
            let mut y = allocate(ctx, 0, [rows, heads * head_dim])?;
            kernels::sigmoid_gate(&args, &mut y, pool).map_err(refuse)
        })
    }
}

pub(super) struct GatedNormKernel(f32);
operator!(GatedNorm, GatedNormKernel, fused::GATED_NORM, 3, 1, |context| {
    Ok(GatedNormKernel(epsilon(context, fused::GATED_NORM)?))
});

impl Kernel for GatedNormKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = fused::GATED_NORM;
        guard(op, ctx, |pool| {
            let names = &[("o", 3), ("z", 2), ("w", 1)];
            let inputs = Inputs {
                operator: op,
                names,
                ctx,
            };
            let (o, z, w) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
            let (rows, heads, head_dim) = (o.dim(0), o.dim(1), o.dim(2));
            z.expect(&[rows, heads * head_dim], "[N,H*D]")?;
            w.expect(&[head_dim], "[D]")?;
            let args = GatedNormArgs {
                rows,
                heads,
                head_dim,
                epsilon: self.0,
                o: o.data()?,
                z: z.data()?,
                w: w.data()?,
            };
            let mut y = allocate(ctx, 0, [rows, heads * head_dim])?;
            kernels::gated_norm(&args, &mut y, pool).map_err(refuse)
        })
    }
}

pub(super) struct HeadNormRopeKernel {
    heads: usize,
    rotary: usize,
    epsilon: f32,
}
operator!(
    HeadNormRope,
    HeadNormRopeKernel,
    fused::HEAD_NORM_ROPE,
    4,
    1,
    |context| {
        let op = fused::HEAD_NORM_ROPE;
        Ok(HeadNormRopeKernel {
            heads: count(context, op, "heads")?,
            rotary: count(context, op, "rotary")?,
            epsilon: epsilon(context, op)?,
        })
    }
);

impl Kernel for HeadNormRopeKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = fused::HEAD_NORM_ROPE;
        guard(op, ctx, |pool| {
            let names = &[("x", 2), ("w", 1), ("cos", 3), ("sin", 3)];
            let inputs = Inputs {
                operator: op,
                names,
                ctx,
            };
            let (x, w) = (inputs.get(0)?, inputs.get(1)?);
            let (cos, sin) = (inputs.get(2)?, inputs.get(3)?);
            let (rows, heads, head_dim) = (x.dim(0), self.heads, w.dim(0));
            let rotary = if self.rotary == 0 { head_dim } else { self.rotary };
            let stride = x.dim(1) / heads.max(1);
            x.expect(&[rows, heads * stride], "[N,H*S]")?;
            cos.expect(&[rows, 1, rotary / 2], "[N,1,R/2]")?;
            sin.expect(&[rows, 1, rotary / 2], "[N,1,R/2]")?;
            let args = HeadNormRopeArgs {
                rows,
                heads,
                head_dim,
                stride,
                rotary,
                epsilon: self.epsilon,
                x: x.data()?,
                w: w.data()?,
                cos: cos.data()?,
                sin: sin.data()?,
            };
            let mut y = allocate(ctx, 0, [rows, heads, head_dim])?;
            kernels::head_norm_rope(&args, &mut y, pool).map_err(refuse)
        })
    }
}

pub(super) struct DeltaInputsKernel {
    key_heads: usize,
    key_dim: usize,
}
operator!(
    DeltaInputs,
    DeltaInputsKernel,
    fused::DELTA_INPUTS,
    5,
    5,
    |context| {
        let op = fused::DELTA_INPUTS;
        Ok(DeltaInputsKernel {
            key_heads: count(context, op, "key_heads")?,
            key_dim: count(context, op, "key_dim")?,
        })
    }
);

impl Kernel for DeltaInputsKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = fused::DELTA_INPUTS;
        guard(op, ctx, |pool| {
            let names = &[("c", 2), ("a", 2), ("b", 2), ("dt_bias", 1), ("decay", 1)];
            let inputs = Inputs {
                operator: op,
                names,
                ctx,
            };
            let (c, a, b) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
            let (dt_bias, decay) = (inputs.get(3)?, inputs.get(4)?);
            let (rows, value_heads) = (a.dim(0), a.dim(1));
            let (key_heads, key_dim) = (self.key_heads, self.key_dim);
            let values = c.dim(1).saturating_sub(2 * key_heads * key_dim);
            let args = DeltaInputsArgs {
                rows,
                key_heads,
                value_heads,
                key_dim,
                value_dim: values / value_heads.max(1),
                c: c.data()?,
                a: a.data()?,
                b: b.data()?,
                dt_bias: dt_bias.data()?,
                decay: decay.data()?,
            };
            args.check().map_err(refuse)?;
            let mut q = allocate(ctx, 0, [rows, key_heads, key_dim])?;
            let mut k = allocate(ctx, 1, [rows, key_heads, key_dim])?;
            let mut v = allocate(ctx, 2, [rows, value_heads, args.value_dim])?;
            let mut g = allocate(ctx, 3, [rows, value_heads])?;
            let mut beta = allocate(ctx, 4, [rows, value_heads])?;
            let out = kernels::DeltaInputsOutputs {
                q: &mut q,
                k: &mut k,
                v: &mut v,
                g: &mut g,
                beta: &mut beta,
            };
            kernels::delta_inputs(&args, out, pool).map_err(refuse)
        })
    }
}

pub(super) struct BlockMatMulKernel {
    bits: usize,
}
operator!(
    BlockMatMul,
    BlockMatMulKernel,
    fused::BLOCK_MAT_MUL,
    [Float32, Uint8, Float32],
    1,
    |context| {
        Ok(BlockMatMulKernel {
            bits: count(context, fused::BLOCK_MAT_MUL, "bits")?,
        })
    }
);

impl Kernel for BlockMatMulKernel {
    fn compute(&mut self, ctx: &ComputeContext) -> ort::Result<()> {
        let op = fused::BLOCK_MAT_MUL;
        guard(op, ctx, |pool| {
            let names = &[("x", 2), ("w", 3), ("scales", 2)];
            let inputs = Inputs {
                operator: op,
                names,
                ctx,
            };
            let (x, w, scales) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
            let (rows, columns, blocks) = (x.dim(0), w.dim(0), w.dim(1));
            x.expect(&[rows, blocks * BLOCK], "[N,K]")?;
            w.expect(&[columns, blocks, BLOCK * self.bits / 8], "[M,K/32,4*bits]")?;
            scales.expect(&[columns, blocks], "[M,K/32]")?;
            let args = BlockMatMulArgs {
                rows,
                depth: blocks * BLOCK,
                columns,
                bits: self.bits,
                x: x.data()?,
                w: w.data()?,
                scales: scales.data()?,
            };
            args.check().map_err(refuse)?;
            let mut y = allocate(ctx, 0, [rows, columns])?;
            all::block_matmul(&args, &mut y, pool).map_err(refuse)
        })
    }
}
