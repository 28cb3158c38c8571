//! Engine directories: what is written, what is refused, and what `verify` says of damage. The compiler is a stand-in
//! here (the real one: `runtime/tests/tensorrt`).

use forkcast_engines::build::{
    BuildError, BuildOptions, Compiler, Listener, Prepared, Progress, build, prepare,
};
use forkcast_engines::bundle::Bundle as Opened;
use forkcast_engines::engine::{self, Against, Check, Engine, FILE_NAME, Outcome, WeightMode, verify};
use forkcast_engines::host::{Driver, Found, Gpu, Role};
use forkcast_engines::manifest;
use forkcast_engines::recipe::Recipe;
use forkcast_plugins::onnx::proto::ModelProto;
use forkcast_tests::bundles::Bundle;
use prost::Message;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes the graph's name as its plan; fails at one stage when told so.
#[derive(Default)]
struct Stub {
    fails_at: Option<&'static str>,
}

impl Compiler for Stub {
    fn version(&self) -> String {
        "1.7.1".to_owned()
    }

    fn compile(&self, graph: &Prepared, _: &Recipe, listener: &Listener) -> Result<Vec<u8>, BuildError> {
        let phase = Progress::Phase {
            name: "phase",
            step: 1,
            steps: 1,
        };
        if !listener(&phase) {
            return Err(BuildError::Cancelled);
        }
        if self.fails_at == Some(graph.stage.as_str()) {
            return Err(BuildError::Compile {
                stage: graph.stage.clone(),
                library: "stub",
                reason: "told to".to_owned(),
            });
        }
        Ok(graph.model.encode_to_vec())
    }
}

fn recipe(sm: u32) -> Recipe {
    let text = format!(
        "name = \"test\"\ngpu = \"a test GPU\"\nsm = {sm}\nflavour = \"{}\"\nprecision = \"f32\"\nrows = [1, 16, 32]\n\
         context = [128, 512]\nworkspace_mib = 64\n[hardware]\nmemory_gib = 8\nbandwidth_gb_s = 100.0\n\
         tflops_bf16 = 10.0\nsource = \"made up\"\n",
        if sm == 90 { "tensorrt" } else { "tensorrt-rtx" }
    );
    Recipe::parse("test", &text).expect("valid")
}

fn hybrid() -> Bundle {
    Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd")
}

fn options(bundle: &Bundle, recipe: Recipe) -> BuildOptions {
    BuildOptions {
        bundle: bundle.path(),
        recipe,
        out: bundle.folder.path().join("engine"),
        weights: WeightMode::Inputs,
        keep_onnx: false,
    }
}

