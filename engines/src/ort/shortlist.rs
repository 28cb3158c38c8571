//! Some rows of the head as a small head of its own: what drafting may read instead of the whole vocabulary.

use super::graph::{Graph, Loader, Port, Signature};
use super::memory::Element;
use crate::backend::BackendError;
use crate::manifest::Dtype;
use forkcast_plugins::onnx::{self, Dim, ElementType, GraphBuilder, attr_i};
use prost::Message;

/// Largest copy of head rows, in bytes: a graph must stay below 2 GiB.
const MAX_BYTES: usize = 1 << 30;

/// A head over `ids.len()` rows of the vocabulary.
#[derive(Debug)]
pub(super) struct Shortlist {
    pub(super) graph: Graph,
    /// Token of each column of its logits, ascending.
    pub(super) ids: Vec<u32>,
}

impl Shortlist {
    /// Copies rows `ids` of the head.
    ///
    /// # Errors
    /// No ids, an id outside of the vocabulary or twice, rows that are no float32, too many of them, or the library fails.
    pub(super) fn open(loader: &Loader<'_>, ids: &[u32]) -> Result<Self, BackendError> {
        let limit = |text: String| Err(BackendError::Limit(format!("draft vocabulary: {text}")));
        let target = &loader.bundle.manifest.target;
        let (vocab, width) = (target.vocab, target.hidden);
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        if ids.is_empty() {
            return limit("it holds no token".to_owned());
        }
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return limit(format!("token id {} is in it twice", pair[0]));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
            return limit(format!("token id {id} is outside the vocabulary of {vocab}"));
        }
        if ids.len() * width * 4 > MAX_BYTES {
            return limit(format!(
                "{} rows of {width} numbers exceed {MAX_BYTES} bytes",
                ids.len()
            ));
        }
        let head = loader.bundle.manifest.graphs.get("head");
        let matrix = head.and_then(|g| g.initializers.first()).map(|i| &i.data);
        let Some(matrix) = matrix.filter(|m| m.dtype == Dtype::F32 && m.shape == [vocab, width]) else {
            return limit("the head of this bundle is not a float32 matrix".to_owned());
        };
        let bytes = loader.bundle.bytes(matrix);
        let mut rows = Vec::with_capacity(ids.len() * width);
        for id in &ids {
            let row = &bytes[*id as usize * width * 4..][..width * 4];
            rows.extend(
                row.chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            );
        }
        let ports = Signature {
            inputs: vec![Port::new("hidden", Element::F32, &[None, Some(width)])],
            outputs: vec![Port::new("logits", Element::F32, &[None, Some(ids.len())])],
        };
        let graph = loader.open_made("draft head", &model(&rows, ids.len(), width), ports);
        Ok(Self {
            graph: graph.map_err(|e| BackendError::Run {
                stage: "draft",
                reason: e.to_string(),
            })?,
            ids,
        })
    }
}

/// `logits [R,n] = hidden [R,H] rows^T`
fn model(rows: &[f32], n: usize, width: usize) -> Vec<u8> {
    let mut b = GraphBuilder::new("draft_head");
    b.input("hidden", ElementType::F32, &[Dim::Symbol("R"), Dim::Fixed(width)]);
    let w = b.const_f32(rows, &[n as i64, width as i64]);
    b.named("Gemm", &["hidden", &w], &["logits"], vec![attr_i("transB", 1)]);
    b.output("logits", ElementType::F32, &[Dim::Symbol("R"), Dim::Fixed(n)]);
    onnx::model(b.finish(), Vec::new()).encode_to_vec()
}
