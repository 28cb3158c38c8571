//! A model on the command line: a bundle, which ONNX Runtime runs, or an engine directory, which a GPU runs.

use crate::backend::Backend;
use crate::bundle::OpenError;
use crate::engine::{self, Engine, EngineError};
use crate::gpu::{self, GpuError, GpuOptions};
use crate::ort::{OpenOptions, OrtBackend};
use std::path::{Path, PathBuf};

/// File that `forkcast tune` leaves in a bundle or an engine directory. No manifest lists it, nothing depends on it.
pub const TUNE_NAME: &str = "tune.json";

/// Where the parts of a model lie.
#[derive(Clone, Debug)]
pub struct Place {
    /// What was named.
    pub dir: PathBuf,
    /// The bundle: weights, tokenizer, template.
    pub bundle: PathBuf,
    /// The description of the engine directory, if it is one.
    pub engine: Option<Box<Engine>>,
}

/// How to open a model.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// Threads on the CPU; all cores by default. Does not act on an engine directory.
    pub threads: Option<usize>,
    /// Upper bound of prompt plus answer; the model's own by default.
    pub max_context: Option<usize>,
    /// Bundle whose drafter is used instead, of the same shape.
    pub drafter: Option<PathBuf>,
}

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The bundle, or ONNX Runtime.
    #[error(transparent)]
    Bundle(#[from] OpenError),
    /// The description of an engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine, or the GPU.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl ModelError {
    /// 1: a plan is not what was built; 2: unusable input; 3: does not fit this host; 5: failed while loading.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Bundle(error) => error.exit_code(),
            Self::Engine(_) => 2,
            Self::Gpu(error) => error.exit_code(),
        }
    }

    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bundle(error) => error.hint(),
            Self::Engine(EngineError::Schema { .. }) => None,
            Self::Engine(_) => {
                Some("build the engine again: forkcast build BUNDLE --recipe NAME --out DIR".to_owned())
            }
            Self::Gpu(error) => error.hint(),
        }
    }
}

/// Finds the parts of the model in `dir`; `bundle` overrides the bundle that an engine directory names.
///
/// # Errors
/// The description of an engine directory is unusable, or a bundle is named for a model that is one.
pub fn locate(dir: &Path, bundle: Option<&Path>) -> Result<Place, ModelError> {
    let place = |bundle: PathBuf, engine| Place {
        dir: dir.to_path_buf(),
        bundle,
        engine,
    };
    if dir.join(engine::FILE_NAME).is_file() {
        let engine = engine::read(dir)?;
        let bundle = bundle.map_or_else(|| engine::bundle_path(dir, &engine.bundle), Path::to_path_buf);
        return Ok(place(bundle, Some(Box::new(engine))));
    }
    match bundle {
        Some(other) => Err(OpenError::Option(format!(
            "--bundle {}: {} is no engine directory",
            other.display(),
            dir.display()
        ))
        .into()),
        None => Ok(place(dir.to_path_buf(), None)),
    }
}

/// Opens the model with the backend that it is for.
///
/// # Errors
/// See [`ModelError`].
pub fn open(
    place: &Place,
    options: &ModelOptions,
    listener: &mut gpu::Listener<'_>,
) -> Result<Box<dyn Backend>, ModelError> {
    if place.engine.is_some() {
        let options = GpuOptions {
            bundle: Some(place.bundle.clone()),
            drafter: options.drafter.clone(),
            max_context: options.max_context,
            ..GpuOptions::default()
        };
        return Ok(gpu::open(&place.dir, &options, listener)?);
    }
    let options = OpenOptions {
        threads: options.threads,
        max_context: options.max_context,
        library: None,
        drafter: options.drafter.clone(),
    };
    Ok(Box::new(OrtBackend::open(&place.bundle, &options)?))
}
