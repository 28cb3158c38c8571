//! Finding shared libraries and asking for their versions.

use crate::engine::PLUGIN_ABI;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A library that engines need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// ONNX Runtime, for bundles on the CPU.
    Onnxruntime,
    /// TensorRT-RTX.
    TensorrtRtx,
    /// Its ONNX parser; only `build` needs it.
    TensorrtRtxParser,
    /// TensorRT 11.
    Tensorrt,
    /// forkcast's plugins for TensorRT 11.
    Plugins,
}

/// How a library is found.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// What it is for.
    pub role: Role,
    /// File names, the preferred one first.
    pub names: &'static [&'static str],
    /// Environment variable that names the file.
    pub variable: &'static str,
}

/// All of them.
#[must_use]
pub fn libraries() -> [Library; 5] {
    let library = |role, names, variable| Library {
        role,
        names,
        variable,
    };
    [
        library(Role::Onnxruntime, &["libonnxruntime.so"], "ORT_DYLIB_PATH"),
        library(
            Role::TensorrtRtx,
            &["libtensorrt_rtx.so.1", "libtensorrt_rtx.so"],
            "FORKCAST_TENSORRT_RTX",
        ),
        library(
            Role::TensorrtRtxParser,
            &["libtensorrt_onnxparser_rtx.so.1", "libtensorrt_onnxparser_rtx.so"],
            "FORKCAST_TENSORRT_RTX_PARSER",
        ),
        library(
            Role::Tensorrt,
            &["libnvinfer.so.11", "libnvinfer.so"],
            "FORKCAST_TENSORRT",
        ),
        library(Role::Plugins, &["libforkcast_plugins.so"], "FORKCAST_PLUGINS"),
    ]
}

/// A library that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What it is for.
    pub role: Role,
    /// The file; a bare name when the system's loader finds it.
    pub path: PathBuf,
    /// Its version as it says itself: `1.7.1`, or the plugin ABI; none when it cannot be loaded or does not say.
    pub version: Option<String>,
    /// Why it cannot be loaded.
    pub problem: Option<String>,
}

/// Where a library is, without loading it: the environment variable alone when set, else beside the
/// executable, then `../lib/forkcast` from there.
#[must_use]
pub fn path_of(library: &Library) -> Option<PathBuf> {
    let executable = std::env::current_exe().ok();
    let folder = executable
        .as_deref()
        .and_then(Path::parent)
        .unwrap_or(Path::new("."));
    if let Some(named) = std::env::var_os(library.variable).filter(|v| !v.is_empty()) {
        return Some(folder.join(named));
    }
    let places = [folder.to_path_buf(), folder.join("../lib/forkcast")];
    let mut files = places
        .iter()
        .flat_map(|place| library.names.iter().map(move |name| place.join(name)));
    files.find(|file| file.is_file())
}

/// Finds a library and asks it for its version; at last the system's loader is asked for it.
#[must_use]
pub fn find(role: Role) -> Option<Found> {
    let library = libraries().into_iter().find(|l| l.role == role)?;
    if let Some(path) = path_of(&library) {
        return Some(ask(role, path));
    }
    let mut found = library.names.iter().map(|name| ask(role, PathBuf::from(name)));
    found.find(|f| f.problem.is_none())
}

fn ask(role: Role, path: PathBuf) -> Found {
    // SAFETY: loading runs the library's initialisers; these are the libraries that forkcast is made to load.
    let loaded = unsafe { libloading::Library::new(&path) };
    let (version, problem) = match &loaded {
        Ok(library) => (version(role, library), None),
        Err(error) => (None, Some(said(&error))),
    };
    Found {
        role,
        path,
        version,
        problem,
    }
}

/// An error with its causes: the loader's own words are among these.
pub(super) fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The version in the words of the library.
fn version(role: Role, library: &libloading::Library) -> Option<String> {
    match role {
        Role::TensorrtRtx | Role::Tensorrt => {
            let part = |name: &[u8]| number(library, name).map(|n| n.to_string());
            let parts = [
                part(b"getInferLibMajorVersion\0")?,
                part(b"getInferLibMinorVersion\0")?,
                part(b"getInferLibPatchVersion\0")?,
            ];
            Some(parts.join("."))
        }
        Role::Plugins => number(library, b"forkcast_plugin_abi_version\0").map(|n| n.to_string()),
        Role::Onnxruntime | Role::TensorrtRtxParser => None,
    }
}

/// Calls an exported function `int32_t name()`.
fn number(library: &libloading::Library, name: &[u8]) -> Option<i32> {
    // SAFETY: TensorRT's and forkcast's headers declare these functions as `int32_t (void)`.
    unsafe {
        library
            .get::<unsafe extern "C" fn() -> i32>(name)
            .ok()
            .map(|f| f())
    }
}

/// What is wrong with a plugin library, if anything.
#[must_use]
pub fn plugin_problem(found: &Found) -> Option<String> {
    match (&found.problem, &found.version) {
        (Some(problem), _) => Some(problem.clone()),
        (None, None) => {
            Some("it is not forkcast's plugin library (no forkcast_plugin_abi_version)".to_owned())
        }
        (None, Some(abi)) if *abi != PLUGIN_ABI.to_string() => {
            Some(format!("it has plugin ABI {abi}, this build needs {PLUGIN_ABI}"))
        }
        _ => None,
    }
}
