//! The real device: TensorRT's runtime, and the CUDA driver for memory, the stream, graphs and the append kernel.
//!
//! Things unload in the order that they need each other, whoever is dropped first: every plan and graph holds on to [`Shared`], whose
//! fields go in the order runtime cache, runtime, then driver, and the driver frees memory before the stream.

#![expect(unsafe_code, reason = "calls to the CUDA driver and to TensorRT")]

mod driver;
mod graph;
mod program;

pub(super) use driver::Cuda;

use super::device::DeviceError;
use super::{GpuError, GpuOptions};
use crate::engine::{self, Against, Engine, Outcome};
use crate::host::{self, Role};
use crate::recipe::Flavour;
use driver::Driver;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use trtx::{LogHandler, Logger, Runtime, Severity};

#[cfg(feature = "tensorrt")]
const FLAVOUR: Flavour = Flavour::TensorrtRtx;
#[cfg(not(feature = "tensorrt"))]
const FLAVOUR: Flavour = Flavour::Tensorrt;

/// What all plans and graphs of a device need.
pub(super) struct Shared {
    /// Kernels that TensorRT-RTX compiled for this GPU, and the file that they are kept in.
    #[cfg(feature = "tensorrt")]
    cache: RefCell<Option<Arc<trtx::RuntimeCache>>>,
    #[cfg(feature = "tensorrt")]
    cache_file: PathBuf,
    /// Whether kernels may have been compiled since the file was read.
    compiled: Cell<bool>,
    runtime: RefCell<Runtime<'static>>,
    /// In TensorRT's registry for as long as plans are: TensorRT 11 only.
    _plugins: Option<host::Plugins>,
    log: Log,
    driver: Driver,
}

/// Opens the GPU of this host that the engine in `dir` was built for.
pub(super) fn open(dir: &Path, options: &GpuOptions) -> Result<Cuda, GpuError> {
    let engine = engine::read(dir)?;
    let driver = host::driver();
    fits(dir, &engine, options, &driver)?;
    let failed = |stage: &str| {
        let stage = stage.to_owned();
        move |reason| GpuError::Device { stage, reason }
    };
    let ordinal = driver
        .gpus
        .iter()
        .position(|g| g.sm == engine.requires.sm)
        .unwrap_or(0);
    let plugins = plugins(&engine)?;
    let driver = Driver::open(ordinal).map_err(failed("CUDA"))?;
    let log = Log::default();
    let said = |error: trtx::Error| failed("TensorRT")(log.error(&error));
    // The runtime and all that it makes borrow the logger for as long as they live; a few bytes a load are leaked.
    let logger: &'static Logger = Box::leak(Box::new(Logger::new(log.clone()).map_err(said)?));
    let runtime = Runtime::new(logger).map_err(said)?;
    Ok(Cuda::new(Rc::new(Shared {
        #[cfg(feature = "tensorrt")]
        cache: RefCell::new(None),
        #[cfg(feature = "tensorrt")]
        cache_file: dir.join(engine::CACHE_NAME),
        compiled: Cell::new(false),
        runtime: RefCell::new(runtime),
        _plugins: plugins,
        log,
        driver,
    })))
}

/// The plugin library, in the registry of the TensorRT that [`fits`] loaded, where the plans call plugins.
fn plugins(engine: &Engine) -> Result<Option<host::Plugins>, GpuError> {
    if engine.requires.plugin_abi.is_none() {
        return Ok(None);
    }
    let path = host::find(Role::Plugins).map(|l| l.path).unwrap_or_default();
    let plugins = host::Plugins::load(&path).map_err(|reason| GpuError::Host {
        reason,
        hint:
            "build it with `make -C plugins/cuda plugin` and set FORKCAST_PLUGINS to libforkcast_plugins.so"
                .to_owned(),
    })?;
    Ok(Some(plugins))
}

