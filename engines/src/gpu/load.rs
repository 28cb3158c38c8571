//! From an engine directory to a backend: files checked, plans loaded, weights uploaded, memory placed.

use super::buckets::Buckets;
use super::buffers::Buffers;
use super::caches::Caches;
use super::device::{Device, DeviceError};
use super::error::GpuError;
use super::head::{self, Head};
use super::lane::{Bounce, Lane, Staging, put_i64};
use super::stage::{Mode, Stage};
use super::target::{State, Target};
use super::weights::{Sources, Weights};
use super::{GpuBackend, GpuOptions, Listener, Progress, check, drafter};
use crate::backend::{LogitNeeds, Shape};
use crate::bundle::Bundle;
use crate::engine::{self, Engine, same_bundle};
use crate::manifest::{Dtype, Layer};
use std::collections::BTreeMap;
use std::path::Path;

/// Rows of full logits that one wait brings: those of the longest path.
const FULL_ROWS: usize = engine::PATH_ROWS;
/// Least size of the block that results come back through, and size of the blocks that states go through.
const BLOCK: usize = 1 << 20;

fn memory(what: &str) -> impl Fn(DeviceError) -> GpuError {
    let what = what.to_owned();
    move |reason| GpuError::Memory {
        what: what.clone(),
        reason,
    }
}

/// Opens the bundles with the weights of the engine in `dir`.
fn sources(dir: &Path, engine: &Engine, options: &GpuOptions) -> Result<Sources, GpuError> {
    let place = options
        .bundle
        .clone()
        .unwrap_or_else(|| dir.join(&engine.bundle.path));
    let target = Bundle::open(&place)?;
    same_bundle(engine, &target).map_err(|difference| GpuError::Mismatch {
        reason: format!("{}: {difference}", place.display()),
        hint: "name the bundle that the engine was built from, or build the engine again from this one"
            .to_owned(),
    })?;
    let drafter = options.drafter.as_deref().map(Bundle::open).transpose()?;
    if let Some(other) = &drafter {
        check::drafter(engine, &target, other)?;
    }
    Ok(Sources { target, drafter })
}

/// Reads, checks and loads every plan.
fn programs<D: Device>(
    lane: &mut Lane<D>,
    dir: &Path,
    engine: &Engine,
    listener: &mut Listener<'_>,
) -> Result<BTreeMap<String, D::Program>, GpuError> {
    let mut programs = BTreeMap::new();
    for (i, (stage, plan)) in engine.plans.iter().enumerate() {
        listener(&Progress::Plan {
            stage,
            number: i + 1,
            of: engine.plans.len(),
        });
        let path = dir.join(&plan.plan);
        let bytes = std::fs::read(&path).map_err(|source| engine::EngineError::Io {
            path: path.clone(),
            source,
        })?;
        let found = sha256(&bytes);
        if found != plan.sha256 {
            return Err(GpuError::Corrupt {
                path,
                what: "the plan is not the one that was built",
                expected: plan.sha256.clone(),
                found,
            });
        }
        let program = lane
            .device
            .load(stage, &bytes)
            .map_err(|reason| GpuError::Device {
                stage: path.display().to_string(),
                reason,
            })?;
        check::bindings::<D>(&path, plan, &program)?;
        programs.insert(stage.clone(), program);
    }
    Ok(programs)
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Stages that have not been handed out yet.
struct Stages<'a, D: Device> {
    engine: &'a Engine,
    programs: BTreeMap<String, D::Program>,
    weights: Weights,
}

impl<D: Device> Stages<'_, D> {
    fn find(&mut self, name: &str) -> Option<Stage<D>> {
        let program = self.programs.remove(name)?;
        let plan = self.engine.plans.get(name)?.clone();
        let weights = self.weights.addresses.remove(name)?;
        Some(Stage::new(name, plan, program, weights))
    }

    fn take(&mut self, name: &str) -> Result<Stage<D>, GpuError> {
        self.find(name).ok_or_else(|| GpuError::Device {
            stage: name.to_owned(),
            reason: DeviceError("the engine has no such plan".to_owned()),
        })
    }
}

fn shape(engine: &Engine, options: &GpuOptions) -> Result<Shape, GpuError> {
    let (model, limits) = (&engine.model, &engine.limits);
    let most = limits.context.min(model.max_context);
    let max_context = match options.max_context {
        Some(n) if n < 2 || n > most => {
            return Err(GpuError::Option(format!(
                "max context {n} is outside 2..={most} of this engine"
            )));
        }
        Some(n) => n,
        None => most,
    };
    Ok(Shape {
        vocab: model.target.vocab,
        hidden: model.target.hidden,
        tap_width: model.taps.len() * model.target.hidden,
        block: model.drafter.as_ref().map_or(0, |d| d.block),
        modes: model.drafter.as_ref().map_or(0, |d| d.modes),
        max_context,
        max_rows: limits.rows,
        prefill_rows: limits.prefill_rows,
    })
}

