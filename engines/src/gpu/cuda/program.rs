//! A plan in TensorRT: one engine, and a context for every slot.
//!
//! A recorded graph stays valid only while its context keeps the shapes that it was recorded with, so slots with other
//! shapes have contexts of their own. All contexts work in one block of scratch memory, since they run one after another.

use super::Shared;
use super::driver::Cuda;
use crate::gpu::device::{Address, Binding, DeviceError, Program, Result, Slot};
use std::collections::BTreeMap;
use std::rc::Rc;
use trtx::trtx_sys::{Dims64, ExecutionContextAllocationStrategy, TensorIOMode, TensorLocation};
use trtx::{CudaEngine, DataType, ExecutionContext, RuntimeConfig};

/// A context, and whether its scratch memory fits its shapes.
struct Context {
    inner: ExecutionContext<'static>,
    sized: bool,
}

/// A loaded plan.
pub(in crate::gpu) struct Plan {
    // Contexts go before the configurations that they share, these before the engine, and that before the runtime.
    contexts: BTreeMap<Slot, Context>,
    now: Option<Slot>,
    /// For slots whose shapes never change, and for others.
    exact: Rc<RuntimeConfig<'static>>,
    varying: Rc<RuntimeConfig<'static>>,
    engine: CudaEngine<'static>,
    stage: String,
    shared: Rc<Shared>,
}

/// Element types by the names of `engine.json`.
fn dtype(kind: DataType) -> Option<&'static str> {
    Some(match kind {
        DataType::kFLOAT => "f32",
        DataType::kHALF => "f16",
        DataType::kBF16 => "bf16",
        DataType::kINT32 => "i32",
        DataType::kINT64 => "i64",
        DataType::kBOOL => "bool",
        _ => return None,
    })
}

/// How contexts are made. Scratch memory is ours, shared by all of them.
#[cfg_attr(not(feature = "tensorrt"), expect(unused_variables))]
fn config(
    engine: &mut CudaEngine<'static>,
    shared: &Shared,
    special: bool,
) -> trtx::Result<Rc<RuntimeConfig<'static>>> {
    let mut config = engine.create_runtime_config()?;
    config.set_execution_context_allocation_strategy(ExecutionContextAllocationStrategy::kUSER_MANAGED);
    #[cfg(feature = "tensorrt")]
    {
        use trtx::trtx_sys::DynamicShapesKernelSpecializationStrategy as Strategy;
        // A recording must not hold the fallback kernels that run until better ones are compiled, so these are compiled
        // at the first run. Where every run may have another shape that would cost more than it gains.
        let strategy = if special {
            Strategy::kEAGER
        } else {
            Strategy::kNONE
        };
        config.set_dynamic_shapes_kernel_specialization_strategy(strategy);
        config.set_runtime_cache(shared.cache(&config)?)?;
    }
    Ok(Rc::new(config))
}

/// Whether kernels are compiled for the shapes of exact slots. Not where each length of a path is a slot of its own: many
/// compilations would gain little on a few copies and small products.
fn special(stage: &str) -> bool {
    !["commit", "context"].contains(&stage)
}

impl Plan {
    pub(super) fn load(stage: &str, plan: &[u8], shared: Rc<Shared>) -> Result<Self> {
        let said = |e: trtx::Error| shared.log.error(&e);
        let engine = shared.runtime.borrow_mut().deserialize_cuda_engine(plan);
        let mut engine = engine.map_err(said)?;
        let exact = config(&mut engine, &shared, special(stage)).map_err(said)?;
        let varying = config(&mut engine, &shared, false).map_err(said)?;
        Ok(Self {
            contexts: BTreeMap::new(),
            now: None,
            exact,
            varying,
            engine,
            stage: stage.to_owned(),
            shared,
        })
    }

    fn context(&mut self) -> Result<&mut Context> {
        let now = self.now;
        now.and_then(|slot| self.contexts.get_mut(&slot))
            .ok_or_else(|| DeviceError(format!("plan {}: no slot is selected", self.stage)))
    }

