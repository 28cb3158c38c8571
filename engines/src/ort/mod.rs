//! The CPU engine: ONNX Runtime with forkcast's kernels.
//!
//! Every value that crosses the border is memory of ours ([`memory::Tensor`]), bound in place: nothing is copied into
//! or out of the library, and a round of a known shape allocates nothing. Recurrent states have two sides; a commit
//! reads one and writes the other. The head runs for the rows that are asked for, straight into the caller's buffer.
//!
//! Weights stay memory-mapped and are shared by all graphs ([`weights`]); all graphs share one pool of threads
//! ([`library`]).

mod cache;
mod drafter;
mod gemm;
mod graph;
mod head;
mod initializers;
mod library;
mod memory;
mod scope;
mod shortlist;
mod state;
mod target;
mod weights;

pub use gemm::gemm_rate;
pub use library::{find as find_library, session_builder};
pub use scope::LibraryScope;

use crate::backend::{Backend, BackendError, Candidates, Counters, RowBatch, Shape, Snapshot};
use crate::bundle::{Bundle, OpenError};
use crate::manifest::{self, Dtype, Layer, Manifest};
use drafter::Drafter;
use graph::{Graph, Loader};
use head::Head;
use library::Library;
use memory::Element;
use shortlist::Shortlist;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use target::Target;
use weights::Weights;

/// Most rows of one pass that the CPU engine takes: the anchor and the largest budget.
const MAX_ROWS: usize = 1025;
/// Prompt rows per pass: more rows lose precision in the chunk form of the delta rule (invariant 4).
const PREFILL_HYBRID: usize = 64;
/// The same for a dense target, where rows only amortise overhead.
const PREFILL_DENSE: usize = 256;
/// Most threads that can be asked for.
const MAX_THREADS: usize = 1024;

/// How to open an engine.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Threads of the library; all cores by default.
    pub threads: Option<usize>,
    /// Upper bound of prompt plus answer; the model's own by default.
    pub max_context: Option<usize>,
    /// The ONNX Runtime library; searched for by default (see [`find_library`]).
    pub library: Option<PathBuf>,
    /// Bundle whose drafter is used instead of the bundle's own, of the same shape.
    pub drafter: Option<PathBuf>,
}

/// ONNX Runtime on the CPU with the state of one stream.
#[derive(Debug)]
pub struct OrtBackend {
    bundle: Bundle,
    shape: Shape,
    target: Target,
    head: Head,
    drafter: Option<Drafter>,
    drafting: bool,
    row_copies: u64,
    library: &'static Library,
    threads: usize,
}

