//! Tensors at the border to ONNX Runtime: typed, with checked ranks; and its thread pool.

use super::raw::{Number, Output, Tensor};
use crate::{error::OperatorError, kernels::Parallel};
use ort::{
    operator::{ComputeContext, OperatorInput, OperatorOutput, ShapeInferenceContext},
    value::{TensorElementType, ValueType},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
};

/// Name and number of dimensions of every input of an operator.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'c> {
    pub(super) operator: &'static str,
    pub(super) names: &'static [(&'static str, usize)],
    pub(super) ctx: &'c ComputeContext,
}

impl<'c> Inputs<'c> {
    pub(super) fn get(&self, index: usize) -> ort::Result<Input<'c>> {
        let (name, rank) = self.names[index];
        let value = Tensor::input(self.ctx, index)?.ok_or_else(|| {
            refuse(OperatorError::value(
                self.operator,
                format!("input {name} is missing"),
            ))
        })?;
        let found = value.shape();
        if found.len() != rank {
            return Err(refuse(OperatorError::Shape {
                operator: self.operator,
                input: name,
                expected: format!("{rank} dimensions"),
                found: found.to_vec(),
            }));
        }
        Ok(Input {
            operator: self.operator,
            name,
            value,
        })
    }
}

/// One input with the right number of dimensions.
pub(super) struct Input<'c> {
    operator: &'static str,
    name: &'static str,
    value: Tensor<'c>,
}

impl<'c> Input<'c> {
    pub(super) fn dim(&self, axis: usize) -> usize {
        usize::try_from(self.value.shape()[axis]).unwrap_or(0)
    }

    pub(super) fn data<T: Number>(&self) -> ort::Result<&'c [T]> {
        self.value.numbers()
    }

    /// Refuses the input unless its sizes are `expected` (named `symbols` in messages).
    pub(super) fn expect(&self, expected: &[usize], symbols: &str) -> ort::Result<()> {
        if (0..expected.len()).all(|axis| self.dim(axis) == expected[axis]) {
            return Ok(());
        }
        Err(refuse(OperatorError::Shape {
            operator: self.operator,
            input: self.name,
            expected: format!("{symbols} = {expected:?}"),
            found: self.value.shape().to_vec(),
        }))
    }
}

pub(super) fn refuse(error: OperatorError) -> ort::Error {
    ort::Error::wrap(error)
}

/// Allocates output `index` of any number of dimensions.
pub(super) fn allocate<const R: usize>(
    ctx: &ComputeContext,
    index: usize,
    shape: [usize; R],
) -> ort::Result<Output<'_>> {
    Output::allocate(ctx, index, &shape.map(|d| i64::try_from(d).unwrap_or(i64::MAX)))
}

pub(super) fn required_inputs(types: &[TensorElementType]) -> Vec<OperatorInput> {
    types.iter().map(|t| OperatorInput::required(*t)).collect()
}

pub(super) fn required_outputs(count: usize) -> Vec<OperatorOutput> {
    (0..count)
        .map(|_| OperatorOutput::required(TensorElementType::Float32))
        .collect()
}

/// Declares that output `to` has the type and shape of input `from`; says nothing when the graph does not
/// know that shape.
pub(super) fn same_shape(
    ctx: &mut ShapeInferenceContext,
    from: usize,
    to: usize,
    rank: usize,
) -> ort::Result<()> {
    let inputs = ctx.inputs();
    match inputs.get(from) {
        Some(value @ ValueType::Tensor { shape, .. }) if shape.len() == rank => ctx.set_output(to, value),
        _ => Ok(()),
    }
}

/// ONNX Runtime's own thread pool. A panic must not unwind into it: it becomes an error.
struct ThreadPool<'c> {
    ctx: &'c ComputeContext,
    failed: AtomicBool,
}

impl Parallel for ThreadPool<'_> {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let failed = &self.failed;
        let guarded = |index: usize| {
            if catch_unwind(AssertUnwindSafe(|| task(index))).is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        };
        if tasks <= 1 {
            (0..tasks).for_each(guarded);
        } else if self.ctx.par_for(tasks, 0, guarded).is_err() {
            failed.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs a kernel on ONNX Runtime's threads; refusals and panics become errors of the session's run.
pub(super) fn guard(
    operator: &'static str,
    ctx: &ComputeContext,
    kernel: impl FnOnce(&dyn Parallel) -> ort::Result<()>,
) -> ort::Result<()> {
    let pool = ThreadPool {
        ctx,
        failed: AtomicBool::new(false),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| kernel(&pool)));
    let failed = pool.failed.load(Ordering::Relaxed);
    match outcome {
        Ok(result) if !failed => result,
        _ => Err(refuse(OperatorError::value(operator, "the kernel failed"))),
    }
}