/// Both sides of the states of every DeltaNet layer: conv rows, then state.
fn states(engine: &Engine, buffers: &Buffers) -> Vec<State> {
    let layers = engine.model.target.layers.iter().enumerate();
    let hybrid = layers.filter(|(_, l)| matches!(l, Layer::DeltaNet(_)));
    let both = hybrid.flat_map(|(i, _)| {
        [
            (format!("conv.{i}"), engine.model.dtype),
            (format!("state.{i}"), Dtype::F32),
        ]
    });
    both.filter_map(|(name, dtype)| {
        let side = |s: usize| buffers.get(&format!("{name}@{s}"));
        Some(State {
            sides: [side(0)?, side(1)?],
            bytes: buffers.bytes(&format!("{name}@0")),
            dtype,
        })
    })
    .collect()
}

impl<D: Device> GpuBackend<D> {
    /// Opens the engine directory `dir` on `device`. The caller has checked that the engine fits it.
    ///
    /// # Errors
    /// The directory or a bundle is unusable, they do not go together, or the device fails or has no room.
    pub fn open(
        device: D,
        dir: &Path,
        options: &GpuOptions,
        listener: &mut Listener<'_>,
    ) -> Result<Self, GpuError> {
        let engine = engine::read(dir)?;
        let shape = shape(&engine, options)?;
        let sources = sources(dir, &engine, options)?;
        let mut lane = Lane::new(device);
        let programs = programs(&mut lane, dir, &engine, listener)?;
        let weights = Weights::upload(&mut lane, &engine, &sources, listener)?;
        tracing::info!(bytes = weights.bytes, "weights uploaded");
        let mut stages = Stages {
            engine: &engine,
            programs,
            weights,
        };
        let mode = if options.capture {
            Mode::Captured
        } else {
            Mode::Bound
        };
        Self::assemble(lane, &engine, &mut stages, shape, mode)
    }

    fn assemble(
        mut lane: Lane<D>,
        engine: &Engine,
        stages: &mut Stages<'_, D>,
        shape: Shape,
        mode: Mode,
    ) -> Result<Self, GpuError> {
        let buffers = Buffers::new(&mut lane, engine).map_err(memory("inputs and outputs"))?;
        let buckets = Buckets::of(engine);
        let caches = Caches::new(&mut lane, engine, &buffers, &buckets.contexts).map_err(memory("caches"))?;
        let bytes = (FULL_ROWS * shape.vocab * 4).max(BLOCK);
        let bounce = Bounce(lane.device.pin(bytes).map_err(memory("pinned memory"))?);
        let mut staging = Staging::new(&mut lane, BLOCK, 4).map_err(memory("pinned memory"))?;
        let parts = head::Parts {
            full: stages.take("head")?,
            top: stages.take("head_top")?,
            greedy: stages.take("head_greedy")?,
            vocab: shape.vocab,
            hidden: shape.hidden,
            drafted_rows: shape.modes * shape.block.saturating_sub(1),
            buckets: buckets.rows.clone(),
            mode,
        };
        let head = Head::new(&mut lane, parts, bounce).map_err(memory("head"))?;
        let target = Target {
            verify: stages.take("target")?,
            prefill: stages.take("prefill")?,
            commit: stages.find("commit"),
            states: states(engine, &buffers),
            side: 0,
            committed: 0,
            mode,
            buckets: buckets.clone(),
            rows: None,
            ancestors: Vec::with_capacity(shape.prefill_rows.pow(2).max(shape.max_rows.pow(2))),
        };
        let drafter = match &engine.model.drafter {
            Some(model) => {
                let rows = shape.prefill_rows.max(shape.max_rows);
                let mut order = vec![0; rows * 8];
                put_i64(&mut order, 0..rows as i64);
                let at = lane.device.allocate(order.len()).map_err(memory("drafter"))?;
                staging.send(&mut lane, at, &order).map_err(memory("drafter"))?;
                Some(drafter::Drafter::new(drafter::Parts {
                    context: stages.take("context")?,
                    draft: stages.take("draft")?,
                    shape: model.clone(),
                    vocab: shape.vocab,
                    mode,
                    buckets,
                    order: at,
                }))
            }
            None => None,
        };
        lane.wait().map_err(memory("start"))?;
        lane.syncs = 0;
        Ok(Self {
            target,
            head,
            drafter,
            caches,
            buffers,
            staging,
            bounce,
            shape,
            dtype: engine.model.dtype,
            needs: LogitNeeds::Full,
            drafting: false,
            row_copies: 0,
            lane,
        })
    }
}