impl OrtBackend {
    /// Opens the bundle in `dir` and loads its graphs.
    ///
    /// # Errors
    /// The bundle is unusable, or the library is missing or refuses a graph.
    pub fn open(dir: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let bundle = Bundle::open(dir)?;
        let element = match bundle.manifest.dtype {
            Dtype::F32 | Dtype::Int8 | Dtype::Int4 => Element::F32,
            Dtype::F16 => Element::F16,
            Dtype::Bf16 => {
                return Err(OpenError::Dtype {
                    dtype: bundle.manifest.dtype.name(),
                });
            }
        };
        let shape = shape(&bundle, options)?;
        let threads = match options.threads {
            Some(n) if n == 0 || n > MAX_THREADS => {
                return Err(OpenError::Option(format!(
                    "threads: {n} is outside 1..={MAX_THREADS}"
                )));
            }
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let library = library::load(options.library.as_deref(), threads)?;
        let loader = Loader {
            library,
            bundle: &bundle,
            weights: Weights::new(&bundle)?,
            threads,
        };
        let other = options.drafter.as_deref().map(Bundle::open).transpose()?;
        let drafter = match (&bundle.manifest.drafter, &other) {
            (Some(d), None) => Some(Drafter::open(&loader, d, element, shape.max_context)?),
            (_, Some(other)) => {
                let d = replaces(&bundle.manifest, other)?;
                let loader = Loader {
                    library,
                    bundle: other,
                    weights: Weights::new(other)?,
                    threads,
                };
                Some(Drafter::open(&loader, d, element, shape.max_context)?)
            }
            (None, None) => None,
        };
        Ok(Self {
            target: Target::open(&loader, element, shape.max_context)?,
            head: Head::open(&loader, shape.modes)?,
            drafter,
            bundle,
            shape,
            drafting: false,
            row_copies: 0,
            library,
            threads,
        })
    }

    /// The open bundle.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The loaded graphs.
    fn graphs(&self) -> impl Iterator<Item = &Graph> {
        let drafter = self.drafter.iter().flat_map(|d| [&d.context, &d.draft]);
        [&self.target.graph, &self.head.graph]
            .into_iter()
            .chain(&self.target.commit)
            .chain(drafter)
            .chain(self.head.short.iter().map(|s| &s.graph))
    }

    fn check_rows(&self, rows: &[u32]) -> Result<(), BackendError> {
        match rows.iter().find(|r| **r as usize >= self.target.rows()) {
            Some(row) => limit(format!(
                "row {row} is not among the {} of the last verify",
                self.target.rows()
            )),
            None => Ok(()),
        }
    }

    /// Refuses rows that no kernel is meant for.
    fn check_batch(&self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        let n = batch.len();
        if n == 0 || n > MAX_ROWS {
            return limit(format!("{n} rows in one pass; 1..={MAX_ROWS} are possible"));
        }
        if batch.positions.len() != n || batch.ancestors.len() != n * n {
            let (p, a) = (batch.positions.len(), batch.ancestors.len());
            return limit(format!("{n} rows with {p} positions and {a} visibilities"));
        }
        if let Some(token) = batch.tokens.iter().find(|t| **t as usize >= self.shape.vocab) {
            return limit(format!(
                "token id {token} is outside the vocabulary of {}",
                self.shape.vocab
            ));
        }
        if let Some(position) = batch.positions.iter().find(|p| **p < 0) {
            return limit(format!("position {position} is negative"));
        }
        let seen: &[u8] = bytemuck::cast_slice(batch.ancestors);
        for (i, line) in seen.chunks_exact(n).enumerate() {
            if line[i] == 0 || line[i + 1..].iter().fold(0, |any, b| any | b) != 0 {
                return limit(format!("row {i} must see itself and no later row"));
            }
        }
        Ok(())
    }
}

/// The drafter of `other`, which must be of the shape of the drafter of `own`.
fn replaces<'a>(own: &Manifest, other: &'a Bundle) -> Result<&'a manifest::Drafter, OpenError> {
    let refuse = |reason: String| {
        Err(OpenError::Option(format!(
            "--drafter {}: {reason}",
            other.dir.display()
        )))
    };
    let found = &other.manifest;
    let Some(drafter) = &found.drafter else {
        return refuse("this bundle has no drafter".to_owned());
    };
    let pairs = [
        (
            "drafter",
            format!("{:?}", own.drafter),
            format!("{:?}", found.drafter),
        ),
        ("taps", format!("{:?}", own.taps), format!("{:?}", found.taps)),
        ("dtype", format!("{:?}", own.dtype), format!("{:?}", found.dtype)),
        (
            "hidden and vocabulary size",
            format!("{:?}", (own.target.hidden, own.target.vocab)),
            format!("{:?}", (found.target.hidden, found.target.vocab)),
        ),
    ];
    match pairs.into_iter().find(|(_, a, b)| a != b) {
        Some((field, expected, found)) => refuse(format!("{field} is {found}, this model takes {expected}")),
        None => Ok(drafter),
    }
}

fn limit<T>(text: String) -> Result<T, BackendError> {
    Err(BackendError::Limit(text))
}

fn shape(bundle: &Bundle, options: &OpenOptions) -> Result<Shape, OpenError> {
    let m = &bundle.manifest;
    let max_context = match options.max_context {
        Some(n) if n < 2 || n > m.max_context => {
            return Err(OpenError::Option(format!(
                "max context {n} is outside 2..={} of this model",
                m.max_context
            )));
        }
        Some(n) => n,
        None => m.max_context,
    };
    let hybrid = m.target.layers.iter().any(|l| matches!(l, Layer::DeltaNet(_)));
    Ok(Shape {
        vocab: m.target.vocab,
        hidden: m.target.hidden,
        tap_width: m.taps.len() * m.target.hidden,
        block: m.drafter.as_ref().map_or(0, |d| d.block),
        modes: m.drafter.as_ref().map_or(0, |d| d.modes),
        max_context,
        max_rows: MAX_ROWS,
        prefill_rows: if hybrid { PREFILL_HYBRID } else { PREFILL_DENSE },
    })
}

