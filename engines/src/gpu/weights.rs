//! Weights: every stored tensor goes to the GPU once, and all plans are bound to that copy.

use super::device::{ALIGN, Address, Device};
use super::error::GpuError;
use super::lane::{Lane, Staging};
use super::{Listener, Progress};
use crate::bundle::Bundle;
use crate::engine::{Engine, graph_of, weight_of};
use crate::manifest::{Dtype, Initializer, TensorData};
use half::{bf16, f16};
use std::collections::BTreeMap;

/// Bytes of a staging block, and their number.
const BLOCK: usize = 4 << 20;
const BLOCKS: usize = 4;

/// What tells stored tensors apart: the bundle, the file, the first byte, and the type that plans take it as.
type Place = (usize, String, u64, &'static str);

/// The bundles that weights come from: the target's, and the drafter's where it is another.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) target: Bundle,
    pub(super) drafter: Option<Bundle>,
}

impl Sources {
    /// The tensor that is bound to `weight` of the plan of `stage`, and the number of its bundle.
    fn find(&self, stage: &str, weight: &Initializer) -> Result<(usize, &TensorData), GpuError> {
        let own = matches!(graph_of(stage), "context" | "draft") && weight.name != crate::engine::EMBEDDING;
        let (number, bundle) = match &self.drafter {
            Some(drafter) if own => (1, drafter),
            _ => (0, &self.target),
        };
        let tensor =
            weight_of(bundle, stage, &weight.name).ok_or_else(|| mismatch(stage, weight, "is not in it"))?;
        if tensor.shape != weight.data.shape {
            return Err(mismatch(stage, weight, &format!("has shape {:?}", tensor.shape)));
        }
        Ok((number, tensor))
    }

    fn bytes(&self, number: usize, tensor: &TensorData) -> &[u8] {
        let bundle = self.drafter.as_ref().filter(|_| number == 1);
        bundle.unwrap_or(&self.target).bytes(tensor)
    }
}

fn mismatch(stage: &str, weight: &Initializer, what: &str) -> GpuError {
    GpuError::Mismatch {
        reason: format!(
            "the bundle does not fit the engine: weight {:?} of {stage} {what}",
            weight.name
        ),
        hint: "name the bundle that the engine was built from, or build the engine again".to_owned(),
    }
}

/// A tensor on its way to the GPU.
#[derive(Debug)]
struct Upload {
    tensor: TensorData,
    dtype: Dtype,
}

impl Upload {
    fn bytes(&self) -> u64 {
        self.tensor.length / self.tensor.dtype.size() as u64 * self.dtype.size() as u64
    }
}

/// Addresses of the weights of every plan, in the order of `Plan::weights`.
#[derive(Debug, Default)]
pub(super) struct Weights {
    /// By plan.
    pub(super) addresses: BTreeMap<String, Vec<Address>>,
    /// Bytes on the GPU.
    pub(super) bytes: u64,
}

impl Weights {
    /// Uploads what the plans of `engine` need of `sources`.
    pub(super) fn upload<D: Device>(
        lane: &mut Lane<D>,
        engine: &Engine,
        sources: &Sources,
        listener: &mut Listener<'_>,
    ) -> Result<Self, GpuError> {
        let mut uploads: BTreeMap<Place, Upload> = BTreeMap::new();
        let mut places: BTreeMap<String, Vec<Place>> = BTreeMap::new();
        for (stage, plan) in &engine.plans {
            let list = places.entry(stage.clone()).or_default();
            for weight in &plan.weights {
                let (number, tensor) = sources.find(stage, weight)?;
                let dtype = weight.data.dtype;
                let place = (number, tensor.file.clone(), tensor.offset, dtype.name());
                let known = uploads.entry(place.clone()).or_insert_with(|| Upload {
                    tensor: tensor.clone(),
                    dtype,
                });
                // Two views of one place: the longer one holds the other.
                if known.tensor.length < tensor.length {
                    known.tensor = tensor.clone();
                }
                list.push(place);
            }
        }
        let placed = send(lane, sources, &uploads, listener)?;
        let address = |place: &Place| placed.by_place.get(place).copied().unwrap_or(Address(0));
        let all = places
            .iter()
            .map(|(stage, list)| (stage.clone(), list.iter().map(address).collect()));
        Ok(Self {
            addresses: all.collect(),
            bytes: placed.bytes,
        })
    }
}

struct Placed {
    by_place: BTreeMap<Place, Address>,
    bytes: u64,
}

