//! Writing the file that a bundle owns: stream in, convert, stream out, hash on the way.

use super::convert::{CHUNK, Converter};
use super::plan::{Job, Store};
use crate::checkpoint::header::hex;
use crate::{ExportError, Progress};
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
    fn pad(&mut self, offset: u64) -> Result<(), ExportError> {
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

impl Store<'_> {
    /// Writes the planned tensors into `dir`; `None` when there are none.
    pub(crate) fn write(
        &self,
        dir: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<OwnedFile>, ExportError> {
        if self.jobs.is_empty() {
            return Ok(None);
        }
        let name = self.file_name();
        let mut out = Owned::create(dir, &name)?;
        let mut buffers = Buffers::default();
        for job in &self.jobs {
            out.pad(job.offset)?;
            self.write_job(job, &mut out, &mut buffers)?;
            progress(Progress::Bytes {
                file: name.clone(),
                done: out.bytes,
                total: self.owned_bytes(),
            });
        }
        out.finish().map(Some)
    }

    fn write_job(&self, job: &Job, out: &mut Owned, buffers: &mut Buffers) -> Result<(), ExportError> {
        let Buffers {
            input,
            output,
            converter,
        } = buffers;
        for (stored, dtype) in &job.sources {
            let mut at = 0;
            while at < stored.entry.length {
                let chunk = (CHUNK * dtype.size()) as u64;
                let n = chunk.min(stored.entry.length - at);
                input.resize(usize::try_from(n).unwrap_or(CHUNK), 0);
                self.checkpoint.read(stored, at, input)?;
                converter
                    .run(input, *dtype, job.transform, job.dtype, output)
                    .map_err(|lost| {
                        let path = self.checkpoint.path_of(stored);
                        let reason = format!("{lost} does not fit type {}", job.dtype.name());
                        ExportError::tensor(path, &stored.entry.name, reason)
                            .with_hint("export --dtype bf16 or --dtype f32")
                    })?;
                out.append(output)?;
                at += n;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
    converter: Converter,
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
