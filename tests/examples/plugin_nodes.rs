//! Plugin nodes of a graph once it is stripped of its bodies, for `make -C plugins/cuda parse-test NODES=FILE`:
//! `cargo run --release -p forkcast-tests --example plugin_nodes -- GRAPH.onnx >FILE`.

use anyhow::{Context, Result};
use forkcast_plugins::bodies::strip_bodies;
use forkcast_plugins::onnx::proto::ModelProto;
use forkcast_tests::plugin_nodes::list;
use prost::Message;

fn main() -> Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .context("usage: plugin_nodes GRAPH.onnx")?;
    let bytes = std::fs::read(&path).with_context(|| format!("{}", path.display()))?;
    let mut model = ModelProto::decode(bytes.as_slice())?;
    strip_bodies(&mut model);
    print!("{}", list(&model)?);
    Ok(())
}
