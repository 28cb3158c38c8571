//! The CPU engine: ONNX Runtime with forkcast's kernels.
//!
//! Caches are plain vectors that every run borrows; recurrent states are values of the library that each commit
//! replaces, so nothing of the state is ever copied. The head runs for the rows that are asked for.

mod cache;
mod drafter;
mod graph;
mod library;
mod scope;
mod target;

pub use library::find as find_library;
pub use scope::LibraryScope;

use crate::backend::{Backend, BackendError, Candidates, Counters, RowBatch, Shape, Snapshot};
use crate::bundle::{Bundle, OpenError};
use crate::manifest::Dtype;
use crate::topk::{Scratch, top_k};
use drafter::Drafter;
use graph::{Graph, numbers};
use ort::value::{DynValue, TensorRef};
use std::ops::Range;
use std::path::{Path, PathBuf};
use target::Target;

/// Most rows of one pass that the CPU engine takes.
const MAX_ROWS: usize = 1025;
/// Prompt rows per pass: more rows lose precision in the chunk form of the delta rule (invariant 4).
const PREFILL_HYBRID: usize = 64;
/// The same for a dense target, where rows only amortise overhead.
const PREFILL_DENSE: usize = 256;

/// How to open an engine.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Threads of the library; all cores by default.
    pub threads: Option<usize>,
    /// Upper bound of prompt plus answer; the model's own by default.
    pub max_context: Option<usize>,
    /// The ONNX Runtime library; searched for by default (see [`find_library`]).
    pub library: Option<PathBuf>,
}

/// ONNX Runtime on the CPU with the state of one stream.
#[derive(Debug)]
pub struct OrtBackend {
    bundle: Bundle,
    shape: Shape,
    target: Target,
    head: Graph,
    drafter: Option<Drafter>,
    drafting: bool,
    drafted: Option<(Range<usize>, DynValue)>,
    gathered: Vec<f32>,
    scratch: Scratch,
    counters: Counters,
}

impl OrtBackend {
    /// Opens the bundle in `dir` and loads its graphs.
    ///
    /// # Errors
    /// The bundle is unusable, or the library is missing or refuses a graph.
    pub fn open(dir: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let bundle = Bundle::open(dir)?;
        if bundle.manifest.dtype != Dtype::F32 {
            return Err(OpenError::Dtype { dtype: bundle.manifest.dtype.name() });
        }
        let shape = shape(&bundle, options)?;
        let environment = library::environment(options.library.as_deref())?;
        let threads = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let drafter = match &bundle.manifest.drafter {
            Some(d) => Some(Drafter::open(environment, &bundle, d, threads)?),
            None => None,
        };
        Ok(Self {
            target: Target::open(environment, &bundle, threads)?,
            head: Graph::open(environment, &bundle, "head", threads)?,
            drafter,
            bundle,
            shape,
            drafting: false,
            drafted: None,
            gathered: Vec::new(),
            scratch: Scratch::default(),
            counters: Counters::default(),
        })
    }

    /// The open bundle.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Runs the head over `gathered` rows.
    fn run_head(&mut self) -> Result<DynValue, BackendError> {
        let (width, stage) = (self.shape.hidden, "verify");
        self.counters.head_runs += 1;
        self.counters.syncs += 1;
        let _scope = LibraryScope::enter();
        let rows = self.gathered.len() / width;
        let view = TensorRef::from_array_view(([rows, width], self.gathered.as_slice()))
            .map_err(|e| BackendError::Run { stage, reason: e.to_string() })?;
        let value = self.head.run(vec![("hidden".into(), view.into())])?.into_iter().next();
        value.ok_or_else(|| BackendError::Run { stage, reason: "the head returned nothing".to_owned() })
    }

    fn check_rows(&self, rows: &[u32]) -> Result<(), BackendError> {
        match rows.iter().find(|r| **r as usize >= self.target.rows()) {
            Some(row) => limit(format!("row {row} is not among the {} of the last verify", self.target.rows())),
            None => Ok(()),
        }
    }
}

fn limit<T>(text: String) -> Result<T, BackendError> {
    Err(BackendError::Limit(text))
}

