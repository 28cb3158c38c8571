//! Finding a model by hub id in the local Hugging Face cache. Nothing is ever downloaded.

use crate::ExportError;
use std::path::{Path, PathBuf};

/// Folder of the local cache (`models--ORG--NAME` folders lie in it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubCache {
    root: PathBuf,
}

impl HubCache {
    /// A cache at a given place.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The cache the hub's own client would use: `HF_HUB_CACHE`, else `HF_HOME/hub`, else
    /// `XDG_CACHE_HOME/huggingface/hub`, else `~/.cache/huggingface/hub`.
    #[must_use]
    pub fn from_env() -> Self {
        let var = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let root = var("HF_HUB_CACHE")
            .or_else(|| var("HF_HOME").map(|p| p.join("hub")))
            .or_else(|| var("XDG_CACHE_HOME").map(|p| p.join("huggingface/hub")))
            .or_else(|| var("HOME").map(|p| p.join(".cache/huggingface/hub")))
            .unwrap_or_default();
        Self { root }
    }

    /// The folder that `model` names: an existing folder is taken as it is, otherwise a hub id is looked up.
    ///
    /// # Errors
    /// `model` is a file, is no folder and no hub id, or its snapshot is not in the cache.
    pub fn resolve(&self, model: &str) -> Result<PathBuf, ExportError> {
        let path = Path::new(model);
        if path.is_dir() {
            return Ok(path.to_owned());
        }
        if path.exists() {
            return Err(ExportError::file(path, "is a file; a checkpoint is a folder"));
        }
        let Some((org, name)) = split_id(model) else {
            return Err(ExportError::file(path, "no such folder")
                .with_hint("give a folder or a hub id such as ORG/NAME"));
        };
        self.snapshot(model, org, name)
    }

    fn snapshot(&self, id: &str, org: &str, name: &str) -> Result<PathBuf, ExportError> {
        let refuse = |reason: String| ExportError::Hub {
            id: id.to_owned(),
            reason,
        };
        let model = self.root.join(format!("models--{org}--{name}"));
        let snapshots = model.join("snapshots");
        if !snapshots.is_dir() {
            return Err(refuse(format!(
                "no such folder, and not in the local hub cache {}",
                self.root.display()
            )));
        }
        let reference = model.join("refs/main");
        let folder = match std::fs::read_to_string(&reference) {
            Ok(text) => {
                let revision = text.trim();
                if !plain(revision) {
                    return Err(refuse(format!(
                        "{} holds {revision:?}, which is no revision",
                        reference.display()
                    )));
                }
                snapshots.join(revision)
            }
            // A download of a fixed revision writes no ref: a single snapshot is then meant.
            Err(_) => only_folder(&snapshots).ok_or_else(|| {
                refuse(format!(
                    "{} is missing and {} has not exactly one snapshot",
                    reference.display(),
                    snapshots.display()
                ))
            })?,
        };
        if !folder.join("config.json").is_file() {
            return Err(refuse(format!(
                "snapshot {} has no config.json (incomplete download?)",
                folder.display()
            )));
        }
        Ok(folder)
    }
}

fn only_folder(dir: &Path) -> Option<PathBuf> {
    let mut folders = std::fs::read_dir(dir)
        .ok()?
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.is_dir());
    let first = folders.next()?;
    folders.next().is_none().then_some(first)
}

/// `ORG/NAME` with the characters that the hub allows.
fn split_id(model: &str) -> Option<(&str, &str)> {
    let (org, name) = model.split_once('/')?;
    (plain(org) && plain(name)).then_some((org, name))
}

fn plain(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with(['.', '-'])
        && !part.contains("..")
        && part
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, HubCache, PathBuf) {
        let dir = tempfile::tempdir().expect("temporary folder");
        let model = dir.path().join("models--Org--Name.5-x");
        std::fs::create_dir_all(model.join("snapshots/abc")).expect("folders");
        let cache = HubCache::at(dir.path());
        (dir, cache, model)
    }

    #[test]
    fn the_ref_picks_the_snapshot() {
        let (_keep, cache, model) = cache();
        std::fs::create_dir_all(model.join("snapshots/def")).expect("folder");
        std::fs::create_dir_all(model.join("refs")).expect("folder");
        std::fs::write(model.join("refs/main"), "def\n").expect("file");
        std::fs::write(model.join("snapshots/def/config.json"), "{}").expect("file");
        let found = cache.resolve("Org/Name.5-x").expect("resolves");
        assert_eq!(found, model.join("snapshots/def"));
    }

    #[test]
    fn without_a_ref_one_snapshot_is_enough_and_two_are_not() {
        let (_keep, cache, model) = cache();
        std::fs::write(model.join("snapshots/abc/config.json"), "{}").expect("file");
        assert_eq!(
            cache.resolve("Org/Name.5-x").expect("resolves"),
            model.join("snapshots/abc")
        );
        std::fs::create_dir_all(model.join("snapshots/def")).expect("folder");
        let text = cache.resolve("Org/Name.5-x").expect_err("ambiguous").to_string();
        assert!(text.contains("has not exactly one snapshot"), "{text}");
    }

    #[test]
    fn a_missing_model_names_the_download_command() {
        let (_keep, cache, model) = cache();
        let error = cache.resolve("Org/Other").expect_err("absent");
        assert!(
            error
                .to_string()
                .starts_with("Org/Other: no such folder, and not in the local hub cache")
        );
        assert_eq!(error.hint().as_deref(), Some("hf download Org/Other"));
        let error = cache.resolve("Org/Name.5-x").expect_err("no config");
        assert!(error.to_string().contains("has no config.json"), "{error}");
        std::fs::create_dir_all(model.join("refs")).expect("folder");
        std::fs::write(model.join("refs/main"), "../../elsewhere").expect("file");
        let error = cache.resolve("Org/Name.5-x").expect_err("hostile ref");
        assert!(error.to_string().contains("which is no revision"), "{error}");
    }

    #[test]
    fn a_path_that_is_no_id_is_a_missing_folder() {
        let (_keep, cache, _) = cache();
        for model in ["nowhere", "a/b/c", "../x", "/nowhere/y", ""] {
            let text = cache.resolve(model).expect_err("absent").to_string();
            assert!(text.contains("no such folder"), "{model}: {text}");
        }
    }
}