/// Uploads in the order of the files. A tensor inside the one before it shares its bytes where its address is aligned.
fn send<D: Device>(
    lane: &mut Lane<D>,
    sources: &Sources,
    uploads: &BTreeMap<Place, Upload>,
    listener: &mut Listener<'_>,
) -> Result<Placed, GpuError> {
    let device = |stage: &str| {
        let stage = stage.to_owned();
        move |reason| GpuError::Device { stage, reason }
    };
    let mut staging = Staging::new(lane, BLOCK, BLOCKS).map_err(device("pinned memory"))?;
    let total: u64 = uploads.values().map(Upload::bytes).sum();
    let (mut by_place, mut bytes, mut done) = (BTreeMap::new(), 0, 0);
    let mut last: Option<(&Place, &Upload, Address)> = None;
    let mut order: Vec<_> = uploads.iter().collect();
    order.sort_by_key(|((number, file, offset, dtype), _)| (*number, file.clone(), *dtype, *offset));
    for (place, upload) in order {
        let inside = last.and_then(|(p, u, at)| Some(at.at(inside((p, u), (place, upload))?)));
        let at = match inside {
            Some(at) => at,
            None => {
                let size = upload.bytes() as usize;
                let at = lane
                    .device
                    .allocate(size.max(1))
                    .map_err(|reason| GpuError::Memory {
                        what: format!("{total} bytes of weights, {bytes} placed"),
                        reason,
                    })?;
                let stored = sources.bytes(place.0, &upload.tensor);
                copy(lane, &mut staging, at, stored, upload).map_err(device("weights"))?;
                bytes += size as u64;
                last = Some((place, upload, at));
                at
            }
        };
        by_place.insert(place.clone(), at);
        done += upload.bytes();
        listener(&Progress::Weights { done, total });
    }
    // The staging blocks and the mapped files can go once all copies are done.
    lane.wait().map_err(device("weights"))?;
    Ok(Placed { by_place, bytes })
}

/// Where `tensor` begins inside `outer`, in bytes, if it lies there and can be bound there.
fn inside(outer: (&Place, &Upload), tensor: (&Place, &Upload)) -> Option<usize> {
    let ((a, file, start, dtype), outer) = outer;
    let ((b, other, from, kind), inner) = tensor;
    let same = a == b && file == other && dtype == kind && outer.tensor.dtype == inner.tensor.dtype;
    let end = start + outer.tensor.length;
    if !same || from < start || from + inner.tensor.length > end {
        return None;
    }
    let distance = (from - start) as usize / inner.tensor.dtype.size() * inner.dtype.size();
    distance.is_multiple_of(ALIGN).then_some(distance)
}

fn copy<D: Device>(
    lane: &mut Lane<D>,
    staging: &mut Staging,
    to: Address,
    stored: &[u8],
    upload: &Upload,
) -> Result<(), super::device::DeviceError> {
    let (from, into) = (upload.tensor.dtype, upload.dtype);
    if from == into {
        return staging.send(lane, to, stored);
    }
    let mut converted = Vec::with_capacity(BLOCK);
    let mut done = 0;
    for piece in stored.chunks(BLOCK / into.size() * from.size()) {
        converted.clear();
        convert(piece, from, into, &mut converted);
        staging.send(lane, to.at(done), &converted)?;
        done += converted.len();
    }
    Ok(())
}

/// Appends the numbers in `bytes` as another type, rounded to nearest.
pub(super) fn convert(bytes: &[u8], from: Dtype, into: Dtype, out: &mut Vec<u8>) {
    let mut push = |x: f32| match into {
        Dtype::F32 => out.extend_from_slice(&x.to_le_bytes()),
        Dtype::F16 => out.extend_from_slice(&f16::from_f32(x).to_le_bytes()),
        Dtype::Bf16 => out.extend_from_slice(&bf16::from_f32(x).to_le_bytes()),
    };
    match from {
        Dtype::F32 => super::lane::get_f32(bytes).for_each(&mut push),
        Dtype::F16 => bytes
            .chunks_exact(2)
            .for_each(|b| push(f16::from_le_bytes([b[0], b[1]]).to_f32())),
        Dtype::Bf16 => bytes
            .chunks_exact(2)
            .for_each(|b| push(bf16::from_le_bytes([b[0], b[1]]).to_f32())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(offset: u64, length: u64) -> (Place, Upload) {
        let tensor = TensorData {
            file: "w".to_owned(),
            offset,
            length,
            dtype: Dtype::Bf16,
            shape: vec![length as usize / 2],
        };
        let dtype = Dtype::Bf16;
        (
            (0, "w".to_owned(), offset, dtype.name()),
            Upload { tensor, dtype },
        )
    }

    #[test]
    fn a_tail_of_a_stack_shares_its_bytes_only_at_an_aligned_address() {
        let (a, stack) = upload(4096, 2048);
        for (offset, length, expected) in [(4608, 1536, Some(512)), (4610, 1024, None), (5120, 1026, None)] {
            let (b, tail) = upload(offset, length);
            assert_eq!(inside((&a, &stack), (&b, &tail)), expected, "{offset}+{length}");
        }
    }

    #[test]
    fn conversions_round_to_nearest_and_come_back() {
        let numbers = [1.0f32, -0.5, 3.140_625, 65_280.0];
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let (mut narrow, mut wide) = (Vec::new(), Vec::new());
            convert(&bytes, Dtype::F32, dtype, &mut narrow);
            assert_eq!(narrow.len(), bytes.len() / 2);
            convert(&narrow, dtype, Dtype::F32, &mut wide);
            assert_eq!(wide, bytes, "{}", dtype.name());
        }
    }
}
