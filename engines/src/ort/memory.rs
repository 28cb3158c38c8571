//! Host memory that the library reads and writes in place.
//!
//! A [`Tensor`] owns its bytes and one value of the library that points at them. The value is made anew when the
//! shape changes and only then, so a steady round makes none.

#![expect(unsafe_code, reason = "raw host memory shared with the ONNX Runtime library")]

use ort::sys::{ONNXTensorElementDataType as Kind, OrtMemoryInfo, OrtValue};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

/// Alignment of tensors: a cache line, and more than any vector register needs.
const ALIGN: usize = 64;

/// Element types of graph values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F16,
    Bf16,
    I64,
    Bool,
    U8,
}

impl Element {
    pub(super) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I64 => 8,
            Self::Bool | Self::U8 => 1,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::F32 => Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
            Self::F16 => Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
            Self::Bf16 => Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
            Self::I64 => Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
            Self::Bool => Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
            Self::U8 => Kind::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
        }
    }
}

/// A value of the library over memory that somebody else owns.
#[derive(Debug)]
pub(super) struct Value(NonNull<OrtValue>);

// SAFETY: a value is a handle without thread affinity; it is only read while a run borrows it.
unsafe impl Send for Value {}
// SAFETY: as above; no method changes it through a shared reference.
unsafe impl Sync for Value {}

impl Value {
    /// A value of shape `dims` over `bytes` bytes at `data`.
    ///
    /// # Safety
    /// `data` must stay valid for as long as a run uses the value, for writes too when it is bound as an output, and
    /// hold the product of `dims` elements.
    pub(super) unsafe fn over(
        data: *mut u8,
        bytes: usize,
        element: Element,
        dims: &[usize],
    ) -> Result<Self, ort::Error> {
        let mut shape = [0i64; 8];
        let rank = dims.len().min(shape.len());
        for (to, from) in shape.iter_mut().zip(dims) {
            *to = *from as i64;
        }
        let mut value: *mut OrtValue = null_mut();
        // SAFETY: the pointers are valid for the call, `shape` holds `rank` numbers, and the memory is the caller's promise.
        unsafe {
            ort::Error::result_from_status((ort::api().CreateTensorWithDataAsOrtValue)(
                memory_info()?,
                data.cast::<c_void>(),
                bytes,
                shape.as_ptr(),
                rank,
                element.kind(),
                &raw mut value,
            ))?;
        }
        NonNull::new(value)
            .map(Self)
            .ok_or_else(|| ort::Error::new("the library returned no value"))
    }

    pub(super) fn as_ptr(&self) -> *mut OrtValue {
        self.0.as_ptr()
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: this handle owns the value, which does not own the memory it points at.
        unsafe { (ort::api().ReleaseValue)(self.0.as_ptr()) };
    }
}

/// Describes plain host memory to the library; made once, never released.
fn memory_info() -> Result<*const OrtMemoryInfo, ort::Error> {
    struct Info(*const OrtMemoryInfo);
    // SAFETY: the description is immutable once made.
    unsafe impl Send for Info {}
    // SAFETY: as above.
    unsafe impl Sync for Info {}
    static INFO: OnceLock<Info> = OnceLock::new();
    if let Some(info) = INFO.get() {
        return Ok(info.0);
    }
    let mut info: *mut OrtMemoryInfo = null_mut();
    // SAFETY: `info` is a valid place for the result.
    unsafe {
        ort::Error::result_from_status((ort::api().CreateCpuMemoryInfo)(
            ort::sys::OrtAllocatorType::OrtDeviceAllocator,
            ort::sys::OrtMemType::OrtMemTypeDefault,
            &raw mut info,
        ))?;
    }
    Ok(INFO.get_or_init(|| Info(info)).0)
}

/// A row-major tensor in host memory. The first dimension counts rows.
#[derive(Debug)]
pub(super) struct Tensor {
    data: NonNull<u8>,
    capacity: usize,
    element: Element,
    dims: [usize; 3],
    rank: usize,
    value: Option<Value>,
}

