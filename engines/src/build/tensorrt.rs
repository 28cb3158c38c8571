//! The real compiler: TensorRT-RTX, or TensorRT 11 with the feature `tensorrt-enterprise`.

use super::{BuildError, Compiler, Listener, Prepared, Progress, library_version};
use crate::engine::{Axis, Port, Sizes};
use crate::host::{self, Role};
use crate::recipe::{Flavour, Recipe};
use prost::Message;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trtx::builder::{Builder, MemoryPoolType, network_flags};
use trtx::interfaces::MonitorProgress;
use trtx::{LogHandler, Logger, OnnxParser, OptProfileSelector, Severity};

#[cfg(feature = "tensorrt")]
const FLAVOUR: Flavour = Flavour::TensorrtRtx;
#[cfg(feature = "tensorrt-enterprise")]
const FLAVOUR: Flavour = Flavour::Tensorrt;
#[cfg(feature = "tensorrt")]
const NAME: &str = "TensorRT-RTX";
#[cfg(feature = "tensorrt-enterprise")]
const NAME: &str = "TensorRT";

/// The loaded library.
#[derive(Debug)]
pub struct TensorRt {
    version: String,
    // In the registry for as long as graphs are parsed.
    #[cfg(feature = "tensorrt-enterprise")]
    _plugins: host::Plugins,
}

fn missing(reason: impl Into<String>) -> BuildError {
    BuildError::Library {
        library: NAME,
        reason: reason.into(),
    }
}

/// The file of a library, or its name for the system's loader.
fn file(role: Role) -> PathBuf {
    let library = host::libraries().into_iter().find(|l| l.role == role);
    library
        .as_ref()
        .and_then(host::path_of)
        .or_else(|| library.and_then(|l| l.names.first().map(PathBuf::from)))
        .unwrap_or_default()
}

impl TensorRt {
    /// Loads the library and its parser.
    ///
    /// # Errors
    /// One of them is missing, or the library is not of the version that this build was made for.
    pub fn load() -> Result<Self, BuildError> {
        let (role, parser) = match FLAVOUR {
            Flavour::TensorrtRtx => (Role::TensorrtRtx, file(Role::TensorrtRtxParser)),
            Flavour::Tensorrt => (Role::Tensorrt, PathBuf::from("libnvonnxparser.so.11")),
        };
        let found = host::find(role).ok_or_else(|| missing("not found"))?;
        if let Some(problem) = found.problem {
            return Err(missing(format!("{}: {problem}", found.path.display())));
        }
        let version = found.version.unwrap_or_default();
        if version != library_version(FLAVOUR) {
            return Err(missing(format!(
                "{} is version {version:?}, this build of forkcast needs {}",
                found.path.display(),
                library_version(FLAVOUR)
            )));
        }
        trtx::dynamically_load_tensorrt(Some(found.path.as_os_str())).map_err(|e| missing(e.to_string()))?;
        trtx::dynamically_load_tensorrt_onnxparser(Some(parser.as_os_str()))
            .map_err(|e| missing(format!("{}: {e}", parser.display())))?;
        Ok(Self {
            version,
            #[cfg(feature = "tensorrt-enterprise")]
            _plugins: plugins()?,
        })
    }
}

/// The plugin library, in TensorRT's registry.
#[cfg(feature = "tensorrt-enterprise")]
fn plugins() -> Result<host::Plugins, BuildError> {
    let missing = |reason| BuildError::Library {
        library: "forkcast's plugins",
        reason,
    };
    host::Plugins::load(&file(Role::Plugins)).map_err(missing)
}

impl Compiler for TensorRt {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn compile(&self, graph: &Prepared, recipe: &Recipe, listener: &Listener) -> Result<Vec<u8>, BuildError> {
        if recipe.flavour != FLAVOUR {
            return Err(BuildError::Mismatch {
                reason: format!("recipe {} is for another flavour; this build compiles with {NAME}", recipe.name),
                hint: "build forkcast with the other feature: tensorrt (TensorRT-RTX) or tensorrt-enterprise (TensorRT 11)"
                    .to_owned(),
            });
        }
        let log = Log::default();
        let cancelled = Arc::new(AtomicBool::new(false));
        let plan = compile(graph, recipe, listener, &log, &cancelled);
        if cancelled.load(Ordering::Relaxed) {
            return Err(BuildError::Cancelled);
        }
        plan.map_err(|error| BuildError::Compile {
            stage: graph.stage.clone(),
            library: NAME,
            reason: log.reason(&error),
        })
    }
}