impl Backend for OrtBackend {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn committed(&self) -> usize {
        self.target.committed()
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        self.head.forget();
        if let Some(drafter) = &mut self.drafter {
            drafter.truncate(0);
        }
        self.target.reset();
        Ok(())
    }

    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        if rows > self.shape.max_context {
            return limit(format!(
                "{rows} rows exceed the context of {}",
                self.shape.max_context
            ));
        }
        self.target.reserve(rows)?;
        self.drafter.as_mut().map_or(Ok(()), |d| d.reserve(rows))
    }

    fn set_drafting(&mut self, on: bool) {
        self.drafting = on;
    }

    fn limit_depth(&mut self, depth: usize) {
        self.head.depth = depth;
    }

    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        self.check_batch(batch)?;
        self.reserve(self.committed() + batch.len())?;
        self.target.verify(&self.bundle, batch)
    }

    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        self.check_rows(rows)?;
        self.head.logits(self.target.hidden(), rows, out)
    }

    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        hidden.clear();
        taps.clear();
        if self.target.rows() == 0 {
            return limit("nothing was verified since the last commit".to_owned());
        }
        state::append_f32(self.target.hidden(), hidden);
        if let Some(tensor) = self.target.taps() {
            state::append_f32(tensor, taps);
        }
        Ok(())
    }

    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        self.check_rows(path)?;
        if !self.target.is_root_path(path) {
            return limit(format!("{path:?} is not a path from the anchor along parents"));
        }
        let rows = path.len();
        // A drafter that missed rows stays behind, and `draft` says so.
        let start = self.target.committed();
        let drafter = self
            .drafter
            .as_mut()
            .filter(|d| self.drafting && d.rows() == start);
        match (drafter, self.target.taps()) {
            (Some(drafter), Some(taps)) => {
                drafter.project(taps, path)?;
                self.target.commit(path)?;
                drafter.append(rows);
                self.row_copies += (rows * drafter.cache_layers()) as u64;
            }
            _ => self.target.commit(path)?,
        }
        self.head.forget();
        self.row_copies += (rows * self.target.cache_layers()) as u64;
        Ok(())
    }

    fn shorten_draft(&mut self, ids: &[u32]) -> Result<(), BackendError> {
        if self.drafter.is_none() {
            return limit("draft vocabulary: this model has no drafter".to_owned());
        }
        let loader = Loader {
            library: self.library,
            bundle: &self.bundle,
            weights: Arc::default(),
            threads: self.threads,
        };
        self.head.shorten(Shortlist::open(&loader, ids)?);
        Ok(())
    }

    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
        let committed = self.committed();
        if anchor as usize >= self.shape.vocab {
            return limit(format!(
                "token id {anchor} is outside the vocabulary of {}",
                self.shape.vocab
            ));
        }
        let Some(drafter) = &mut self.drafter else {
            return limit("this model has no drafter".to_owned());
        };
        if drafter.rows() != committed {
            return limit(format!(
                "the drafter saw {} of {committed} committed rows",
                drafter.rows()
            ));
        }
        self.head.forget();
        drafter.run(&self.bundle, anchor)
    }

    fn candidates(
        &mut self,
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        if modes.is_empty() || modes.end > self.shape.modes {
            return limit(format!("modes {modes:?} of a drafter with {}", self.shape.modes));
        }
        match self.drafter.as_ref().and_then(Drafter::hidden) {
            Some(hidden) => self.head.candidates(hidden, modes, k, out),
            None => limit("nothing was drafted".to_owned()),
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, BackendError> {
        Ok(self.target.snapshot())
    }

    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.target.rewind(snapshot)?;
        self.head.forget();
        if let Some(drafter) = &mut self.drafter {
            drafter.truncate(snapshot.committed);
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters {
            syncs: self.graphs().map(|g| g.runs).sum(),
            row_copies: self.row_copies,
            head_runs: self.head.graph.runs + self.head.short.as_ref().map_or(0, |s| s.graph.runs),
            bad_draft_rows: self.head.bad_rows,
        }
    }

    fn library_time(&self) -> Duration {
        self.graphs().map(|g| g.time).sum()
    }
}
