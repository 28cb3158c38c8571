//! Function bodies by flavour: TensorRT-RTX has no user plugins and compiles bodies; TensorRT 11 calls plugins, and its
//! parser would prefer a body, so there must be none.

use crate::engine::PREFILL_ROWS;
use crate::recipe::Flavour;
use forkcast_plugins::bodies::tensorrt;
use forkcast_plugins::onnx::proto::ModelProto;
use std::collections::BTreeSet;

/// Gives `model` the bodies that the flavour needs for `stage`.
pub(super) fn replace(model: &mut ModelProto, stage: &str, flavour: Flavour) {
    match flavour {
        Flavour::TensorrtRtx => {
            let nodes = model.graph.iter().flat_map(|g| &g.node);
            let custom = nodes.filter(|n| n.domain() == forkcast_plugins::ops::DOMAIN);
            let used: BTreeSet<String> = custom.map(|n| n.op_type().to_owned()).collect();
            let bodies = if stage == "prefill" {
                tensorrt::chains(PREFILL_ROWS)
            } else {
                tensorrt::trees()
            };
            // Bodies of fused operators are standard operators, the same everywhere.
            model
                .functions
                .retain(|f| f.domain() == forkcast_plugins::ops::fused::DOMAIN);
            model
                .functions
                .extend(bodies.into_iter().filter(|f| used.contains(f.name())));
        }
        Flavour::Tensorrt => {
            forkcast_plugins::bodies::strip_bodies(model);
        }
    }
}
