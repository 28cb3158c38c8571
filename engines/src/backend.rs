//! What the decode loop asks of an engine. One loop is written over this trait; ONNX Runtime on the
//! CPU, TensorRT on a GPU and a scripted mock implement it.
//!
//! A backend owns the committed state of one stream: caches, recurrent and conv states, and the
//! drafter's context. `verify` never changes that state; only `commit` does, with the rows of the
//! last `verify` that were accepted. Buffers of results belong to the caller and are reused.

use std::time::Duration;

/// Rows of one verify pass, in topological order (`DESIGN` 3.1): row 0 is the anchor.
#[derive(Clone, Copy, Debug)]
pub struct RowBatch<'a> {
    /// Token of each row, `[N]`.
    pub tokens: &'a [u32],
    /// Absolute positions `[N]`: committed length plus depth.
    pub positions: &'a [i64],
    /// `[N, N]` row-major: row i may see row j; lower triangular, self included.
    pub ancestors: &'a [bool],
}

impl RowBatch<'_> {
    /// Number of rows N.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// Best continuations per drafted position, of every mode.
///
/// Entry `(m, p, r)` lies at `(m * positions + p) * k + r`; rank r is in non-increasing order of
/// `logp`, equal values by smaller id. `logp` is normalised over the **full** vocabulary
/// (`algorithms.md` 3.2), untempered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    /// Modes in this list.
    pub modes: usize,
    /// Drafted positions per mode (block - 1).
    pub positions: usize,
    /// Candidates per position.
    pub k: usize,
    /// Token ids.
    pub ids: Vec<u32>,
    /// Log-probabilities; finite or negative infinity, never NaN.
    pub logp: Vec<f32>,
}

/// Sizes that the loop needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Vocabulary size V.
    pub vocab: usize,
    /// Width H of the residual stream.
    pub hidden: usize,
    /// Tapped layers times H; 0 without taps.
    pub tap_width: usize,
    /// Rows of a draft block; 0 without a drafter.
    pub block: usize,
    /// Modes of the drafter; 0 without a drafter.
    pub modes: usize,
    /// Most committed rows plus rows of one pass.
    pub max_context: usize,
    /// Most rows of one pass.
    pub max_rows: usize,
    /// Rows per pass that prefill should use.
    pub prefill_rows: usize,
}

/// Work counted since the backend was made; the mock and the benches read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times the host waited for results.
    pub syncs: u64,
    /// Cache rows appended or copied.
    pub row_copies: u64,
    /// Runs of the head, each reading it once.
    pub head_runs: u64,
    /// Draft rows whose logits held a NaN and were replaced by no candidates.
    pub bad_draft_rows: u64,
}

/// What the sampler of a stream reads of a row of logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogitNeeds {
    /// Every entry.
    #[default]
    Full,
    /// The k best tokens with their logits.
    Top(usize),
    /// The best token.
    Greedy,
}

/// Recurrent part of the committed state at some length: enough, together with the cache rows
/// below that length, to continue from there.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Committed rows when it was taken.
    pub committed: usize,
    /// Conv and recurrent states in layer order.
    pub states: Vec<Vec<f32>>,
}

impl Snapshot {
    /// Bytes that the snapshot holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.states.iter().map(|s| s.len() * 4).sum()
    }
}

/// Failure while running an engine.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The caller asked for something outside the limits.
    #[error("{0}")]
    Limit(String),
    /// The library failed.
    #[error("{stage}: {reason}")]
    Run {
        /// Stage word (`prefill draft verify commit` ...).
        stage: &'static str,
        /// What the library said.
        reason: String,
    },
}

/// An engine with the state of one stream.
pub trait Backend {
    /// Sizes.
    fn shape(&self) -> Shape;

    /// Rows committed so far.
    fn committed(&self) -> usize;

    /// Forgets the stream: zero rows, zero states.
    ///
    /// # Errors
    /// The library fails.
    fn reset(&mut self) -> Result<(), BackendError>;

    /// Makes room for `rows` rows in all; growing keeps what is committed.
    ///
    /// # Errors
    /// `rows` exceeds `max_context`, or memory cannot be had.
    fn reserve(&mut self, rows: usize) -> Result<(), BackendError>;

    /// Whether `commit` also feeds the drafter. Switching on later than the first commit is an error
    /// at `draft`, so decide before prefill.
    fn set_drafting(&mut self, on: bool);

    /// Says how deep trees of the next drafts can be. An engine may then leave out the candidates of later positions, which
    /// no tree of a smaller budget reaches, and so read the head for fewer rows. Without a call all are given.
    fn limit_depth(&mut self, _depth: usize) {}

    /// Says what will be read of [`Self::logits`] from the next verify on. An engine may then return rows in which
    /// entries that are not needed are negative infinity; with [`LogitNeeds::Greedy`] the best entry may be any finite number.
    fn set_needs(&mut self, _needs: LogitNeeds) {}

    /// Runs the target over `batch`; committed state is unchanged.
    ///
    /// # Errors
    /// No room (see [`Self::reserve`]), a token outside the vocabulary, or the library fails.
    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError>;

    /// Logits of some rows of the last verify, row-major `[rows, V]`, in the order asked for.
    ///
    /// # Errors
    /// A row that the last verify did not have, or the library fails.
    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError>;

    /// Hidden states after the final norm `[N, H]` and taps `[N, tap_width]` of the last verify.
    ///
    /// # Errors
    /// The library fails.
    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError>;

    /// Commits rows of the last verify: `path` ascends from 0 along parents. Appends their keys and
    /// values, updates recurrent and conv states, feeds the drafter's context.
    ///
    /// # Errors
    /// A row that the last verify did not have, or the library fails.
    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError>;

    /// Runs the drafter for the block after the committed rows: `anchor` at position `committed`,
    /// then masks. All modes in one pass; results stay in the engine for [`Self::candidates`].
    ///
    /// # Errors
    /// No drafter, or the drafter's context lacks rows, or the library fails.
    fn draft(&mut self, anchor: u32) -> Result<(), BackendError>;

    /// The `k` best tokens at each drafted position of the last [`Self::draft`] (see [`Self::limit_depth`]), for modes
    /// `modes.start..modes.end`. `k` is cut to the vocabulary.
    ///
    /// # Errors
    /// Nothing was drafted, modes out of range, or the library fails.
    fn candidates(
        &mut self,
        modes: std::ops::Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError>;

    /// Reads only the rows `ids` of the head when drafting, from the next [`Self::draft`] on. Candidates are among them, their
    /// log-probabilities normalised over them; verification keeps the whole vocabulary, so the text is the same.
    ///
    /// # Errors
    /// The engine cannot, or the ids are none of its vocabulary.
    fn shorten_draft(&mut self, _ids: &[u32]) -> Result<(), BackendError> {
        Err(BackendError::Limit(
            "draft vocabulary: this engine reads the whole head when drafting".to_owned(),
        ))
    }

    /// Copies the recurrent part of the state.
    ///
    /// # Errors
    /// The library fails.
    fn snapshot(&mut self) -> Result<Snapshot, BackendError>;

    /// Goes back to a snapshot of this stream; the cache rows below its length must be untouched
    /// since it was taken.
    ///
    /// # Errors
    /// The snapshot is longer than the committed rows or of another shape.
    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError>;

    /// Counted work.
    fn counters(&self) -> Counters;

    /// Time spent inside the library since the backend was made.
    fn library_time(&self) -> Duration {
        Duration::ZERO
    }
}
