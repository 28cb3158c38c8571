//! Weights: every stored tensor goes to the GPU once, and all plans are bound to that copy.

use super::device::{ALIGN, Address, Device};
use super::error::GpuError;
use super::lane::{Lane, Staging};
use super::{Listener, Progress};
use crate::bundle::Bundle;
use crate::engine::{Engine, graph_of, pieces};
use crate::manifest::{Dtype, Initializer, TensorData};
use half::{bf16, f16};
use std::collections::BTreeMap;

/// Bytes of a staging block, and their number.
const BLOCK: usize = 4 << 20;
const BLOCKS: usize = 4;

/// What tells bindings apart: the bundle, the file and first byte of each piece, and the type that plans take it as.
type Place = (usize, Vec<(String, u64)>, &'static str);

/// The bundles that weights come from: the target's, and the drafter's where it is another.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) target: Bundle,
    pub(super) drafter: Option<Bundle>,
}

impl Sources {
    /// The tensors that, one after another, are bound to `weight` of the plan of `stage`, and the number of their bundle.
    fn find(
        &self,
        stage: &str,
        weight: &Initializer,
        list: &[Initializer],
    ) -> Result<(usize, Vec<TensorData>), GpuError> {
        let own = matches!(graph_of(stage), "context" | "draft") && weight.name != crate::engine::EMBEDDING;
        let (number, bundle) = match &self.drafter {
            Some(drafter) if own => (1, drafter),
            _ => (0, &self.target),
        };
        let found = pieces(bundle, stage, weight, list).map_err(|reason| mismatch(&bundle.dir, &reason))?;
        let numbers: u64 = found.iter().map(|t| t.length / t.dtype.size() as u64).sum();
        if numbers != weight.data.length / weight.data.dtype.size() as u64 {
            let reason = format!("{stage}: weight {:?} has {numbers} numbers", weight.name);
            return Err(mismatch(&bundle.dir, &reason));
        }
        Ok((number, found))
    }

    fn bytes(&self, number: usize, tensor: &TensorData) -> &[u8] {
        let bundle = self.drafter.as_ref().filter(|_| number == 1);
        bundle.unwrap_or(&self.target).bytes(tensor)
    }
}

fn mismatch(dir: &std::path::Path, reason: &str) -> GpuError {
    GpuError::Mismatch {
        reason: format!("{}: {reason}", dir.display()),
        hint: "name the bundle that the engine was built from, or build the engine again".to_owned(),
    }
}

/// A binding on its way to the GPU.
#[derive(Debug)]
struct Upload {
    pieces: Vec<TensorData>,
    dtype: Dtype,
}

impl Upload {
    fn bytes(&self) -> u64 {
        let numbers = self.pieces.iter().map(|t| t.length / t.dtype.size() as u64);
        numbers.sum::<u64>() * self.dtype.size() as u64
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
                let (number, found) = sources.find(stage, weight, &plan.weights)?;
                let dtype = weight.data.dtype;
                let starts = found.iter().map(|t| (t.file.clone(), t.offset)).collect();
                let place = (number, starts, dtype.name());
                let upload = Upload { pieces: found, dtype };
                match uploads.get_mut(&place) {
                    // Two views of one place: the longer one holds the other.
                    Some(known) if known.bytes() < upload.bytes() => *known = upload,
                    Some(_) => {}
                    None => drop(uploads.insert(place.clone(), upload)),
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
    for (place, upload) in uploads {
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
                let mut to = at;
                for piece in &upload.pieces {
                    let stored = sources.bytes(place.0, piece);
                    to = copy(lane, &mut staging, to, stored, piece.dtype, upload.dtype)
                        .map_err(device("weights"))?;
                }
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

/// Where `tensor` begins inside `outer`, in bytes, if both are one piece, it lies there and can be bound there.
fn inside(outer: (&Place, &Upload), tensor: (&Place, &Upload)) -> Option<usize> {
    let ((a, _, dtype), outer) = outer;
    let ((b, _, kind), tensor) = tensor;
    let ([whole], [part]) = (&outer.pieces[..], &tensor.pieces[..]) else {
        return None;
    };
    let same = a == b && whole.file == part.file && dtype == kind && whole.dtype == part.dtype;
    let end = whole.offset + whole.length;
    if !same || part.offset < whole.offset || part.offset + part.length > end {
        return None;
    }
    let numbers = (part.offset - whole.offset) as usize / part.dtype.size();
    let distance = numbers * tensor.dtype.size();
    distance.is_multiple_of(ALIGN).then_some(distance)
}

/// Copies stored numbers to the device, as another type where that is asked for; gives the address behind them.
fn copy<D: Device>(
    lane: &mut Lane<D>,
    staging: &mut Staging,
    to: Address,
    stored: &[u8],
    from: Dtype,
    into: Dtype,
) -> Result<Address, super::device::DeviceError> {
    if from == into {
        staging.send(lane, to, stored)?;
        return Ok(to.at(stored.len()));
    }
    let mut converted = Vec::with_capacity(BLOCK);
    let mut to = to;
    for piece in stored.chunks(BLOCK / into.size() * from.size()) {
        converted.clear();
        convert(piece, from, into, &mut converted);
        staging.send(lane, to, &converted)?;
        to = to.at(converted.len());
    }
    Ok(to)
}

/// Appends the numbers in `bytes` as another type, rounded to nearest.
pub(super) fn convert(bytes: &[u8], from: Dtype, into: Dtype, out: &mut Vec<u8>) {
    let mut push = |x: f32| match into {
        Dtype::F32 => out.extend_from_slice(&x.to_le_bytes()),
        Dtype::F16 => out.extend_from_slice(&f16::from_f32(x).to_le_bytes()),
        Dtype::Bf16 => out.extend_from_slice(&bf16::from_f32(x).to_le_bytes()),
        // Builds refuse quantised bundles.
        Dtype::Int8 | Dtype::Int4 => {}
    };
    match from {
        Dtype::F32 => super::lane::get_f32(bytes).for_each(&mut push),
        Dtype::F16 => bytes
            .chunks_exact(2)
            .for_each(|b| push(f16::from_le_bytes([b[0], b[1]]).to_f32())),
        Dtype::Bf16 => bytes
            .chunks_exact(2)
            .for_each(|b| push(bf16::from_le_bytes([b[0], b[1]]).to_f32())),
        Dtype::Int8 | Dtype::Int4 => {}
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
        let place = (0, vec![("w".to_owned(), offset)], dtype.name());
        let pieces = vec![tensor];
        (place, Upload { pieces, dtype })
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
