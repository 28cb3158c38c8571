//! Bundles of the trained tiny models, exported once by the binary under test.

use crate::run::forkcast;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the repository")
}

/// A trained tiny checkpoint.
pub(crate) fn model(name: &str) -> String {
    text(&repository().join("tests/models").join(name))
}

/// Path as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("a plain path").to_owned()
}

/// Target tiny-qwen3.5 with the DFlash drafter.
pub(crate) fn dflash() -> String {
    export(
        "dflash",
        &[
            "--target",
            &model("tiny-qwen3.5"),
            "--drafter",
            &model("tiny-qwen3.5-dflash"),
        ],
    )
}

/// The same target with the MFD drafter.
pub(crate) fn mfd() -> String {
    export(
        "mfd",
        &[
            "--target",
            &model("tiny-qwen3.5"),
            "--drafter",
            &model("tiny-qwen3.5-mfd"),
        ],
    )
}

/// The dense target without a drafter.
pub(crate) fn dense() -> String {
    export("dense", &["--target", &model("tiny-qwen3")])
}

/// The dense target in 4 bits.
pub(crate) fn int4() -> String {
    export("int4", &["--target", &model("tiny-qwen3"), "--dtype", "int4"])
}

/// The dense target for TensorRT.
pub(crate) fn bf16() -> String {
    export("bf16", &["--target", &model("tiny-qwen3"), "--dtype", "bf16"])
}

/// The dense target as a checkpoint without any text file, exported.
pub(crate) fn without_text() -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-bare-checkpoint");
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in ["config.json", "model.safetensors"] {
        if !folder.join(name).exists() {
            // Several test processes may do this at once: rename is atomic.
            let part = folder.join(format!("{name}.{}", std::process::id()));
            std::fs::copy(Path::new(&model("tiny-qwen3")).join(name), &part).expect("copied");
            std::fs::rename(&part, folder.join(name)).expect("renamed");
        }
    }
    export("without-text", &["--target", &text(&folder)])
}

/// Exports into the folder for test data unless a bundle newer than the binary is there. Test processes
/// run side by side: a lock file keeps them apart.
fn export(name: &str, args: &[&str]) -> String {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}"));
    let lock = File::create(out.with_extension("lock")).expect("a lock file");
    lock.lock().expect("locked");
    let changed = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let binary = changed(Path::new(env!("CARGO_BIN_EXE_forkcast")));
    if changed(&out.join("manifest.json")) < binary {
        let place = text(&out);
        let mut all = vec!["export", "--out", &place];
        all.extend(args);
        let ran = forkcast(&all);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(ran.stdout, "", "data goes to stdout, and an export has none");
    }
    text(&out)
}
