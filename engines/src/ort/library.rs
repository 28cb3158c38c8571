//! Finding and loading the ONNX Runtime library, once a process.

use crate::bundle::OpenError;
use ort::environment::{Environment, GlobalThreadPoolOptions};
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

const NAME: &str = "libonnxruntime.so";

/// The loaded library. Its threads are shared by all graphs: two pools on the same cores would wait for each other.
#[derive(Debug)]
pub(super) struct Library {
    environment: Environment,
    threads: usize,
    path: PathBuf,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();
static LOADING: Mutex<()> = Mutex::new(());

/// Places that are searched, in order: `ORT_DYLIB_PATH` alone when set, else beside the executable, then
/// `../lib/forkcast` from there. A relative `ORT_DYLIB_PATH` counts from the executable's folder.
fn places(variable: Option<&Path>, folder: &Path) -> Vec<PathBuf> {
    match variable {
        Some(path) => vec![folder.join(path)],
        None => vec![folder.join(NAME), folder.join("../lib/forkcast").join(NAME)],
    }
}

/// Where the library is, without loading it.
///
/// # Errors
/// It is in none of the places searched; the message names them.
pub fn find(explicit: Option<&Path>) -> Result<PathBuf, OpenError> {
    let executable = std::env::current_exe().ok();
    let folder = executable
        .as_deref()
        .and_then(Path::parent)
        .unwrap_or(Path::new("."));
    let variable = std::env::var_os("ORT_DYLIB_PATH")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    let places = explicit.map_or_else(|| places(variable.as_deref(), folder), |p| vec![p.to_path_buf()]);
    places.iter().find(|p| p.is_file()).cloned().ok_or_else(|| {
        let list: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        OpenError::Library(format!("not found; searched {}", list.join(", ")))
    })
}

/// The process's ONNX Runtime. The first call that succeeds decides which file it is and how many threads it has.
pub(super) fn load(explicit: Option<&Path>, threads: usize) -> Result<&'static Library, OpenError> {
    let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = LIBRARY.get() {
        return match explicit {
            Some(path) if !same_file(path, &library.path) => Err(OpenError::Library(format!(
                "{} is loaded already; a process has one",
                library.path.display()
            ))),
            _ => Ok(library),
        };
    }
    let path = find(explicit)?;
    // A path without a folder would be searched by the system's loader instead.
    let path = path.canonicalize().map_err(|source| OpenError::Io {
        path: path.clone(),
        source,
    })?;
    let refuse = |reason: String| OpenError::Library(format!("{}: {reason}", path.display()));
    let builder = ort::environment::init_from(&path).map_err(|e| refuse(e.to_string()))?;
    let environment = GlobalThreadPoolOptions::default()
        .with_intra_threads(threads)
        .and_then(|o| o.with_inter_threads(1))
        .and_then(|o| o.with_spin_control(true))
        .and_then(|o| {
            builder
                .with_name("forkcast")
                .with_telemetry(false)
                .with_global_thread_pool(o)
                .build()
        })
        .map_err(|e| refuse(e.to_string()))?;
    environment.set_log_level(LogLevel::Error);
    tracing::debug!(path = %path.display(), threads, "ONNX Runtime loaded");
    Ok(LIBRARY.get_or_init(|| Library {
        environment,
        threads,
        path,
    }))
}

/// A session under construction in the process's ONNX Runtime, on one thread. A process has one environment, so whoever
/// runs graphs of its own beside an engine starts here.
///
/// # Errors
/// The library is missing, unusable, or another one is loaded.
pub fn session_builder(explicit: Option<&Path>) -> Result<SessionBuilder, OpenError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    load(explicit, threads)?
        .builder(1)
        .map_err(|e| OpenError::Library(e.to_string()))
}

fn same_file(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| a == b)
}

impl Library {
    /// A session under construction that runs on `threads` threads: those of the process, or its own when another
    /// number is asked for.
    pub(super) fn builder(&self, threads: usize) -> Result<SessionBuilder, ort::Error> {
        let builder = Session::builder(&self.environment)?.with_log_level(LogLevel::Error)?;
        if threads == self.threads {
            return Ok(builder);
        }
        Ok(builder
            .with_independent_thread_pool()?
            .with_intra_threads(threads)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_overrides_and_counts_from_the_executable() {
        let folder = Path::new("/opt/forkcast/bin");
        assert_eq!(
            places(Some(Path::new("x/libort.so")), folder),
            [folder.join("x/libort.so")]
        );
        assert_eq!(
            places(Some(Path::new("/x/libort.so")), folder),
            [PathBuf::from("/x/libort.so")]
        );
        let found = places(None, folder);
        assert_eq!(
            found,
            [folder.join(NAME), folder.join("../lib/forkcast").join(NAME)]
        );
    }

    #[test]
    fn a_missing_library_names_the_places() {
        let error = find(Some(Path::new("/nowhere/libonnxruntime.so"))).expect_err("missing");
        assert_eq!(error.exit_code(), 3);
        assert!(
            error.to_string().contains("/nowhere/libonnxruntime.so"),
            "{error}"
        );
        assert!(error.hint().is_some_and(|h| h.contains("ORT_DYLIB_PATH")));
    }
}
