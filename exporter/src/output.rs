//! The bundle under construction: files are written into a staging folder, the manifest comes last.

use crate::ExportError;
use crate::weights::{Owned, hash_file};
use forkcast_engines::manifest::{self, Manifest, ManifestError, OwnedFile};
use forkcast_engines::staging::{self, StagingError};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Refuses a place that holds something other than a bundle.
pub(crate) fn check(out: &Path) -> Result<(), ExportError> {
    staging::check(out, "bundle", files_of_bundle).map_err(from_staging)
}

/// Names of the files of the bundle in `dir`, also of one that another version wrote.
fn files_of_bundle(dir: &Path) -> Option<BTreeSet<String>> {
    let text = fs::read(dir.join(manifest::FILE_NAME)).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
    value.get("schema").and(value.get("forkcast"))?;
    let files = value.get("files").and_then(|f| f.as_array());
    let names = files
        .into_iter()
        .flatten()
        .filter_map(|f| f.get("name")?.as_str());
    Some(
        names
            .chain([manifest::FILE_NAME, forkcast_engines::model::TUNE_NAME])
            .map(str::to_owned)
            .collect(),
    )
}

/// A bundle under construction. Dropped unfinished, it leaves nothing behind.
pub(crate) struct Staging(staging::Staging);

impl Staging {
    /// Makes the temporary folder beside `out`, and missing parents.
    pub(crate) fn create(out: &Path) -> Result<Self, ExportError> {
        staging::Staging::create(out).map(Self).map_err(from_staging)
    }

    /// Where files go meanwhile.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
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
    pub(crate) fn finish(self, m: &Manifest) -> Result<(), ExportError> {
        manifest::write(self.path(), m).map_err(from_manifest)?;
        // What was written must be readable: a contradiction is found here and not by the next user.
        manifest::read(self.path()).map_err(from_manifest)?;
        self.0.finish().map_err(from_staging)
    }
}

fn from_staging(error: StagingError) -> ExportError {
    let reason = error.to_string();
    match error {
        StagingError::Place { hint, .. } => ExportError::usage(reason, hint),
        StagingError::Write { path, source } => ExportError::Write { path, source },
        StagingError::Read { path, source } => ExportError::Read { path, source },
    }
}

fn from_manifest(error: ManifestError) -> ExportError {
    match error {
        ManifestError::Io { path, source } => ExportError::Write { path, source },
        ManifestError::Invalid { path, reason } => ExportError::file(&path, reason),
        other => ExportError::file(Path::new(manifest::FILE_NAME), other.to_string()),
    }
}

/// How the bundle `out` refers to the checkpoint folder `dir`.
pub(crate) fn reference(out: &Path, dir: &Path) -> Result<PathBuf, ExportError> {
    staging::reference(out, dir).map_err(from_staging)
}
