//! Damage to an engine of real plans is refused with its own message and exit code.

use crate::run::{forkcast, ok, tiny};
use std::path::Path;

fn refused(engine: &Path, code: i32, needles: &[&str]) {
    let engine = engine.to_str().expect("UTF-8");
    let ran = forkcast(&["verify", engine, "--gpu", "rtx-4090"]);
    assert_eq!(ran.code, Some(code), "{}{}", ran.stdout, ran.stderr);
    for needle in needles {
        assert!(ran.stderr.contains(needle), "{needle}: {}", ran.stderr);
    }
}

#[test]
fn plan_sm_version_and_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = tiny(folder.path(), "tiny-qwen3", "tiny-qwen3-dflash");
    let engine = folder.path().join("engine");
    let text = engine.to_str().expect("UTF-8");
    ok(&["build", &bundle, "--recipe", "rtx-4090", "--out", text]);
    let json = engine.join("engine.json");
    let whole = std::fs::read_to_string(&json).expect("read");
    let edit = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        std::fs::write(&json, whole.replace(from, to)).expect("written");
    };

    let plan = engine.join("head.plan");
    let bytes = std::fs::read(&plan).expect("read");
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x40;
    std::fs::write(&plan, &damaged).expect("written");
    refused(&engine, 1, &["head.plan", "hint: "]);
    std::fs::write(&plan, &bytes[..middle]).expect("written");
    refused(&engine, 1, &["head.plan", "bytes"]);
    std::fs::write(&plan, &bytes).expect("written");
    refused(&engine, 0, &[]);

    edit("\"sm\": 89", "\"sm\": 120");
    refused(&engine, 3, &["SM 12.0", "SM 8.9"]);
    edit("\"tensorrt\": \"1.7.1\"", "\"tensorrt\": \"1.6.1\"");
    refused(&engine, 3, &["TensorRT-RTX", "1.7.1", "1.6.1"]);
    let at = whole.find("\"sha256\": \"").expect("a hash") + 11;
    edit(&whole[at..at + 64], &"0".repeat(64));
    refused(&engine, 1, &["expected 0000"]);
    std::fs::write(&json, "{}").expect("written");
    refused(&engine, 2, &["schema"]);
}
