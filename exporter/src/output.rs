//! The folder that is written: beside the final place, renamed into it when complete.

use crate::ExportError;
use crate::weights::{Owned, hash_file};
use forkcast_engines::manifest::{self, Manifest, ManifestError, OwnedFile};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// Refuses a place that holds something other than a bundle.
pub(crate) fn check(out: &Path) -> Result<(), ExportError> {
    if out.file_name().is_none() {
        return Err(ExportError::usage(
            format!("--out {}: is no folder name", out.display()),
            "name a new folder",
        ));
    }
    let Ok(found) = fs::symlink_metadata(out) else {
        return Ok(());
    };
    if found.is_symlink() {
        // A rename would replace the link and leave what it points to.
        return Err(ExportError::usage(
            format!("--out {}: is a symbolic link", out.display()),
            "name the folder that it points to",
        ));
    }
    if is_bundle(out) || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none()) {
        return Ok(());
    }
    Err(ExportError::usage(
        format!("--out {}: exists and is not a forkcast bundle", out.display()),
        "name a new folder, or remove this one",
    ))
}

fn is_bundle(dir: &Path) -> bool {
    fs::read(dir.join(manifest::FILE_NAME))
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        .is_some_and(|v| v.get("schema").is_some() && v.get("forkcast").is_some())
}

/// A bundle under construction. Dropped unfinished, it leaves nothing behind.
pub(crate) struct Staging {
    dir: TempDir,
    out: PathBuf,
    /// Parent folders that were made for it, outermost first.
    made: Vec<PathBuf>,
}

impl Staging {
    /// Makes the temporary folder beside `out`, and missing parents.
    pub(crate) fn create(out: &Path) -> Result<Self, ExportError> {
        let parent = match out.parent() {
            Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut made: Vec<PathBuf> = parent
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_owned)
            .collect();
        made.reverse();
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let dir = fs::create_dir_all(&parent).and_then(|()| {
            tempfile::Builder::new()
                .prefix(&format!(".{name}.part-"))
                // A bundle is no secret: the usual mode, cut by the umask.
                .permissions(fs::Permissions::from_mode(0o777))
                .tempdir_in(&parent)
        });
        match dir {
            Ok(dir) => Ok(Self {
                dir,
                out: out.to_owned(),
                made,
            }),
            Err(source) => {
                made.iter().rev().for_each(|p| drop(fs::remove_dir(p)));
                Err(ExportError::Write { path: parent, source })
            }
        }
    }

    /// Where files go meanwhile.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a small file.
    pub(crate) fn write(&self, name: &str, data: &[u8]) -> Result<OwnedFile, ExportError> {
        let mut file = Owned::create(self.path(), name)?;
        file.append(data)?;
        file.finish()
    }

    /// Copies a file.
    pub(crate) fn copy(&self, from: &Path, name: &str) -> Result<OwnedFile, ExportError> {
        let mut source = File::open(from).map_err(ExportError::read(from))?;
        let mut file = Owned::create(self.path(), name)?;
        let mut buffer = vec![0_u8; 1 << 16];
        loop {
            let n = source.read(&mut buffer).map_err(ExportError::read(from))?;
            if n == 0 {
                return file.finish();
            }
            file.append(buffer.get(..n).unwrap_or_default())?;
        }
    }

    /// Replaces `file` by a hard link to an equal file of the bundle `other`; false when there is none.
    pub(crate) fn link(
        &self,
        file: &OwnedFile,
        other: &Path,
        listed: &Manifest,
    ) -> Result<bool, ExportError> {
        let twin = listed
            .files
            .iter()
            .find(|f| f.bytes == file.bytes && f.sha256 == file.sha256);
        let Some(twin) = twin else {
            return Ok(false);
        };
        let from = other.join(&twin.name);
        // The list may be older than the file: only what is really there counts.
        if !fs::metadata(&from).is_ok_and(|m| m.len() == file.bytes) || hash_file(&from)? != file.sha256 {
            return Ok(false);
        }
        let own = self.path().join(&file.name);
        let aside = self.path().join(".link");
        // Another file system, or one without links: the written copy stays.
        if fs::hard_link(&from, &aside).is_err() {
            return Ok(false);
        }
        fs::rename(&aside, &own).map_err(ExportError::write(&own))?;
        Ok(true)
    }