fn always() -> Listener {
    Arc::new(|_: &Progress<'_>| true)
}

fn built(bundle: &Bundle) -> (PathBuf, Engine) {
    let options = options(bundle, recipe(120));
    let summary = build(&options, &Stub::default(), &always()).expect("built");
    (options.out, summary.engine)
}

/// A host on which the engine runs.
fn fitting() -> (Driver, Found) {
    let gpu = Gpu {
        name: "a test GPU".to_owned(),
        sm: 120,
        memory: 8 << 30,
    };
    let driver = Driver {
        cuda: Some(13_000),
        gpus: vec![gpu],
        problem: None,
    };
    let library = Found {
        role: Role::TensorrtRtx,
        path: PathBuf::from("libtensorrt_rtx.so.1"),
        version: Some("1.7.1".to_owned()),
        problem: None,
    };
    (driver, library)
}

fn on_host(dir: &Path, driver: &Driver, library: &Found) -> Vec<Check> {
    let engine = engine::read(dir).expect("readable");
    let against = Against::Host {
        driver,
        library: Some(library),
        plugins: None,
    };
    verify(dir, &engine, None, &against)
}

/// The only check that is not ok.
fn only(checks: &[Check], what: &str, outcome: Outcome) -> Check {
    let bad: Vec<&Check> = checks.iter().filter(|c| c.outcome > Outcome::Skipped).collect();
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert_eq!((bad[0].what.as_str(), bad[0].outcome), (what, outcome), "{bad:?}");
    assert!(bad[0].hint.is_some(), "{bad:?}");
    bad[0].clone()
}

#[test]
fn two_builds_are_equal_to_the_byte_and_fit() {
    let bundle = hybrid();
    let (dir, engine) = built(&bundle);
    let first = std::fs::read(dir.join(FILE_NAME)).expect("written");
    let stages: Vec<&str> = engine.plans.keys().map(String::as_str).collect();
    assert_eq!(
        stages,
        [
            "commit",
            "context",
            "draft",
            "head",
            "head_greedy",
            "head_top",
            "prefill",
            "target"
        ]
    );
    assert_eq!(engine.contexts, [128, 512]);
    assert_eq!(engine.plans["target"].profiles.len(), 3);
    let (dir, _) = built(&bundle);
    assert_eq!(std::fs::read(dir.join(FILE_NAME)).expect("written"), first);
    let (driver, library) = fitting();
    let checks = on_host(&dir, &driver, &library);
    assert!(checks.iter().all(|c| c.outcome == Outcome::Ok), "{checks:?}");
}

#[test]
fn damage_to_a_plan_is_corruption() {
    let bundle = hybrid();
    let (driver, library) = fitting();
    for damage in ["flip", "cut", "remove", "hash"] {
        let (dir, engine) = built(&bundle);
        let plan = dir.join(&engine.plans["draft"].plan);
        match damage {
            "flip" => {
                let mut bytes = std::fs::read(&plan).expect("read");
                bytes[10] ^= 1;
                std::fs::write(&plan, bytes).expect("written");
            }
            "cut" => std::fs::write(&plan, b"short").expect("written"),
            "remove" => std::fs::remove_file(&plan).expect("removed"),
            _ => edit(&dir, |e| {
                e.plans.get_mut("draft").expect("plan").sha256 = "0".repeat(64)
            }),
        }
        only(&on_host(&dir, &driver, &library), "draft.plan", Outcome::Corrupt);
    }
}

/// Rewrites the description of an engine.
fn edit(dir: &Path, change: impl FnOnce(&mut Engine)) {
    let mut engine = engine::read(dir).expect("readable");
    change(&mut engine);
    engine::write(dir, &engine).expect("written");
}

#[test]
fn another_gpu_version_driver_or_abi_does_not_fit() {
    let bundle = hybrid();
    let (dir, _) = built(&bundle);
    let (driver, library) = fitting();

    let mut other = driver.clone();
    other.gpus[0].sm = 89;
    let check = only(&on_host(&dir, &other, &library), "GPU", Outcome::Misfit);
    assert_eq!(
        (check.expected.as_str(), check.found.as_str()),
        ("SM 12.0", "SM 8.9")
    );

    let mut old = driver.clone();
    old.cuda = Some(12_080);
    let check = only(&on_host(&dir, &old, &library), "driver", Outcome::Misfit);
    assert_eq!(check.found, "CUDA 12.8");

    let mut other = library.clone();
    other.version = Some("1.6.1".to_owned());
    let check = only(&on_host(&dir, &driver, &other), "TensorRT-RTX", Outcome::Misfit);
    assert_eq!(
        (check.expected.as_str(), check.found.as_str()),
        ("1.7.1", "1.6.1")
    );

    edit(&dir, |e| e.requires.tensorrt = "1.5.0".to_owned());
    only(&on_host(&dir, &driver, &library), "TensorRT-RTX", Outcome::Misfit);
    edit(&dir, |e| e.requires.tensorrt = "1.7.1".to_owned());

    edit(&dir, |e| e.requires.plugin_abi = Some(9));
    let engine = engine::read(&dir).expect("readable");
    let same = recipe(120);
    let check = only(
        &verify(&dir, &engine, None, &Against::Recipe(&same)),
        "plugin ABI",
        Outcome::Misfit,
    );
    assert_eq!(check.found, "9");
}

#[test]
fn without_a_gpu_another_one_can_be_named() {
    let bundle = hybrid();
    let (dir, engine) = built(&bundle);
    let checks = on_host(&dir, &Driver::default(), &fitting().1);
    let bad: Vec<&str> = checks
        .iter()
        .filter(|c| c.outcome == Outcome::Misfit)
        .map(|c| c.what.as_str())
        .collect();
    assert_eq!(bad, ["GPU", "driver"]);
    let checks = verify(&dir, &engine, None, &Against::Recipe(&recipe(120)));
    assert!(checks.iter().all(|c| c.outcome == Outcome::Ok), "{checks:?}");
    for other in ["l40s", "h200"] {
        let other = Recipe::load(other).expect("built in");
        only(
            &verify(&dir, &engine, None, &Against::Recipe(&other)),
            "GPU",
            Outcome::Misfit,
        );
    }
}

#[test]
fn another_checkpoint_of_the_same_shape_runs_on_it() {
    let first = Bundle::trained("tiny-qwen3", "tiny-qwen3-dflash");
    let retrained = Bundle::trained("tiny-qwen3", "tiny-qwen3-mdraft");
    let other = hybrid();
    let (dir, engine) = built(&first);
    let here = recipe(120);
    let checks = verify(&dir, &engine, Some(&retrained.path()), &Against::Recipe(&here));
    assert!(checks.iter().all(|c| c.outcome == Outcome::Ok), "{checks:?}");
    let checks = verify(&dir, &engine, Some(&other.path()), &Against::Recipe(&here));
    let check = only(&checks, "bundle", Outcome::Misfit);
    assert!(check.found.contains("target.family is \"qwen3_5\""), "{check:?}");
    let checks = verify(
        &dir,
        &engine,
        Some(Path::new("/nowhere")),
        &Against::Recipe(&here),
    );
    assert!(
        checks
            .iter()
            .any(|c| c.what == "bundle" && c.outcome == Outcome::Misfit)
    );
}

/// Shapes are equal, an epsilon is not: the plans would compute something else, and nobody would see it.
#[test]
fn a_bundle_of_the_same_shape_with_other_constants_is_refused() {
    let (first, other) = (hybrid(), hybrid());
    let (dir, engine) = built(&first);
    rewrite(&other, "draft", |model| {
        let nodes = &mut model.graph.as_mut().expect("graph").node;
        let norm = nodes
            .iter_mut()
            .find(|n| n.op_type() == "RMSNormalization")
            .expect("a norm");
        let epsilon = norm
            .attribute
            .iter_mut()
            .find(|a| a.name() == "epsilon")
            .expect("epsilon");
        epsilon.f = Some(1e-3);
    });
    let checks = verify(&dir, &engine, Some(&other.path()), &Against::Recipe(&recipe(120)));
    let check = only(&checks, "bundle", Outcome::Misfit);
    assert!(
        check.found.contains("\"draft\" computes something else"),
        "{check:?}"
    );
}

#[test]
fn a_failed_or_cancelled_build_leaves_what_was_there() {
    let bundle = hybrid();
    let entries = || {
        let entries = std::fs::read_dir(bundle.folder.path()).expect("listed");
        let mut names: Vec<_> = entries.flatten().map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    let before = entries();
    let stages = [
        "target",
        "prefill",
        "head",
        "head_greedy",
        "head_top",
        "commit",
        "context",
        "draft",
    ];
    for stage in stages {
        let stub = Stub {
            fails_at: Some(stage),
        };
        let error = build(&options(&bundle, recipe(120)), &stub, &always()).expect_err("told to fail");
        assert_eq!(error.exit_code(), 5, "{error}");
        assert_eq!(entries(), before, "{stage}");
    }
    let (dir, _) = built(&bundle);
    let (whole, before) = (std::fs::read(dir.join(FILE_NAME)).expect("read"), entries());
    for stage in stages {
        let stub = Stub {
            fails_at: Some(stage),
        };
        build(&options(&bundle, recipe(89)), &stub, &always()).expect_err("told to fail");
        assert_eq!(std::fs::read(dir.join(FILE_NAME)).expect("still there"), whole);
        assert_eq!(entries(), before, "{stage}");
    }
    for calls in 0..6 {
        let left = std::sync::atomic::AtomicUsize::new(calls);
        let listener: Listener = Arc::new(move |_: &Progress<'_>| {
            use std::sync::atomic::Ordering::Relaxed;
            left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok()
        });
        let error = build(&options(&bundle, recipe(89)), &Stub::default(), &listener).expect_err("cancelled");
        assert!(matches!(error, BuildError::Cancelled), "{error}");
        assert_eq!(std::fs::read(dir.join(FILE_NAME)).expect("still there"), whole);
        assert_eq!(entries(), before);
    }
}

#[test]
fn foreign_files_and_places_are_refused() {
    let bundle = hybrid();
    let (dir, _) = built(&bundle);
    std::fs::write(dir.join("notes.txt"), "mine").expect("written");
    let error = build(&options(&bundle, recipe(120)), &Stub::default(), &always()).expect_err("refused");
    assert!(
        error.to_string().contains("notes.txt") && error.exit_code() == 2,
        "{error}"
    );
    assert!(dir.join("notes.txt").exists());
    let mut over_bundle = options(&bundle, recipe(120));
    over_bundle.out = bundle.path();
    let error = build(&over_bundle, &Stub::default(), &always()).expect_err("refused");
    assert!(
        error.exit_code() == 2 && bundle.path().join("manifest.json").is_file(),
        "{error}"
    );
}

#[test]
fn plans_hold_no_weight_unless_asked() {
    let bundle = hybrid();
    let opened = Opened::open(&bundle.path()).expect("opened");
    for graph in prepare(&opened, &recipe(120), WeightMode::Inputs).expect("prepared") {
        let message = graph.model.graph.as_ref().expect("a graph");
        assert!(message.initializer.is_empty(), "{}", graph.stage);
        let names: Vec<&str> = message.input.iter().map(|i| i.name()).collect();
        let ports = graph.inputs.iter().map(|p| p.name.as_str());
        let weights = graph.weights.iter().map(|w| w.name.as_str());
        assert_eq!(ports.chain(weights).collect::<Vec<_>>(), names, "{}", graph.stage);
        let large = graph.model.encoded_len();
        assert!(large < 2 << 20, "{}: {large} bytes", graph.stage);
    }
    for graph in prepare(&opened, &recipe(120), WeightMode::Embedded).expect("prepared") {
        assert!(graph.weights.is_empty());
        for tensor in &graph.model.graph.as_ref().expect("a graph").initializer {
            let entry = opened.manifest.graphs.get(engine::graph_of(&graph.stage));
            let list = entry.expect("listed").initializers.iter();
            let data = list.filter(|i| i.name == tensor.name()).map(|i| &i.data).next();
            let data = data.unwrap_or(&opened.manifest.embedding);
            assert!(tensor.raw_data() == opened.bytes(data), "{}", tensor.name());
        }
    }
}

/// Rewrites a graph of a bundle and its hash in the manifest.
fn rewrite(bundle: &Bundle, stage: &str, change: impl FnOnce(&mut ModelProto)) {
    let dir = bundle.path();
    let mut m = manifest::read(&dir).expect("manifest");
    let file = m.graphs[stage].file.clone();
    let bytes = std::fs::read(dir.join(&file)).expect("graph");
    let mut model = ModelProto::decode(bytes.as_slice()).expect("a model");
    change(&mut model);
    let bytes = model.encode_to_vec();
    std::fs::write(dir.join(&file), &bytes).expect("written");
    let entry = m.files.iter_mut().find(|f| f.name == file).expect("listed");
    entry.bytes = bytes.len() as u64;
    entry.sha256 = Sha256::digest(&bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    manifest::write(&dir, &m).expect("written");
}

#[test]
fn nodes_that_cannot_be_compiled_are_named() {
    for (op, domain, needle) in [
        ("EyeLike", "", "EyeLike"),
        ("NonZero", "", "NonZero"),
        ("TreeSort", "forkcast", "forkcast.TreeSort"),
        ("Add", "elsewhere", "elsewhere"),
    ] {
        let bundle = hybrid();
        rewrite(&bundle, "head", |model| {
            let node = &mut model.graph.as_mut().expect("graph").node[0];
            node.op_type = Some(op.to_owned());
            node.domain = Some(domain.to_owned());
        });
        let error = build(&options(&bundle, recipe(120)), &Stub::default(), &always()).expect_err("refused");
        assert!(matches!(error, BuildError::Unsupported { .. }), "{error}");
        assert!(
            error.to_string().contains(needle) && error.to_string().contains("head.onnx"),
            "{error}"
        );
    }
}

#[test]
fn each_flavour_gets_its_bodies() {
    let bundle = hybrid();
    let opened = Opened::open(&bundle.path()).expect("opened");
    for graph in prepare(&opened, &recipe(120), WeightMode::Inputs).expect("prepared") {
        let custom = graph.model.graph.iter().flat_map(|g| &g.node);
        let custom = custom.filter(|n| n.domain().starts_with("forkcast"));
        let used: BTreeSet<(&str, &str)> = custom.map(|n| (n.domain(), n.op_type())).collect();
        let bodies = graph.model.functions.iter();
        let bodies: BTreeSet<(&str, &str)> = bodies.map(|f| (f.domain(), f.name())).collect();
        assert_eq!(used, bodies, "{}", graph.stage);
    }
    let mut marked = 0;
    for graph in prepare(&opened, &recipe(90), WeightMode::Inputs).expect("prepared") {
        // Fused operators are no plugins and keep their bodies.
        let mut bodies = graph.model.functions.iter();
        assert!(bodies.all(|f| f.domain() == "forkcast.fused"), "{}", graph.stage);
        for node in graph
            .model
            .graph
            .iter()
            .flat_map(|g| &g.node)
            .filter(|n| n.domain() == "forkcast")
        {
            let has = |name: &str| node.attribute.iter().any(|a| a.name() == name);
            assert!(
                has("plugin_namespace") && has("plugin_version"),
                "{}",
                node.name()
            );
            marked += 1;
        }
    }
    assert!(marked > 10, "{marked}");
}

#[test]
fn a_bundle_of_another_precision_is_refused() {
    let bundle = hybrid();
    let bf16 = Recipe::load("rtx-5090").expect("built in");
    let error = build(&options(&bundle, bf16), &Stub::default(), &always()).expect_err("f32 bundle");
    assert!(
        error.to_string().contains("f32") && error.exit_code() == 2,
        "{error}"
    );
    assert!(error.hint().expect("hint").contains("--dtype bf16"));
}

#[test]
fn descriptions_that_contradict_themselves_are_refused() {
    let bundle = hybrid();
    let (dir, _) = built(&bundle);
    let text = std::fs::read_to_string(dir.join(FILE_NAME)).expect("read");
    for (from, to, needle) in [
        ("\"schema\": 1", "\"schema\": 2", "schema 2"),
        (
            "\"sm\": 120,\n    \"flavour\"",
            "\"sm\": 89,\n    \"flavour\"",
            "requires",
        ),
        (
            "\"plan\": \"draft.plan\"",
            "\"plan\": \"../draft.plan\"",
            "plain file name",
        ),
        (
            "\"plan\": \"draft.plan\"",
            "\"plan\": \"head.plan\"",
            "listed twice",
        ),
        ("\"forkcast\":", "\"forkcats\":", "forkcats"),
        ("\"depth\": 16", "\"depth\": 17", "limits"),
        ("\"commit\": \"", "\"commits\": \"", "graphs: no \"commit\""),
    ] {
        assert!(text.contains(from), "{from}");
        // The recipe comes before the requirements: the last occurrence is theirs.
        let at = text.rfind(from).expect("found");
        let changed = format!("{}{to}{}", &text[..at], &text[at + from.len()..]);
        std::fs::write(dir.join(FILE_NAME), changed).expect("written");
        let error = engine::read(&dir).expect_err(needle).to_string();
        assert!(error.contains(needle), "{error}");
    }
    std::fs::write(dir.join(FILE_NAME), b"{").expect("written");
    assert!(engine::read(&dir).is_err());
}