fn compile(
    graph: &Prepared,
    recipe: &Recipe,
    listener: &Listener,
    log: &Log,
    cancelled: &Arc<AtomicBool>,
) -> trtx::Result<Vec<u8>> {
    let logger = Logger::new(log.clone())?;
    let mut builder = Builder::new(&logger)?;
    let network = builder.create_network(network_flags::EXPLICIT_BATCH)?;
    let mut parser = OnnxParser::new(network, &logger)?;
    let message = graph.model.encode_to_vec();
    parser.parse(&message)?;
    let mut config = builder.create_config()?;
    target(&mut config, recipe)?;
    config.set_memory_pool_limit(
        MemoryPoolType::kWORKSPACE,
        usize::try_from(recipe.workspace_mib << 20).unwrap_or(usize::MAX),
    );
    config.set_progress_monitor(Box::new(Monitor {
        listener: Arc::clone(listener),
        cancelled: Arc::clone(cancelled),
        steps: Mutex::default(),
    }))?;
    for sizes in &graph.profiles {
        // The builder owns its profiles and frees them; dropping the handle would free one twice.
        let mut profile = ManuallyDrop::new(builder.creata_optimization_profile()?);
        for port in graph.inputs.iter().filter(|p| varies(p)) {
            for (at, select) in [
                OptProfileSelector::kMIN,
                OptProfileSelector::kOPT,
                OptProfileSelector::kMAX,
            ]
            .into_iter()
            .enumerate()
            {
                let dims = trtx::trtx_sys::Dims64::from_slice(&shape(port, sizes, at));
                profile.set_dimensions(&port.name, select, &dims)?;
            }
        }
        config.add_optimization_profile(&mut profile)?;
    }
    let plan = builder.build_serialized_network(parser.network_mut(), &mut config)?;
    Ok(plan.as_ref().to_vec())
}

#[cfg(feature = "tensorrt")]
fn target(config: &mut trtx::BuilderConfig<'_>, recipe: &Recipe) -> trtx::Result<()> {
    use trtx::ComputeCapability as Sm;
    config.set_nb_compute_capabilities(1)?;
    let sm = match recipe.sm {
        80 => Sm::kSM80,
        86 => Sm::kSM86,
        89 => Sm::kSM89,
        120 => Sm::kSM120,
        121 => Sm::kSM121,
        other => return Err(trtx::Error::Runtime(format!("no code for SM {other}"))),
    };
    config.set_compute_capability(sm, 0)
}

/// TensorRT 11 compiles for the GPU that it runs on.
#[cfg(feature = "tensorrt-enterprise")]
fn target(_config: &mut trtx::BuilderConfig<'_>, _recipe: &Recipe) -> trtx::Result<()> {
    Ok(())
}

fn varies(port: &Port) -> bool {
    port.shape.iter().any(|a| matches!(a, Axis::Symbol(_)))
}

/// Shape of a port at the smallest (0), usual (1) or largest (2) sizes.
fn shape(port: &Port, sizes: &Sizes, at: usize) -> Vec<i64> {
    let size = |axis: &Axis| match axis {
        Axis::Fixed(n) => *n,
        Axis::Symbol(s) => sizes.get(s).map_or(1, |range| range[at]),
    };
    port.shape.iter().map(|a| size(a) as i64).collect()
}

/// What the library says: errors are kept for the message, all goes to the log.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// The first errors that the library logged, or the binding's own words.
    fn reason(&self, error: &trtx::Error) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return error.to_string();
        }
        lines.join("; ")
    }
}

impl LogHandler for Log {
    fn log(&self, severity: Severity, message: &str) {
        match severity {
            Severity::InternalError | Severity::Error => {
                let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.len() < 3 {
                    lines.push(message.chars().take(400).collect());
                }
                tracing::warn!(target: "forkcast::tensorrt", "{message}");
            }
            Severity::Warning | Severity::Info => tracing::info!(target: "forkcast::tensorrt", "{message}"),
            Severity::Verbose => tracing::trace!(target: "forkcast::tensorrt", "{message}"),
        }
    }
}

/// Passes the library's progress on.
struct Monitor {
    listener: Listener,
    cancelled: Arc<AtomicBool>,
    steps: Mutex<BTreeMap<String, usize>>,
}

impl MonitorProgress for Monitor {
    fn phase_start(&self, phase_name: &str, _parent_phase: Option<&str>, num_steps: i32) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.insert(phase_name.to_owned(), usize::try_from(num_steps).unwrap_or(0));
    }

    fn step_complete(&self, phase_name: &str, step: i32) -> ControlFlow<()> {
        let steps = {
            let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            steps.get(phase_name).copied().unwrap_or(0)
        };
        let progress = Progress::Phase {
            name: phase_name,
            step: usize::try_from(step).unwrap_or(0) + 1,
            steps,
        };
        if (self.listener)(&progress) {
            return ControlFlow::Continue(());
        }
        self.cancelled.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn phase_finish(&self, _phase_name: &str) {}
}
