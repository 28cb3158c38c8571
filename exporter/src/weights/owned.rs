//! A file of the bundle under construction.

use crate::ExportError;
use crate::checkpoint::header::hex;
use forkcast_engines::manifest::OwnedFile;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// A file under construction: counts and hashes what is written.
pub(crate) struct Owned {
    path: PathBuf,
    name: String,
    file: BufWriter<File>,
    bytes: u64,
    hash: Sha256,
}

impl Owned {
    /// Creates file `name` in `dir`.
    pub(crate) fn create(dir: &Path, name: &str) -> Result<Self, ExportError> {
        let path = dir.join(name);
        let file = File::create(&path).map_err(ExportError::write(&path))?;
        Ok(Self {
            path,
            name: name.to_owned(),
            file: BufWriter::with_capacity(1 << 20, file),
            bytes: 0,
            hash: Sha256::new(),
        })
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), ExportError> {
        self.file
            .write_all(data)
            .map_err(ExportError::write(&self.path))?;
        self.hash.update(data);
        self.bytes += data.len() as u64;
        Ok(())
    }

    /// Appends zeros up to byte `offset`.
    pub(super) fn pad(&mut self, offset: u64) -> Result<(), ExportError> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while self.bytes < offset {
            let n = usize::try_from(offset - self.bytes).unwrap_or(ZEROS.len());
            self.append(&ZEROS[..n.min(ZEROS.len())])?;
        }
        Ok(())
    }

    /// Brings the file to disk and describes it.
    pub(crate) fn finish(self) -> Result<OwnedFile, ExportError> {
        let file = self
            .file
            .into_inner()
            .map_err(|e| ExportError::write(&self.path)(e.into_error()))?;
        file.sync_all().map_err(ExportError::write(&self.path))?;
        Ok(OwnedFile {
            name: self.name,
            bytes: self.bytes,
            sha256: hex(&self.hash.finalize()),
        })
    }
}

/// SHA-256 of a whole file, hexadecimal.
pub(crate) fn hash_file(path: &Path) -> Result<String, ExportError> {
    let mut file = File::open(path).map_err(ExportError::read(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    loop {
        let n = file.read(&mut buffer).map_err(ExportError::read(path))?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(buffer.get(..n).unwrap_or_default());
    }
}
