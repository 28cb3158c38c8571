//! Weights as the library sees them: one value per stored tensor, shared by all graphs of a bundle.
//!
//! Files stay memory-mapped and are handed over as external initializers, so that target, drafter and tied head read
//! the same bytes. A tensor that does not lie on a multiple of its element size is copied once.

#![expect(
    unsafe_code,
    reason = "memory-mapped weights handed to the ONNX Runtime library"
)]

use super::memory::{Element, Tensor, Value};
use crate::bundle::{Bundle, Map, OpenError};
use crate::manifest::{Dtype, Graph, TensorData};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::Arc;

/// Offset of a tensor in a file.
type Place = (String, u64);

/// Values over the mapped weights of a bundle.
#[derive(Debug, Default)]
pub(super) struct Weights {
    values: BTreeMap<Place, (TensorData, Value)>,
    // Dropped after the values that point into them.
    copies: Vec<Tensor>,
    _maps: Vec<Map>,
}

impl Weights {
    /// Values for every initializer of the graphs of `bundle`.
    pub(super) fn new(bundle: &Bundle) -> Result<Arc<Self>, OpenError> {
        let mut weights = Self {
            _maps: bundle.maps(),
            ..Self::default()
        };
        for graph in bundle.manifest.graphs.values() {
            let path = bundle.dir.join(&graph.file);
            for initializer in &graph.initializers {
                let refuse = |reason: String| OpenError::Graph {
                    path: path.clone(),
                    reason: format!("initializer {:?}: {reason}", initializer.name),
                };
                weights.add(bundle, &initializer.data).map_err(refuse)?;
            }
        }
        Ok(Arc::new(weights))
    }

    fn add(&mut self, bundle: &Bundle, data: &TensorData) -> Result<(), String> {
        let place = (data.file.clone(), data.offset);
        if let Some((known, _)) = self.values.get(&place) {
            let same = known == data;
            return if same {
                Ok(())
            } else {
                Err(format!("two views of {:?} at {}", data.file, data.offset))
            };
        }
        if data.shape.len() > 8 || data.length == 0 {
            return Err(format!("a tensor of shape {:?}", data.shape));
        }
        let element = element(data.dtype);
        let bytes = bundle.bytes(data);
        if bytes.len() as u64 != data.length {
            return Err(format!("{:?} is too short", data.file));
        }
        let mut pointer = bytes.as_ptr().cast_mut();
        if !pointer.addr().is_multiple_of(element.size()) {
            let numbers = bytes.len() / element.size();
            let mut copy = Tensor::new(element, &[numbers]).map_err(|e| e.to_string())?;
            copy.bytes_mut().copy_from_slice(bytes);
            pointer = copy.bytes_mut().as_mut_ptr();
            self.copies.push(copy);
        }
        // SAFETY: the bytes lie in a mapping or copy that `self` keeps; the library only reads initializers.
        let value =
            unsafe { Value::over(pointer, bytes.len(), element, &data.shape) }.map_err(|e| e.to_string())?;
        self.values.insert(place, (data.clone(), value));
        Ok(())
    }

    /// Hands the initializers of `graph` to a session under construction.
    ///
    /// A shared initializer is read where it lies. The library still wants to see the file that the model names; where that is
    /// not in the bundle's folder (a checkpoint used in place), the value also stands in for the file, which the library
    /// copies for as long as it loads.
    pub(super) fn hand_over(
        &self,
        graph: &Graph,
        path: &Path,
        builder: &mut ort::session::builder::SessionBuilder,
    ) -> Result<(), OpenError> {
        use ort::AsPointer;
        let refuse = |reason: String| OpenError::Graph {
            path: path.to_path_buf(),
            reason,
        };
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        let mut values: Vec<*const ort::sys::OrtValue> = Vec::new();
        for initializer in &graph.initializers {
            let name = CString::new(initializer.name.as_str())
                .map_err(|_| refuse(format!("initializer {:?}: a NUL in the name", initializer.name)))?;
            if !seen.insert(name.clone()) {
                return Err(refuse(format!(
                    "initializer {:?} is listed twice",
                    initializer.name
                )));
            }
            let place = (initializer.data.file.clone(), initializer.data.offset);
            let Some((_, value)) = self.values.get(&place) else {
                continue;
            };
            // SAFETY: live name and value; the session keeps `self` (see `Graph`), and so the value.
            let status = unsafe {
                ort::Error::result_from_status((ort::api().AddInitializer)(
                    builder.ptr_mut(),
                    name.as_ptr(),
                    value.as_ptr().cast_const(),
                ))
            };
            status.map_err(|e| refuse(e.to_string()))?;
            if !path.with_file_name(&initializer.data.file).is_file() {
                names.push(name);
                values.push(value.as_ptr().cast_const());
            }
        }
        if values.is_empty() {
            return Ok(());
        }
        let pointers: Vec<*const c_char> = names.iter().map(|n| n.as_ptr()).collect();
        // SAFETY: both lists hold as many live pointers as said; the session keeps `self` (see `Graph`).
        let status = unsafe {
            ort::Error::result_from_status((ort::api().AddExternalInitializers)(
                builder.ptr_mut(),
                pointers.as_ptr(),
                values.as_ptr(),
                values.len(),
            ))
        };
        status.map_err(|e| refuse(e.to_string()))
    }
}

/// The element type of stored numbers.
pub(super) fn element(dtype: Dtype) -> Element {
    match dtype {
        Dtype::F32 => Element::F32,
        Dtype::F16 => Element::F16,
        Dtype::Bf16 => Element::Bf16,
        Dtype::Int8 | Dtype::Int4 => Element::U8,
    }
}
