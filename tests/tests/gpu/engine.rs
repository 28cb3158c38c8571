//! Engine directories whose plans are the ONNX messages themselves, and backends on them.

use crate::device::{Log, Sim};
use forkcast_engines::build::{BuildError, BuildOptions, Compiler, Listener, Prepared, build};
use forkcast_engines::engine::WeightMode;
use forkcast_engines::gpu::{GpuBackend, GpuError, GpuOptions};
use forkcast_engines::recipe::Recipe;
use forkcast_tests::bundles::Bundle;
use prost::Message;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Small buckets, so that tests cross them.
pub(crate) const RECIPE: &str = r#"
name = "simulated"
gpu = "host memory"
sm = 120
flavour = "tensorrt-rtx"
precision = "f32"
rows = [1, 16, 32]
context = [128, 512]
workspace_mib = 64

[hardware]
memory_gib = 1
bandwidth_gb_s = 1.0
tflops_bf16 = 1.0
source = "none"
"#;

/// Passes messages on as they are.
struct Verbatim;

impl Compiler for Verbatim {
    fn version(&self) -> String {
        "1.7.1".to_owned()
    }

    fn compile(&self, graph: &Prepared, _: &Recipe, _: &Listener) -> Result<Vec<u8>, BuildError> {
        Ok(graph.model.encode_to_vec())
    }
}

/// An engine directory beside its bundle.
pub(crate) struct EngineDir {
    pub(crate) bundle: Bundle,
}

impl EngineDir {
    pub(crate) fn build(bundle: Bundle, weights: WeightMode) -> Self {
        let made = Self { bundle };
        let options = BuildOptions {
            bundle: made.bundle.path(),
            recipe: Recipe::parse("simulated", RECIPE).expect("a recipe"),
            out: made.path(),
            weights,
            keep_onnx: false,
        };
        let listener: Listener = Arc::new(|_| true);
        build(&options, &Verbatim, &listener).unwrap_or_else(|e| panic!("{e}"));
        made
    }

    pub(crate) fn trained(target: &str, drafter: &str) -> Self {
        Self::build(Bundle::trained(target, drafter), WeightMode::Inputs)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.bundle.folder.path().join("engine")
    }

    pub(crate) fn try_open(&self, device: Sim, options: &GpuOptions) -> Result<GpuBackend<Sim>, GpuError> {
        GpuBackend::open(device, &self.path(), options, &mut |_| ())
    }

    /// A backend whose plans run on ONNX Runtime.
    pub(crate) fn open(&self) -> GpuBackend<Sim> {
        let opened = self.try_open(Sim::default(), &GpuOptions::default());
        opened.unwrap_or_else(|e| panic!("{e}"))
    }

    /// A backend whose plans do nothing, and its log.
    pub(crate) fn open_idle(&self) -> (GpuBackend<Sim>, Rc<RefCell<Log>>) {
        let mut device = Sim::default();
        device.idle = true;
        let log = Rc::clone(&device.log);
        let opened = self.try_open(device, &GpuOptions::default());
        (opened.unwrap_or_else(|e| panic!("{e}")), log)
    }
}
