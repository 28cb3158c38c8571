//! Graphs stripped of their bodies, as TensorRT 11 gets them, against our plugin library in a fake plugin registry:
//! every `forkcast` node finds its creator, and the plugin gives the types and sizes that the graph has.

#[allow(dead_code, reason = "the exporter's tests use more of these modules")]
#[path = "../../exporter/tests/export/checkpoints.rs"]
mod checkpoints;
#[allow(dead_code, reason = "the exporter's tests use more of these modules")]
#[path = "../../exporter/tests/export/configs.rs"]
mod configs;
#[allow(dead_code, reason = "the exporter's tests use more of these modules")]
#[path = "../../exporter/tests/export/sparse.rs"]
mod sparse;

use forkcast_engines::manifest::Dtype;
use forkcast_exporter::{ExportOptions, export};
use forkcast_plugins::bodies::strip_bodies;
use forkcast_plugins::onnx::proto::ModelProto;
use forkcast_tests::paths::{golden, model, repository};
use forkcast_tests::plugin_nodes::list;
use prost::Message;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// The test host and the plugin library over the CPU kernels, built once; `make test` has built them already.
fn host() -> &'static (PathBuf, PathBuf) {
    static HOST: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    HOST.get_or_init(|| {
        let folder = repository().join("plugins/cuda");
        let targets = ["build/parse-test", "build/host/libforkcast_plugins.so"];
        // One make at a time: test runners start a process for every test.
        std::fs::create_dir_all(folder.join("build")).expect("a build folder");
        let lock = std::fs::File::create(folder.join("build/parse-test.lock")).expect("a lock file");
        lock.lock().expect("locked");
        let made = Command::new("make")
            .arg("-C")
            .arg(&folder)
            .args(targets)
            .output()
            .expect("make runs");
        assert!(
            made.status.success(),
            "the plugin library does not build:\n{}",
            String::from_utf8_lossy(&made.stderr)
        );
        (folder.join(targets[0]), folder.join(targets[1]))
    })
}

/// Runs the host on node lists; its report, and whether it was content.
fn parse(lists: &[PathBuf]) -> (String, bool) {
    let (program, library) = host();
    let output = Command::new(program)
        .arg(library)
        .args(lists)
        .output()
        .expect("the host runs");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    (report, output.status.success())
}

fn exported(root: &TempDir, target: &Path, drafter: Option<&Path>, dtype: Dtype) -> PathBuf {
    let text = |p: &Path| p.to_str().expect("plain path").to_owned();
    let options = ExportOptions {
        target: text(target),
        drafter: drafter.map(text),
        out: root.path().join("bundle"),
        dtype,
        copy_weights: false,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: None,
    };
    export(&options, &mut |_| {}).expect("exports");
    options.out
}

fn read(path: &Path) -> ModelProto {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    ModelProto::decode(bytes.as_slice()).expect("an ONNX model")
}

/// Strips the graphs of a bundle, writes their node lists, and has them imported. Returns the report.
fn check(target: &Path, drafter: Option<&Path>, dtype: Dtype, graphs: &[(&str, usize)]) -> String {
    let root = tempfile::tempdir().expect("temporary folder");
    let bundle = exported(&root, target, drafter, dtype);
    let mut lists = Vec::new();
    for (graph, nodes) in graphs {
        let mut model = read(&bundle.join(format!("{graph}.onnx")));
        assert_eq!(strip_bodies(&mut model), *nodes, "{graph}");
        let path = root.path().join(format!("{graph}.nodes"));
        std::fs::write(&path, list(&model).expect("all sizes are known")).expect("written");
        lists.push(path);
    }
    let (report, content) = parse(&lists);
    assert!(content, "{} {dtype:?}:\n{report}", target.display());
    for (graph, nodes) in graphs {
        let line = format!("nodes of {graph}.nodes: {nodes} plugin nodes");
        assert!(report.contains(&line), "no '{line}' in:\n{report}");
    }
    report
}

#[test]
fn hybrid_pair_in_every_type() {
    // 6 DeltaNet layers with two operators each and 2 attention layers; a drafter of 3 layers.
    let graphs = [("target", 14), ("commit", 6), ("draft", 3)];
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        let drafter = model("tiny-qwen3.5-mfd");
        let report = check(&model("tiny-qwen3.5"), Some(&drafter), dtype, &graphs);
        for line in [
            "TreeAttention 2, TreeCausalConv 6, TreeDeltaRule 6",
            "DeltaBranchUpdate 6",
            "TreeAttention 3",
        ] {
            assert!(report.contains(line), "no '{line}' in:\n{report}");
        }
    }
}

#[test]
fn dense_pair() {
    let graphs = [("target", 4), ("draft", 3)];
    let drafter = model("tiny-qwen3-dflash");
    check(&model("tiny-qwen3"), Some(&drafter), Dtype::Bf16, &graphs);
}

#[test]
fn published_shapes() {
    let root = tempfile::tempdir().expect("temporary folder");
    let (target, drafter) = (root.path().join("target"), root.path().join("drafter"));
    sparse::write(&target, "qwen3.5-4b");
    sparse::write(&drafter, "qwen3.5-4b-mfd");
    let graphs = [("target", 56), ("commit", 24), ("draft", 6)];
    check(&target, Some(&drafter), Dtype::Bf16, &graphs);
}

/// Imports the changed list of one stripped graph and returns the report, which must hold a failure.
fn refused(graph: &ModelProto, change: impl Fn(String) -> String) -> String {
    let root = tempfile::tempdir().expect("temporary folder");
    let path = root.path().join("graph.nodes");
    std::fs::write(&path, change(list(graph).expect("all sizes are known"))).expect("written");
    let (report, content) = parse(&[path]);
    assert!(!content, "accepted:\n{report}");
    report
}

#[test]
fn what_does_not_fit_is_refused_with_the_node() {
    let root = tempfile::tempdir().expect("temporary folder");
    let bundle = exported(&root, &model("tiny-qwen3"), None, Dtype::F32);
    let whole = read(&bundle.join("target.onnx"));
    let report = refused(&whole, |text| text);
    assert!(
        report.contains("TreeAttention 'TreeAttention.")
            && report.contains("still has a function of this name"),
        "{report}"
    );
    let mut stripped = whole;
    strip_bodies(&mut stripped);
    let report = refused(&stripped, |text| {
        text.replace("string forkcast", "string elsewhere")
    });
    assert!(
        report.contains("no plugin of version '1' in namespace 'elsewhere'"),
        "{report}"
    );

    // Heads of 32 are fine for the kernels of the CPU engine and refused by the plugin.
    let root = tempfile::tempdir().expect("temporary folder");
    let bundle = exported(&root, &golden("dense_untied_f32"), None, Dtype::F32);
    let mut small = read(&bundle.join("target.onnx"));
    strip_bodies(&mut small);
    let report = refused(&small, |text| text);
    assert!(
        report.contains("axis 2 of q must be one of 64, 128, 256"),
        "{report}"
    );
}
