//! Bundles made from the checkpoints under test, and engines opened on them.

use crate::paths;
use forkcast_engines::backend::{Backend, RowBatch};
use forkcast_engines::manifest::Dtype;
use forkcast_engines::ort::{OpenOptions, OrtBackend};
use forkcast_exporter::{ExportOptions, export};
use std::path::Path;
use tempfile::TempDir;

/// A bundle in a temporary folder; deleted when dropped.
#[derive(Debug)]
pub struct Bundle {
    /// Folder that holds the bundle as `bundle`.
    pub folder: TempDir,
}

impl Bundle {
    /// Exports `target` (and `drafter`) as float32.
    ///
    /// # Panics
    /// The export fails.
    #[must_use]
    pub fn export(target: &Path, drafter: Option<&Path>, taps: Option<Vec<usize>>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = |p: &Path| p.to_string_lossy().into_owned();
        let options = ExportOptions {
            target: text(target),
            drafter: drafter.map(text),
            out: folder.path().join("bundle"),
            dtype: Dtype::F32,
            copy_weights: false,
            hash_weights: false,
            taps,
            modes: None,
            weights_from: None,
        };
        export(&options, &mut |_| ()).unwrap_or_else(|e| panic!("{}: {e}", target.display()));
        Self { folder }
    }

    /// A trained pair of `tests/models`.
    #[must_use]
    pub fn trained(target: &str, drafter: &str) -> Self {
        Self::export(&paths::model(target), Some(&paths::model(drafter)), None)
    }

    /// Folder of the bundle.
    #[must_use]
    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("bundle")
    }

    /// An engine on this bundle, two threads.
    ///
    /// # Panics
    /// It cannot be opened.
    #[must_use]
    pub fn open(&self) -> OrtBackend {
        let options = OpenOptions {
            threads: Some(2),
            max_context: None,
            library: Some(paths::onnxruntime()),
            drafter: None,
        };
        OrtBackend::open(&self.path(), &options).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// Runs `tokens` as one chain after what is committed; nothing is committed.
///
/// # Panics
/// The engine fails.
pub fn verify_chain(engine: &mut dyn Backend, tokens: &[u32]) {
    let n = tokens.len();
    let start = engine.committed();
    let positions: Vec<i64> = (start..start + n).map(|p| p as i64).collect();
    let ancestors: Vec<bool> = (0..n * n).map(|i| i % n <= i / n).collect();
    engine.reserve(start + n).expect("room");
    engine
        .verify(&RowBatch {
            tokens,
            positions: &positions,
            ancestors: &ancestors,
        })
        .expect("verify");
}

/// Commits `tokens` in chunks of at most `chunk` rows.
///
/// # Panics
/// The engine fails.
pub fn prefill(engine: &mut dyn Backend, tokens: &[u32], chunk: usize) {
    for part in tokens.chunks(chunk) {
        verify_chain(engine, part);
        let path: Vec<u32> = (0..part.len() as u32).collect();
        engine.commit(&path).expect("commit");
    }
}