fn shape(bundle: &Bundle, options: &OpenOptions) -> Result<Shape, OpenError> {
    let m = &bundle.manifest;
    let max_context = match options.max_context {
        Some(n) if n < 2 || n > m.max_context => {
            return Err(OpenError::Option(format!("max context {n} is outside 2..={} of this model", m.max_context)));
        }
        Some(n) => n,
        None => m.max_context,
    };
    let hybrid = m.target.layers.iter().any(|l| matches!(l, crate::manifest::Layer::DeltaNet(_)));
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
        self.drafted = None;
        if let Some(drafter) = &mut self.drafter {
            drafter.truncate(0);
        }
        self.target.reset()
    }

    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        if rows > self.shape.max_context {
            return limit(format!("{rows} rows exceed the context of {}", self.shape.max_context));
        }
        self.target.reserve(rows, self.shape.max_context);
        if let Some(drafter) = &mut self.drafter {
            drafter.reserve(rows, self.shape.max_context);
        }
        Ok(())
    }

    fn set_drafting(&mut self, on: bool) {
        self.drafting = on;
    }

    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        let n = batch.len();
        if n == 0 || n > MAX_ROWS || batch.positions.len() != n || batch.ancestors.len() != n * n {
            return limit(format!("a pass of {n} rows with {} positions", batch.positions.len()));
        }
        if let Some(token) = batch.tokens.iter().find(|t| **t as usize >= self.shape.vocab) {
            return limit(format!("token id {token} is outside the vocabulary of {}", self.shape.vocab));
        }
        self.reserve(self.committed() + n)?;
        self.target.verify(&self.bundle, batch)
    }

    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        self.check_rows(rows)?;
        let width = self.shape.hidden;
        let hidden = self.target.hidden()?;
        self.gathered.clear();
        for row in rows {
            self.gathered.extend_from_slice(&hidden[*row as usize * width..(*row as usize + 1) * width]);
        }
        let value = self.run_head()?;
        out.clear();
        out.extend_from_slice(numbers(&value, "verify")?);
        let _scope = LibraryScope::enter();
        drop(value);
        Ok(())
    }

    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        hidden.clear();
        hidden.extend_from_slice(self.target.hidden()?);
        taps.clear();
        taps.extend_from_slice(self.target.taps()?);
        Ok(())
    }

    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        self.check_rows(path)?;
        let start = self.committed();
        if self.drafting
            && let Some(drafter) = &mut self.drafter
            && drafter.rows() == start
        {
            drafter.extend(self.target.taps()?, self.shape.tap_width, path, start)?;
            self.counters.row_copies += (path.len() * drafter.cache_layers()) as u64;
        }
        self.target.commit(path)?;
        self.counters.row_copies += (path.len() * self.target.cache_layers()) as u64;
        Ok(())
    }

    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
        let committed = self.committed();
        let Some(drafter) = &mut self.drafter else { return limit("this model has no drafter".to_owned()) };
        if drafter.rows() != committed {
            return limit(format!("the drafter saw {} of {committed} committed rows", drafter.rows()));
        }
        {
            let _scope = LibraryScope::enter();
            self.drafted = None;
        }
        drafter.run(&self.bundle, anchor)
    }

    fn candidates(&mut self, modes: Range<usize>, k: usize, out: &mut Candidates) -> Result<(), BackendError> {
        let positions = self.shape.block.saturating_sub(1);
        if modes.is_empty() || modes.end > self.shape.modes {
            return limit(format!("modes {modes:?} of a drafter with {}", self.shape.modes));
        }
        if self.drafted.as_ref().is_none_or(|(done, _)| *done != modes) {
            let width = self.shape.hidden;
            let hidden = self.drafter.as_ref().map_or(Ok(&[][..]), Drafter::hidden)?;
            let Some(rows) = hidden.get(modes.start * positions * width..modes.end * positions * width) else {
                return limit("nothing was drafted".to_owned());
            };
            self.gathered.clear();
            self.gathered.extend_from_slice(rows);
            let value = self.run_head()?;
            self.drafted = Some((modes.clone(), value));
        }
        let Some((_, value)) = &self.drafted else { return limit("nothing was drafted".to_owned()) };
        let vocab = self.shape.vocab;
        let k = k.clamp(1, vocab);
        (out.modes, out.positions, out.k) = (modes.len(), positions, k);
        out.ids.clear();
        out.logp.clear();
        for row in numbers(value, "draft")?.chunks_exact(vocab) {
            if !top_k(row, k, &mut self.scratch, &mut out.ids, &mut out.logp) {
                self.counters.bad_draft_rows += 1;
            }
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Snapshot, BackendError> {
        self.target.snapshot()
    }

    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.target.rewind(snapshot)?;
        self.drafted = None;
        if let Some(drafter) = &mut self.drafter {
            drafter.truncate(snapshot.committed);
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