    /// Writes the manifest, brings the folder to disk and renames it into place.
    pub(crate) fn finish(mut self, m: &Manifest) -> Result<(), ExportError> {
        manifest::write(self.path(), m).map_err(from_manifest)?;
        // What was written must be readable: a contradiction is found here and not by the next user.
        manifest::read(self.path()).map_err(from_manifest)?;
        sync_dir(self.path())?;
        let replaced = self.replace();
        if replaced.is_ok() {
            self.made.clear();
            self.dir.disable_cleanup(true);
            if let Some(parent) = self.out.parent().filter(|p| !p.as_os_str().is_empty()) {
                sync_dir(parent)?;
            }
        }
        replaced
    }

    fn replace(&self) -> Result<(), ExportError> {
        let write = ExportError::write(&self.out);
        if fs::symlink_metadata(&self.out).is_err() {
            return fs::rename(self.path(), &self.out).map_err(write);
        }
        // std has no exchange of two folders: the old one steps aside and comes back if the new one fails.
        let parent = self.path().parent().unwrap_or(Path::new("."));
        let aside = tempfile::Builder::new()
            .prefix(".forkcast-old-")
            .tempdir_in(parent)
            .map_err(ExportError::write(parent))?;
        let old = aside.path().join("bundle");
        let moved = fs::rename(&self.out, &old).and_then(|()| {
            fs::rename(self.path(), &self.out).inspect_err(|_| drop(fs::rename(&old, &self.out)))
        });
        moved.map_err(write)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.made.is_empty() {
            return;
        }
        // Parents can go only when they are empty, so the folder inside goes first.
        drop(fs::remove_dir_all(self.dir.path()));
        self.made.iter().rev().for_each(|p| drop(fs::remove_dir(p)));
    }
}

fn sync_dir(dir: &Path) -> Result<(), ExportError> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(ExportError::write(dir))
}

fn from_manifest(error: ManifestError) -> ExportError {
    match error {
        ManifestError::Io { path, source } => ExportError::Write { path, source },
        ManifestError::Invalid { path, reason } => ExportError::file(&path, reason),
        other => ExportError::file(Path::new(manifest::FILE_NAME), other.to_string()),
    }
}

/// How the bundle `out` refers to the checkpoint folder `dir`: as given when absolute, else relative to
/// the bundle, so that both can move together.
pub(crate) fn reference(out: &Path, dir: &Path) -> Result<PathBuf, ExportError> {
    if dir.is_absolute() {
        return Ok(dir.to_owned());
    }
    // Symbolic links are resolved first: `..` means the real parent.
    let to = fs::canonicalize(dir).map_err(ExportError::read(dir))?;
    let existing = std::path::absolute(out).map_err(ExportError::read(out))?;
    let parent = existing.parent().unwrap_or(Path::new("/"));
    let base = parent.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    let tail = parent.strip_prefix(base).unwrap_or(Path::new(""));
    let from = fs::canonicalize(base)
        .map_err(ExportError::read(base))?
        .join(tail)
        .join(existing.file_name().unwrap_or_default());
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    Ok(up.chain(to.components().skip(shared)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run in the folder of the crate, so `src` is a relative folder that exists.
    #[test]
    fn relative_checkpoints_are_found_from_the_bundle() {
        let root = tempfile::tempdir().expect("temporary folder");
        for out in ["bundle", "a/b/bundle"] {
            let out = root.path().join(out);
            let path = reference(&out, Path::new("src")).expect("a path");
            assert!(path.is_relative(), "{}", path.display());
            fs::create_dir_all(&out).expect("folder");
            let found = fs::canonicalize(out.join(&path)).expect("exists");
            assert_eq!(found, fs::canonicalize("src").expect("exists"));
        }
        let path = reference(Path::new("no/such/bundle"), Path::new("src")).expect("a path");
        assert_eq!(path, Path::new("../../../src"));
    }

    #[test]
    fn absolute_checkpoints_stay_as_given() {
        let path = reference(Path::new("bundle"), Path::new("/models/x")).expect("a path");
        assert_eq!(path, Path::new("/models/x"));
    }
}
