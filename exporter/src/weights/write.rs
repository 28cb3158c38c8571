//! Writing the weights that a bundle owns: one thread reads and converts, another hashes and writes.

use super::Owned;
use super::convert::{CHUNK, Converter};
use super::plan::{Job, Store};
use crate::{ExportError, Progress};
use forkcast_engines::manifest::OwnedFile;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Chunks on their way to the writer; bounds the memory.
const DEPTH: usize = 4;
/// Bytes between two reports of progress.
const REPORT: u64 = 64 << 20;

/// Converted bytes and where they go.
struct Chunk {
    offset: u64,
    data: Vec<u8>,
}

/// Why the reading side stopped early.
enum Stop {
    /// An input is unusable.
    Input(ExportError),
    /// The writer failed and has the reason.
    Writer,
}

impl From<ExportError> for Stop {
    fn from(error: ExportError) -> Self {
        Self::Input(error)
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
        let out = Owned::create(dir, &self.file_name())?;
        std::thread::scope(|scope| {
            let (full, inbox) = sync_channel(DEPTH);
            let (empty, spares) = channel();
            let writer = scope.spawn(move || drain(out, &inbox, &empty));
            let read = self.produce(&full, &spares, progress);
            // Closes the channel: the writer then ends.
            drop(full);
            let written = writer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match read {
                Err(Stop::Input(error)) => Err(error),
                Ok(()) | Err(Stop::Writer) => written?.finish().map(Some),
            }
        })
    }

    fn produce(
        &self,
        full: &SyncSender<Chunk>,
        spares: &Receiver<Vec<u8>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Stop> {
        let mut pipe = Pipe {
            full,
            spares,
            input: Vec::new(),
            converter: Converter::default(),
        };
        let mut reported = 0;
        for job in &self.jobs {
            self.convert(job, &mut pipe, &mut |done| {
                if done >= reported + REPORT || done == self.owned_bytes() {
                    reported = done;
                    progress(Progress::Bytes {
                        file: self.file_name(),
                        done,
                        total: self.owned_bytes(),
                    });
                }
            })?;
        }
        Ok(())
    }

    fn convert(&self, job: &Job, pipe: &mut Pipe<'_>, done: &mut dyn FnMut(u64)) -> Result<(), Stop> {
        let mut offset = job.offset;
        for (stored, dtype) in &job.sources {
            let mut at = 0;
            while at < stored.entry.length {
                let chunk = (CHUNK * dtype.size()) as u64;
                let n = chunk.min(stored.entry.length - at);
                pipe.input.resize(usize::try_from(n).unwrap_or(CHUNK), 0);
                self.checkpoint.read(stored, at, &mut pipe.input)?;
                let mut data = pipe.spares.try_recv().unwrap_or_default();
                pipe.converter
                    .run(&pipe.input, *dtype, job.transform, job.dtype, &mut data)
                    .map_err(|lost| {
                        let path = self.checkpoint.path_of(stored);
                        let reason = format!("{lost} does not fit type {}", job.dtype.name());
                        ExportError::tensor(path, &stored.entry.name, reason)
                            .with_hint("export --dtype bf16 or --dtype f32")
                    })?;
                let length = data.len() as u64;
                pipe.full.send(Chunk { offset, data }).map_err(|_| Stop::Writer)?;
                offset += length;
                at += n;
                done(offset);
            }
        }
        Ok(())
    }
}

/// The reading side: where chunks go, where used buffers come back, and its own buffers.
struct Pipe<'a> {
    full: &'a SyncSender<Chunk>,
    spares: &'a Receiver<Vec<u8>>,
    input: Vec<u8>,
    converter: Converter,
}

/// The writing side.
fn drain(mut out: Owned, inbox: &Receiver<Chunk>, empty: &Sender<Vec<u8>>) -> Result<Owned, ExportError> {
    for chunk in inbox {
        out.pad(chunk.offset)?;
        out.append(&chunk.data)?;
        // Nobody may be left to take the buffer back: that is the end, not a failure.
        drop(empty.send(chunk.data));
    }
    Ok(out)
}