// SAFETY: the memory is owned and only reached through the tensor's own borrows.
unsafe impl Send for Tensor {}
// SAFETY: shared borrows only read.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// A tensor of `dims` (rank 1 to 3), all zero.
    pub(super) fn new(element: Element, dims: &[usize]) -> Result<Self, ort::Error> {
        let mut tensor = Self {
            data: NonNull::dangling(),
            capacity: 0,
            element,
            dims: [1; 3],
            rank: dims.len().min(3),
            value: None,
        };
        tensor.reshape(dims)?;
        Ok(tensor)
    }

    pub(super) fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    pub(super) fn element(&self) -> Element {
        self.element
    }

    pub(super) fn rows(&self) -> usize {
        self.dims[0]
    }

    /// Numbers in one row.
    pub(super) fn width(&self) -> usize {
        self.dims[1] * self.dims[2]
    }

    /// Bytes in one row.
    pub(super) fn row_bytes(&self) -> usize {
        self.width() * self.element.size()
    }

    fn used(&self) -> usize {
        self.rows() * self.row_bytes()
    }

    /// Gives the tensor other dimensions of the same rank. What it held stays where it lies; new memory is zero.
    pub(super) fn reshape(&mut self, dims: &[usize]) -> Result<(), ort::Error> {
        if self.value.is_some() && self.dims() == dims {
            return Ok(());
        }
        let bytes = dims
            .iter()
            .try_fold(self.element.size(), |a, d| a.checked_mul(*d));
        let Some(bytes) = bytes.filter(|b| *b <= isize::MAX as usize - ALIGN) else {
            return Err(ort::Error::new(format!(
                "a tensor of {dims:?} does not fit memory"
            )));
        };
        self.value = None;
        self.reserve(bytes)?;
        self.dims = [1; 3];
        for (to, from) in self.dims.iter_mut().zip(dims) {
            *to = *from;
        }
        // SAFETY: `data` holds `bytes` bytes for as long as the tensor lives, and the value goes first when it is moved.
        self.value = Some(unsafe { Value::over(self.data.as_ptr(), bytes, self.element, dims) }?);
        Ok(())
    }

    /// Changes the number of rows, keeping the leading ones.
    pub(super) fn set_rows(&mut self, rows: usize) -> Result<(), ort::Error> {
        let (mut dims, rank) = (self.dims, self.rank);
        dims[0] = rows;
        self.reshape(&dims[..rank])
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), ort::Error> {
        if bytes <= self.capacity && self.capacity > 0 {
            return Ok(());
        }
        let capacity = bytes.max(ALIGN).next_multiple_of(ALIGN);
        let missing = || ort::Error::new(format!("{capacity} bytes of memory cannot be had"));
        let layout = Layout::from_size_align(capacity, ALIGN).map_err(|_| missing())?;
        // SAFETY: the layout has a size above zero.
        let data = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(missing)?;
        // SAFETY: both regions hold `self.capacity` bytes and the new one was just made.
        unsafe {
            data.as_ptr()
                .copy_from_nonoverlapping(self.data.as_ptr(), self.capacity)
        };
        self.release();
        (self.data, self.capacity) = (data, capacity);
        Ok(())
    }

    fn release(&mut self) {
        if self.capacity > 0
            && let Ok(layout) = Layout::from_size_align(self.capacity, ALIGN)
        {
            // SAFETY: allocated in `reserve` with this layout.
            unsafe { dealloc(self.data.as_ptr(), layout) };
        }
        self.capacity = 0;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `capacity >= used` bytes are initialised (zeroed on growth) and borrowed with the tensor.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.used()) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.used()) }
    }

    /// The numbers, for a tensor whose elements are `T`; empty otherwise.
    pub(super) fn numbers<T: bytemuck::AnyBitPattern>(&self) -> &[T] {
        bytemuck::try_cast_slice(self.bytes()).unwrap_or_default()
    }

    /// The numbers to write; empty for another type.
    pub(super) fn numbers_mut<T: bytemuck::NoUninit + bytemuck::AnyBitPattern>(&mut self) -> &mut [T] {
        bytemuck::try_cast_slice_mut(self.bytes_mut()).unwrap_or_default()
    }

    /// Copies rows `path` of `from` into the rows from `at` on. Both have rows of the same size.
    pub(super) fn copy_rows(&mut self, at: usize, from: &Self, path: &[u32]) {
        let width = self.row_bytes();
        let source = from.bytes();
        for (to, row) in self.bytes_mut()[at * width..].chunks_exact_mut(width).zip(path) {
            to.copy_from_slice(&source[*row as usize * width..][..width]);
        }
    }

    /// The library's view of the tensor.
    pub(super) fn value(&self) -> *mut OrtValue {
        self.value.as_ref().map_or(null_mut(), Value::as_ptr)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        self.value = None;
        self.release();
    }
}

/// Borrowed float32 rows as a tensor of the library, without a copy.
#[derive(Debug)]
pub(super) struct View<'a> {
    value: Value,
    borrowed: PhantomData<&'a mut [f32]>,
}

impl<'a> View<'a> {
    /// `[rows, width]` to read.
    pub(super) fn read(numbers: &'a [f32], dims: [usize; 2]) -> Result<Self, ort::Error> {
        Self::over(numbers.as_ptr().cast_mut(), numbers.len(), dims)
    }

    /// `[rows, width]` to write.
    pub(super) fn write(numbers: &'a mut [f32], dims: [usize; 2]) -> Result<Self, ort::Error> {
        Self::over(numbers.as_mut_ptr(), numbers.len(), dims)
    }

    fn over(data: *mut f32, len: usize, dims: [usize; 2]) -> Result<Self, ort::Error> {
        if dims[0] * dims[1] != len {
            return Err(ort::Error::new(format!("{len} numbers do not make {dims:?}")));
        }
        // SAFETY: `data` holds `len` numbers for as long as `'a` borrows them; a view made by `read` is never an output.
        let value = unsafe { Value::over(data.cast(), len * size_of::<f32>(), Element::F32, &dims) }?;
        Ok(Self {
            value,
            borrowed: PhantomData,
        })
    }

    pub(super) fn value(&self) -> *mut OrtValue {
        self.value.as_ptr()
    }
}