/// Checks everything that can be checked before the library is called, then loads the library.
fn fits(dir: &Path, engine: &Engine, options: &GpuOptions, driver: &host::Driver) -> Result<(), GpuError> {
    let host = |reason: String, hint: &str| GpuError::Host {
        reason: format!("{}: {reason}", dir.display()),
        hint: hint.to_owned(),
    };
    if engine.requires.flavour != FLAVOUR {
        let other = "build forkcast with the other feature: tensorrt (TensorRT-RTX) or tensorrt-enterprise (TensorRT 11)";
        return Err(host(
            "the engine is for the other flavour of TensorRT".to_owned(),
            other,
        ));
    }
    let role = match FLAVOUR {
        Flavour::TensorrtRtx => Role::TensorrtRtx,
        Flavour::Tensorrt => Role::Tensorrt,
    };
    let (library, plugins) = (host::find(role), host::find(Role::Plugins));
    let against = Against::Host {
        driver,
        library: library.as_ref(),
        plugins: plugins.as_ref(),
    };
    let checks = engine::verify(dir, engine, options.bundle.as_deref(), &against);
    for check in checks {
        let hint = check.hint.unwrap_or_default();
        let reason = format!(
            "{}: expected {}, found {}",
            check.what, check.expected, check.found
        );
        match check.outcome {
            Outcome::Ok | Outcome::Skipped => {}
            Outcome::Misfit => return Err(host(reason, &hint)),
            Outcome::Corrupt => {
                return Err(GpuError::Corrupt {
                    path: dir.join(check.what),
                    what: "the plan is not the one that was built",
                    expected: check.expected,
                    found: check.found,
                });
            }
        }
    }
    let path: PathBuf = library.map(|l| l.path).unwrap_or_default();
    trtx::dynamically_load_tensorrt(Some(path.as_os_str())).map_err(|e| {
        host(
            format!("{}: {e}", path.display()),
            "`make tensorrt` fetches the library",
        )
    })
}

/// What the library says goes to the log; the last error is kept for the message.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn error(&self, error: &trtx::Error) -> DeviceError {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = std::mem::take(&mut *last);
        if said.is_empty() {
            return DeviceError(error.to_string());
        }
        DeviceError(format!("{error}: {said}"))
    }
}

impl LogHandler for Log {
    fn log(&self, severity: Severity, message: &str) {
        match severity {
            Severity::InternalError | Severity::Error => {
                tracing::warn!(target: "forkcast::tensorrt", "{message}");
                let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                *last = message.chars().take(400).collect();
            }
            Severity::Warning | Severity::Info => tracing::info!(target: "forkcast::tensorrt", "{message}"),
            Severity::Verbose => tracing::trace!(target: "forkcast::tensorrt", "{message}"),
        }
    }
}

#[cfg(feature = "tensorrt")]
impl Shared {
    /// The cache of compiled kernels, read from its file the first time.
    fn cache(&self, config: &trtx::RuntimeConfig<'static>) -> trtx::Result<Arc<trtx::RuntimeCache>> {
        if let Some(cache) = &*self.cache.borrow() {
            return Ok(Arc::clone(cache));
        }
        let cache = Arc::new(config.create_runtime_cache()?);
        if let Ok(bytes) = std::fs::read(&self.cache_file)
            && let Err(error) = cache.deserialize(&bytes)
        {
            // It may be of another driver or GPU; then kernels are compiled again and the file is replaced.
            tracing::warn!(path = %self.cache_file.display(), "the runtime cache is not used: {error}");
        }
        *self.cache.borrow_mut() = Some(Arc::clone(&cache));
        Ok(cache)
    }

    /// Writes the cache if kernels may have been added. A failure costs time at the next start, nothing else.
    fn save(&self) {
        let Some(cache) = self.cache.borrow_mut().take() else {
            return;
        };
        if !self.compiled.get() {
            return;
        }
        let part = self.cache_file.with_extension("part");
        let written = cache.serialize().map_err(|e| e.to_string()).and_then(|bytes| {
            std::fs::write(&part, bytes.as_ref())
                .and_then(|()| std::fs::rename(&part, &self.cache_file))
                .map_err(|e| e.to_string())
        });
        if let Err(error) = written {
            tracing::warn!(path = %self.cache_file.display(), "the runtime cache is not kept: {error}");
        }
    }
}

#[cfg(not(feature = "tensorrt"))]
impl Shared {
    /// TensorRT 11 compiles kernels when a plan is built.
    fn save(&self) {}
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.save();
    }
}
