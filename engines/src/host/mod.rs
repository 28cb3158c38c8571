//! What this host has: GPUs, driver, and the libraries that engines need. Nothing here needs any of them.

#![expect(unsafe_code, reason = "questions to libraries that may be absent")]

mod libraries;
mod plugins;

pub use libraries::{Found, Library, Role, find, libraries, path_of, plugin_problem};
pub use plugins::Plugins;

use cudarc::driver::{result, sys};
use serde::Serialize;

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Name that the driver gives it.
    pub name: String,
    /// Compute capability, 120 for 12.0.
    pub sm: u32,
    /// Memory in bytes.
    pub memory: u64,
}

/// The CUDA driver and its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Driver {
    /// Newest CUDA version that the driver supports, 13000 for 13.0; none without a driver.
    pub cuda: Option<u32>,
    /// Its GPUs.
    pub gpus: Vec<Gpu>,
    /// Why there are none, in the driver's words.
    pub problem: Option<String>,
}

/// Asks the driver.
#[must_use]
pub fn driver() -> Driver {
    // SAFETY: only asks the system's loader whether the driver's library can be had.
    if !unsafe { sys::is_culib_present() } {
        return Driver {
            problem: Some("no CUDA driver (libcuda.so) on this host".to_owned()),
            ..Driver::default()
        };
    }
    let mut version = 0;
    // SAFETY: the library is present; the pointer is to a live integer.
    let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
    let cuda = asked.ok().and_then(|()| u32::try_from(version).ok());
    match gpus() {
        Ok(gpus) => Driver {
            cuda,
            problem: gpus.is_empty().then(|| "the driver lists no GPU".to_owned()),
            gpus,
        },
        Err(error) => Driver {
            cuda,
            gpus: Vec::new(),
            problem: Some(format!("the driver refuses: {error}")),
        },
    }
}

fn gpus() -> Result<Vec<Gpu>, result::DriverError> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    result::init()?;
    (0..result::device::get_count()?)
        .map(|ordinal| {
            let device = result::device::get(ordinal)?;
            // SAFETY: the driver just gave this device.
            let (major, minor, memory) = unsafe {
                (
                    result::device::get_attribute(device, MAJOR)?,
                    result::device::get_attribute(device, MINOR)?,
                    result::device::total_mem(device)?,
                )
            };
            Ok(Gpu {
                name: result::device::get_name(device)?,
                sm: u32::try_from(major * 10 + minor).unwrap_or(0),
                memory: memory as u64,
            })
        })
        .collect()
}
