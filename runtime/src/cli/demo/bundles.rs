//! Bundles of the demo: exported once, kept while nothing they are made from changes.

use super::super::output;
use crate::exit::Failure;
use forkcast_engines::bundle::Bundle;
use forkcast_engines::manifest::Dtype;
use forkcast_exporter::{ExportOptions, Progress, export};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Target of both pairs.
const TARGET: &str = "tiny-qwen3.5";

/// The folder of the tiny models: as given, else `tests/models` below the current folder or a parent of
/// the executable.
pub(super) fn models(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let candidates: Vec<PathBuf> = match given {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let executable = std::env::current_exe().unwrap_or_default();
            let above = executable.ancestors().skip(1).take(4).map(Path::to_owned);
            std::iter::once(PathBuf::new())
                .chain(above)
                .map(|p| p.join("tests/models"))
                .collect()
        }
    };
    let found = candidates
        .iter()
        .find(|p| p.join(TARGET).join("config.json").is_file());
    found.cloned().ok_or_else(|| {
        let places: Vec<String> = candidates.iter().map(|p| p.display().to_string()).collect();
        Failure::input(
            format!("the tiny models are not in {}", places.join(", ")),
            "run in the repository, or pass --models DIR",
        )
    })
}

/// Where the bundles go: as given, else `target/demo` of the repository that holds the models.
pub(super) fn place(given: Option<&Path>, models: &Path) -> PathBuf {
    let repository = models.parent().and_then(Path::parent);
    match (given, repository) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(root)) if models.ends_with("tests/models") => root.join("target/demo"),
        (None, _) => PathBuf::from("target/demo"),
    }
}

/// The bundle of the target and `drafter`; exported unless the one that is there is up to date.
pub(super) fn ensure(
    models: &Path,
    drafter: &str,
    out: &Path,
    weights_from: Option<&Path>,
) -> Result<PathBuf, Failure> {
    let unusable = |e: io::Error| Failure::input(format!("{}: {e}", out.display()), "pass another --out DIR");
    std::fs::create_dir_all(out).map_err(unusable)?;
    let bundle = out.join(drafter);
    let stamp = out.join(format!("{drafter}.sha256"));
    let sources = [models.join(TARGET), models.join(drafter)];
    let hash = hash(&sources).map_err(unusable)?;
    if std::fs::read_to_string(&stamp).is_ok_and(|s| s == hash) && Bundle::open(&bundle).is_ok() {
        return Ok(bundle);
    }
    let text = |p: &Path| p.to_string_lossy().into_owned();
    let options = ExportOptions {
        target: text(&sources[0]),
        drafter: Some(text(&sources[1])),
        out: bundle.clone(),
        dtype: Dtype::F32,
        copy_weights: false,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: weights_from.map(Path::to_owned),
    };
    let bar = output::spinner();
    let result = export(&options, &mut |progress| {
        if let Progress::Step(step) = progress {
            bar.set_message(format!("export {drafter}: {step}"));
        }
    });
    bar.finish_and_clear();
    let summary = result?;
    output::say(&format!(
        "{}: exported, {} written, {} files shared\n",
        bundle.display(),
        output::size(summary.owned_bytes),
        summary.linked.len()
    ));
    std::fs::write(&stamp, hash).map_err(unusable)?;
    Ok(bundle)
}

/// SHA-256 of everything a bundle depends on: the checkpoints' files and this program.
fn hash(folders: &[PathBuf]) -> io::Result<String> {
    let mut files = vec![std::env::current_exe()?];
    for folder in folders {
        let mut listed: Vec<PathBuf> = std::fs::read_dir(folder)?
            .map(|e| e.map(|e| e.path()))
            .collect::<io::Result<_>>()?;
        listed.retain(|p| p.is_file());
        listed.sort();
        files.extend(listed);
    }
    let mut hash = Sha256::new();
    for path in files {
        let mut file = File::open(&path)?;
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        hash.update(name);
        hash.update(file.metadata()?.len().to_le_bytes());
        io::copy(&mut file, &mut HashWriter(&mut hash))?;
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// Feeds a hash with what is written.
struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