    fn create(&mut self, slot: Slot) -> Result<Context> {
        let config = if slot.exact { &self.exact } else { &self.varying };
        let made = self
            .engine
            .create_execution_context_with_config(Rc::clone(config));
        let mut inner = made.map_err(|e| self.shared.log.error(&e))?;
        let profile = i32::try_from(slot.profile).unwrap_or(-1);
        let stream = self.shared.driver.stream.cast();
        // SAFETY: the stream lives as long as `shared`.
        if !unsafe { inner.set_optimization_profile_async(profile, stream) } {
            return Err(DeviceError(format!(
                "plan {} has no profile {profile}",
                self.stage
            )));
        }
        self.shared.compiled.set(true);
        Ok(Context { inner, sized: false })
    }
}

impl Program<Cuda> for Plan {
    fn bindings(&self) -> Result<Vec<Binding>> {
        let said = |e: trtx::Error| self.shared.log.error(&e);
        let count = self.engine.nb_io_tensors().map_err(said)?;
        let binding = |i: i32| {
            let name = self.engine.io_tensor_name(i).map_err(said)?;
            let kind = self.engine.tensor_data_type(&name).map_err(said)?;
            let location = self.engine.tensor_location(&name).map_err(said)?;
            if !matches!(location, TensorLocation::kDEVICE) {
                return Err(DeviceError(format!("{name:?} is wanted in host memory")));
            }
            let shape = self.engine.tensor_shape(&name).map_err(said)?;
            Ok(Binding {
                dtype: dtype(kind).unwrap_or("another type").to_owned(),
                shape: shape.iter().map(|d| usize::try_from(*d).ok()).collect(),
                input: matches!(
                    self.engine.tensor_io_mode(&name).map_err(said)?,
                    TensorIOMode::kINPUT
                ),
                name,
            })
        };
        (0..count).map(binding).collect()
    }

    fn select(&mut self, _: &mut Cuda, slot: Slot) -> Result<()> {
        if !self.contexts.contains_key(&slot) {
            self.shared.driver.enter()?;
            let context = self.create(slot)?;
            self.contexts.insert(slot, context);
        }
        self.now = Some(slot);
        Ok(())
    }

    fn set_shape(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        let dims: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
        let context = self.context()?;
        context.sized = false;
        let set = context.inner.set_input_shape(name, &Dims64::from_slice(&dims));
        set.map_err(|e| DeviceError(format!("{name:?} {shape:?}: {}", self.shared.log.error(&e))))
    }

    fn set_address(&mut self, name: &str, at: Address) -> Result<()> {
        let context = self.context()?;
        // SAFETY: the executor allocated the block for the largest shape of this value and keeps it until the slot is
        // forgotten.
        let set = unsafe {
            context
                .inner
                .set_tensor_address(name, at.0 as *mut std::ffi::c_void)
        };
        set.map_err(|e| DeviceError(format!("{name:?}: {}", self.shared.log.error(&e))))
    }

    fn enqueue(&mut self, _: &mut Cuda) -> Result<()> {
        let shared = Rc::clone(&self.shared);
        shared.driver.enter()?;
        let context = self.context()?;
        if !context.sized {
            let bytes = context.inner.update_device_memory_size_for_shapes();
            let scratch = shared.driver.scratch(bytes)?;
            // SAFETY: the block holds at least `bytes` bytes, is never freed before the device, and is used by one
            // run at a time, since all runs are on one stream.
            unsafe {
                context
                    .inner
                    .set_device_memory_v2(scratch.0 as *mut std::ffi::c_void, bytes as i64);
            }
            context.sized = true;
        }
        // SAFETY: the stream lives as long as `shared`; every value is bound, or the library refuses the run.
        unsafe { context.inner.enqueue_v3(shared.driver.stream.cast()) }.map_err(|e| shared.log.error(&e))
    }

    fn forget(&mut self) {
        self.contexts.clear();
        self.now = None;
    }
}
