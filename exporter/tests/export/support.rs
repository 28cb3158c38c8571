//! Small checkpoints to export, and shorthand.

use crate::checkpoints::{self, Spec, write_checkpoint, write_config};
use crate::configs;
use forkcast_engines::manifest::Dtype;
use forkcast_exporter::{ExportError, ExportOptions, Summary, export};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Options for an f32 bundle.
pub(crate) fn options(target: &Path, drafter: Option<&Path>, out: &Path) -> ExportOptions {
    let text = |p: &Path| p.to_str().expect("plain path").to_owned();
    ExportOptions {
        target: text(target),
        drafter: drafter.map(text),
        out: out.to_owned(),
        dtype: Dtype::F32,
        copy_weights: false,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: None,
    }
}

/// A folder with a small target and a small drafter that fit each other.
pub(crate) struct Pair {
    dir: tempfile::TempDir,
    pub(crate) target_config: Value,
    pub(crate) drafter_config: Value,
}

impl Pair {
    /// Hybrid target and one-mode drafter, all bf16.
    pub(crate) fn hybrid() -> Self {
        let pair = Self {
            dir: tempfile::tempdir().expect("temporary folder"),
            target_config: configs::tiny_hybrid(),
            drafter_config: configs::tiny_drafter(),
        };
        pair.write_target(&pair.target_specs());
        pair.write_drafter(&pair.drafter_specs(1));
        pair
    }

    pub(crate) fn target_specs(&self) -> Vec<Spec> {
        checkpoints::qwen35(&self.target_config, "model.", "BF16")
    }

    pub(crate) fn drafter_specs(&self, modes: usize) -> Vec<Spec> {
        checkpoints::drafter(&self.drafter_config, "BF16", 2, modes)
    }

    pub(crate) fn write_target(&self, specs: &[Spec]) {
        write_checkpoint(&self.target(), &self.target_config, specs);
    }

    pub(crate) fn write_drafter(&self, specs: &[Spec]) {
        write_checkpoint(&self.drafter(), &self.drafter_config, specs);
    }

    /// Writes both configurations again after a change.
    pub(crate) fn write_configs(&self) {
        write_config(&self.target(), &self.target_config);
        write_config(&self.drafter(), &self.drafter_config);
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.dir.path().join("target")
    }

    pub(crate) fn drafter(&self) -> PathBuf {
        self.dir.path().join("drafter")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.dir.path().join("bundle")
    }

    pub(crate) fn options(&self) -> ExportOptions {
        options(&self.target(), Some(&self.drafter()), &self.out())
    }

    pub(crate) fn export(&self) -> Result<Summary, ExportError> {
        export(&self.options(), &mut |_| {})
    }

    /// Exports, expects a refusal with exit code 2 that leaves nothing behind, and returns its text.
    pub(crate) fn refused(&self) -> String {
        refusal(&self.options(), self.root())
    }
}

/// Exports, expects a refusal with exit code 2 that adds nothing to `root`, and returns message and hint.
pub(crate) fn refusal(options: &ExportOptions, root: &Path) -> String {
    let before = listing(root);
    let error = match export(options, &mut |_| {}) {
        Ok(_) => panic!("the export should have been refused"),
        Err(e) => e,
    };
    assert_eq!(error.exit_code(), 2, "{error}");
    assert_eq!(listing(root), before, "a refused export leaves nothing behind");
    match error.hint() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

/// Names in a folder, sorted.
pub(crate) fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("folder")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Every file of a bundle with its bytes.
pub(crate) fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    listing(dir)
        .into_iter()
        .map(|n| {
            let bytes = std::fs::read(dir.join(&n)).expect("file");
            (n, bytes)
        })
        .collect()
}
