//! One binary for all targets: `FUZZ_TARGET` names the one to run.

#![no_main]

use forkcast_fuzz::targets::{ALL, Target};
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = ALL.into_iter().find(|t| t.name == name);
    found.unwrap_or_else(|| {
        eprintln!("error: FUZZ_TARGET={name:?}; known are {:?}", ALL.map(|t| t.name));
        std::process::exit(2)
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.get_or_init(chosen).run)(data));
