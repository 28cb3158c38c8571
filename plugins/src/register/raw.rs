//! Tensors of a kernel's call, straight from the C interface.
//!
//! The safe wrapper makes some ten objects for every tensor (memory information, shape, names of dimensions): several
//! hundred nanoseconds each, more than many a kernel takes for one row. Here a tensor is its dimensions and a pointer.

#![expect(unsafe_code, reason = "calls of the ONNX Runtime C interface")]

use ort::AsPointer;
use ort::operator::ComputeContext;
use ort::sys::{ONNXTensorElementDataType as Kind, OrtTensorTypeAndShapeInfo, OrtValue};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{null, null_mut};

/// Most dimensions of an operator's tensor.
const MAX_RANK: usize = 8;

/// A type of numbers that tensors hold.
pub(super) trait Number: Copy + 'static {
    const KIND: Kind;
}

impl Number for f32 {
    const KIND: Kind = Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

impl Number for u8 {
    const KIND: Kind = Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
}

impl Number for i64 {
    const KIND: Kind = Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
}

impl Number for bool {
    const KIND: Kind = Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
}

/// An input of a call.
#[derive(Clone, Copy)]
pub(super) struct Tensor<'c> {
    dims: [i64; MAX_RANK],
    rank: usize,
    kind: Kind,
    data: *const u8,
    call: PhantomData<&'c ComputeContext>,
}

/// The shape of a value; freed at the end.
struct Info(*mut OrtTensorTypeAndShapeInfo);

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made by `GetTensorTypeAndShape`, and not used any more.
        unsafe { (ort::api().ReleaseTensorTypeAndShapeInfo)(self.0) };
    }
}

impl<'c> Tensor<'c> {
    /// Input `index`; none where the node leaves it out.
    pub(super) fn input(ctx: &'c ComputeContext, index: usize) -> ort::Result<Option<Self>> {
        let api = ort::api();
        let mut value: *const OrtValue = null();
        // SAFETY: the context is that of the running call; the library checks the index.
        let status = unsafe { (api.KernelContext_GetInput)(ctx.ptr(), index, &mut value) };
        // SAFETY: a status that the library just returned.
        unsafe { ort::Error::result_from_status(status) }?;
        if value.is_null() {
            return Ok(None);
        }
        let mut info = Info(null_mut());
        // SAFETY: a live value; the library refuses one that is no tensor.
        unsafe { ort::Error::result_from_status((api.GetTensorTypeAndShape)(value, &mut info.0)) }?;
        let (mut rank, mut kind) = (0, Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
        // SAFETY: `info` is live; the results are written to variables of the right types.
        unsafe {
            ort::Error::result_from_status((api.GetDimensionsCount)(info.0, &mut rank))?;
            ort::Error::result_from_status((api.GetTensorElementType)(info.0, &mut kind))?;
        }
        if rank > MAX_RANK {
            return Err(ort::Error::new(format!("input {index} has {rank} dimensions")));
        }
        let mut dims = [0; MAX_RANK];
        let mut data = null_mut();
        // SAFETY: `dims` has room for `rank` numbers; the data of an input are only read.
        unsafe {
            ort::Error::result_from_status((api.GetDimensions)(info.0, dims.as_mut_ptr(), rank))?;
            ort::Error::result_from_status((api.GetTensorMutableData)(value.cast_mut(), &mut data))?;
        }
        Ok(Some(Self {
            dims,
            rank,
            kind,
            data: data.cast(),
            call: PhantomData,
        }))
    }

    /// Dimensions.
    pub(super) fn shape(&self) -> &[i64] {
        &self.dims[..self.rank]
    }

    /// The numbers.
    pub(super) fn numbers<T: Number>(&self) -> ort::Result<&'c [T]> {
        if self.kind != T::KIND {
            return Err(ort::Error::new(format!(
                "a tensor of type {:?}, expected {:?}",
                self.kind,
                T::KIND
            )));
        }
        let sizes = self.shape().iter().map(|d| usize::try_from(*d).unwrap_or(0));
        match sizes.product() {
            0 => Ok(&[]),
            // SAFETY: the library says that so many numbers of this type lie there; inputs live for the call, and no
            // kernel writes to them.
            len => Ok(unsafe { std::slice::from_raw_parts(self.data.cast(), len) }),
        }
    }
}

/// An output of a call, float32.
pub(super) struct Output<'c> {
    data: *mut f32,
    len: usize,
    call: PhantomData<&'c ComputeContext>,
}

impl<'c> Output<'c> {
    /// Allocates output `index` with `shape`. A kernel asks once for each.
    pub(super) fn allocate(ctx: &'c ComputeContext, index: usize, shape: &[i64]) -> ort::Result<Self> {
        let api = ort::api();
        let mut value: *mut OrtValue = null_mut();
        let mut data = null_mut();
        // SAFETY: the context is that of the running call; the library checks index and shape.
        unsafe {
            let context = ctx.ptr().cast_mut();
            let status =
                (api.KernelContext_GetOutput)(context, index, shape.as_ptr(), shape.len(), &mut value);
            ort::Error::result_from_status(status)?;
            if value.is_null() {
                return Err(ort::Error::new(format!("output {index} is not allocated")));
            }
            ort::Error::result_from_status((api.GetTensorMutableData)(value, &mut data))?;
        }
        let sizes = shape.iter().map(|d| usize::try_from(*d).unwrap_or(0));
        Ok(Self {
            data: data.cast(),
            len: sizes.product(),
            call: PhantomData,
        })
    }
}

impl Deref for Output<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: as below.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl DerefMut for Output<'_> {
    fn deref_mut(&mut self) -> &mut [f32] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: all outputs are declared float32, so the library allocated so many of them for the length of the call, and
        // nothing else refers to them meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}
