//! forkcast's plugin library inside TensorRT's registry. The registry is a C++ interface, which the library itself calls for
//! us (`plugins/cuda/shim`).

use super::libraries::said;
use crate::engine::PLUGIN_ABI;
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// Bytes for the reason of a failure.
const REASON: usize = 1024;

type Load = unsafe extern "C" fn(*mut c_void, *const c_char, i32, *mut c_char, usize) -> *mut c_void;
type Unload = unsafe extern "C" fn(*mut c_void);

/// The registered library. Dropped, it leaves the registry: engines and networks must be gone before.
#[derive(Debug)]
pub struct Plugins {
    handle: NonNull<c_void>,
    unload: Unload,
    // Holds the code that `unload` points to.
    _library: libloading::Library,
}

impl Plugins {
    /// Loads the library at `path` into the registry of the TensorRT that this process has loaded.
    ///
    /// # Errors
    /// It cannot be opened, is not ours or of another ABI, TensorRT is not loaded, or the registry refuses it.
    pub fn load(path: &Path) -> Result<Self, String> {
        let said = |e: libloading::Error| format!("plugin library {}: {}", path.display(), said(&e));
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: loading runs the library's initialisers; this is the library that forkcast is made to load.
        let library = unsafe { libloading::Library::new(path) }.map_err(said)?;
        // SAFETY: the types are those of `plugins/cuda/shim/registry_shim.h`.
        let (load, unload) = unsafe {
            (
                *library.get::<Load>(b"forkcast_load_plugins\0").map_err(said)?,
                *library.get::<Unload>(b"forkcast_unload\0").map_err(said)?,
            )
        };
        let mut reason = [0; REASON];
        let abi = i32::try_from(PLUGIN_ABI).unwrap_or(i32::MAX);
        // SAFETY: the path ends in NUL, the buffer has the size said; null asks for the loaded TensorRT's registry.
        let handle = unsafe { load(null_mut(), name.as_ptr(), abi, reason.as_mut_ptr(), REASON) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Self {
                handle,
                unload,
                _library: library,
            }),
            // SAFETY: the library ends the text with NUL inside the buffer, which begins as zeros.
            None => Err(unsafe { CStr::from_ptr(reason.as_ptr()) }
                .to_string_lossy()
                .into_owned()),
        }
    }
}

impl Drop for Plugins {
    fn drop(&mut self) {
        // SAFETY: the handle came from the same library and is given back once.
        unsafe { (self.unload)(self.handle.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plugin_library_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libforkcast_plugins.so");
        let error = Plugins::load(&path).expect_err("absent");
        assert!(error.contains("libforkcast_plugins.so"), "{error}");
        std::fs::write(&path, b"no library").expect("written");
        let error = Plugins::load(&path).expect_err("no library");
        assert!(error.contains("libforkcast_plugins.so"), "{error}");
        // A library of another kind: libc is in every process.
        let error = Plugins::load(Path::new("libc.so.6")).expect_err("another library");
        assert!(error.contains("forkcast_load_plugins"), "{error}");
    }
}
