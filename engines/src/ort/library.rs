//! Finding and loading the ONNX Runtime library, once a process.

use crate::bundle::OpenError;
use ort::environment::Environment;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const NAME: &str = "libonnxruntime.so";

static ENVIRONMENT: OnceLock<Result<Environment, String>> = OnceLock::new();

/// Places that are searched, in order: `ORT_DYLIB_PATH` alone when set, else beside the executable, then
/// `../lib/forkcast` from there. A relative `ORT_DYLIB_PATH` counts from the executable's folder.
fn places() -> Vec<PathBuf> {
    let folder = std::env::current_exe().ok().and_then(|e| e.parent().map(Path::to_path_buf)).unwrap_or_default();
    match std::env::var_os("ORT_DYLIB_PATH").filter(|v| !v.is_empty()) {
        Some(path) => vec![folder.join(path)],
        None => vec![folder.join(NAME), folder.join("../lib/forkcast").join(NAME)],
    }
}

/// Where the library is, without loading it.
///
/// # Errors
/// It is in none of the places searched; the message names them.
pub fn find(explicit: Option<&Path>) -> Result<PathBuf, OpenError> {
    let places = explicit.map_or_else(places, |p| vec![p.to_path_buf()]);
    places.iter().find(|p| p.is_file()).cloned().ok_or_else(|| {
        let list: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        OpenError::Library(format!("not found; searched {}", list.join(", ")))
    })
}

/// The process's ONNX Runtime. The first call decides which library it is.
pub(super) fn environment(explicit: Option<&Path>) -> Result<&'static Environment, OpenError> {
    if let Some(Ok(environment)) = ENVIRONMENT.get() {
        return Ok(environment);
    }
    let path = find(explicit)?;
    let loaded = ENVIRONMENT.get_or_init(|| load(&path));
    loaded.as_ref().map_err(|reason| OpenError::Library(reason.clone()))
}

fn load(path: &Path) -> Result<Environment, String> {
    let builder = ort::environment::init_from(path).map_err(|e| e.to_string())?;
    builder.with_name("forkcast").with_telemetry(false).build().map_err(|e| e.to_string())
}
