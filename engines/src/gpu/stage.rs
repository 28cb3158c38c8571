//! A plan with everything that it is bound to, and its captured graphs.

use super::device::{Address, Device, DeviceError, Program, Slot};
use super::lane::Lane;
use crate::backend::BackendError;
use crate::engine::{Axis, Plan, Port};
use std::collections::BTreeMap;
use std::time::Instant;

/// What has been done with a slot.
enum State<G> {
    /// Bound and run once: the library has done its first-run work.
    Warm,
    /// Recorded.
    Captured(G),
}

/// How a run is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Shapes and addresses of a slot never change: recorded at its second run, launched from then on.
    Captured,
    /// The same, without a recording.
    Bound,
    /// They may be others at every run.
    Varying,
}

/// A plan.
pub(super) struct Stage<D: Device> {
    name: String,
    // Before the program: graphs refer to its contexts.
    slots: BTreeMap<Slot, State<D::Graph>>,
    program: D::Program,
    plan: Plan,
    weights: Vec<Address>,
}

/// Size of the symbols of a run.
pub(super) type Sizes<'a> = &'a [(&'a str, usize)];

impl<D: Device> Stage<D> {
    /// `weights` are the addresses of `plan.weights`, in order.
    pub(super) fn new(name: &str, plan: Plan, program: D::Program, weights: Vec<Address>) -> Self {
        Self {
            name: name.to_owned(),
            slots: BTreeMap::new(),
            program,
            plan,
            weights,
        }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A profile that allows these sizes.
    pub(super) fn profile(&self, sizes: Sizes<'_>) -> Option<usize> {
        let allows = |(symbol, size): &(&str, usize), profile: &crate::engine::Sizes| {
            profile
                .get(*symbol)
                .is_some_and(|[min, _, max]| (min..=max).contains(&size))
        };
        let profiles = self.plan.profiles.iter();
        profiles
            .into_iter()
            .position(|p| sizes.iter().all(|s| allows(s, p)))
    }

    /// Queues a run. `variant` tells apart runs of one profile whose sizes or addresses differ; `address` gives the address of an
    /// input or output.
    pub(super) fn run(
        &mut self,
        lane: &mut Lane<D>,
        word: &'static str,
        variant: usize,
        mode: Mode,
        sizes: Sizes<'_>,
        address: &dyn Fn(&str) -> Option<Address>,
    ) -> Result<(), BackendError> {
        let Some(profile) = self.profile(sizes) else {
            let name = &self.name;
            return Err(BackendError::Limit(format!(
                "no profile of plan {name} allows {sizes:?}"
            )));
        };
        let slot = Slot {
            profile,
            variant,
            exact: mode != Mode::Varying,
        };
        let begin = Instant::now();
        let done = self.queue(&mut lane.device, slot, mode, sizes, address);
        lane.time += begin.elapsed();
        done.map_err(|error| BackendError::Run {
            stage: word,
            reason: format!("plan {}: {error}", self.name),
        })
    }

    fn queue(
        &mut self,
        device: &mut D,
        slot: Slot,
        mode: Mode,
        sizes: Sizes<'_>,
        address: &dyn Fn(&str) -> Option<Address>,
    ) -> Result<(), DeviceError> {
        match self.slots.get(&slot) {
            Some(State::Captured(graph)) => return device.launch(graph),
            Some(State::Warm) if mode == Mode::Captured => {
                let graph = self.capture(device, slot)?;
                device.launch(&graph)?;
                self.slots.insert(slot, State::Captured(graph));
                return Ok(());
            }
            Some(State::Warm) if mode == Mode::Bound => self.program.select(device, slot)?,
            _ => {
                self.program.select(device, slot)?;
                self.bind(sizes, address)?;
            }
        }
        self.program.enqueue(device)?;
        self.slots.entry(slot).or_insert(State::Warm);
        Ok(())
    }

    fn capture(&mut self, device: &mut D, slot: Slot) -> Result<D::Graph, DeviceError> {
        let context = |error: DeviceError| {
            DeviceError(format!(
                "CUDA graph capture failed: {error}; an engine opened without capture runs without graphs, slower"
            ))
        };
        self.program.select(device, slot)?;
        device.begin_capture().map_err(context)?;
        // A recording that was begun must be ended, whatever happened in between.
        let queued = self.program.enqueue(device);
        let graph = device.end_capture();
        queued.map_err(context)?;
        graph.map_err(context)
    }

    fn bind(
        &mut self,
        sizes: Sizes<'_>,
        address: &dyn Fn(&str) -> Option<Address>,
    ) -> Result<(), DeviceError> {
        let at = |name: &str| address(name).ok_or_else(|| DeviceError(format!("no memory for {name:?}")));
        for port in &self.plan.inputs {
            self.program.set_shape(&port.name, &shape(port, sizes)?)?;
            self.program.set_address(&port.name, at(&port.name)?)?;
        }
        for (weight, at) in self.plan.weights.iter().zip(&self.weights) {
            self.program.set_shape(&weight.name, &weight.data.shape)?;
            self.program.set_address(&weight.name, *at)?;
        }
        for port in &self.plan.outputs {
            self.program.set_address(&port.name, at(&port.name)?)?;
        }
        Ok(())
    }

    /// Forgets what is bound and recorded, because addresses change; the device must be idle.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.program.forget();
    }
}

/// The shape of a port.
fn shape(port: &Port, sizes: Sizes<'_>) -> Result<Vec<usize>, DeviceError> {
    let size = |axis: &Axis| match axis {
        Axis::Fixed(n) => Ok(*n),
        Axis::Symbol(s) => sizes
            .iter()
            .find(|(name, _)| name == s)
            .map(|(_, n)| *n)
            .ok_or_else(|| DeviceError(format!("no size for {s:?} of {:?}", port.name))),
    };
    port.shape.iter().map(size).collect()
}

/// Bytes of one element of a type of `engine.json`.
pub(super) fn element_bytes(dtype: &str) -> Option<usize> {
    match dtype {
        "f32" | "i32" => Some(4),
        "bf16" | "f16" => Some(2),
        "i64" => Some(8),
        "bool" => Some(1),
        _ => None,
    }
}

/// Bytes of a port at its largest, over all profiles of its plan; none when that overflows.
pub(super) fn largest_bytes(port: &Port, plan: &Plan) -> Option<usize> {
    let element = element_bytes(&port.dtype)?;
    let mut largest = 0;
    for sizes in &plan.profiles {
        let bytes = port.shape.iter().try_fold(element, |bytes, axis| {
            bytes.checked_mul(match axis {
                Axis::Fixed(n) => *n,
                Axis::Symbol(s) => sizes.get(s)?[2],
            })
        })?;
        largest = largest.max(bytes);
    }
    Some(largest)
}
