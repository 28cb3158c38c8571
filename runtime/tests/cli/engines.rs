//! Engine directories as a binary without TensorRT sees them: built by a stand-in here, then inspected, verified and
//! refused.

use crate::bundles::{dflash, mfd, model};
use crate::run::{Ran, command, finish, forkcast, stdout};
use forkcast_engines::build::{BuildError, BuildOptions, Compiler, Listener, Prepared, Progress, build};
use forkcast_engines::engine::WeightMode;
use forkcast_engines::recipe::Recipe;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

struct Stub;

impl Compiler for Stub {
    fn version(&self) -> String {
        "1.7.1".to_owned()
    }

    fn compile(&self, graph: &Prepared, _: &Recipe, _: &Listener) -> Result<Vec<u8>, BuildError> {
        Ok(graph.stage.clone().into_bytes())
    }
}

const RECIPE: &str = "name = \"small\"\ngpu = \"a small GPU\"\nsm = 89\nflavour = \"tensorrt-rtx\"\n\
    precision = \"f32\"\nrows = [1, 16]\ncontext = [128]\nworkspace_mib = 64\n[hardware]\nmemory_gib = 8\n\
    bandwidth_gb_s = 100.0\ntflops_bf16 = 10.0\nsource = \"made up\"\n";

/// An engine of the tiny hybrid pair, and a recipe file for its GPU.
fn engine() -> (TempDir, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, recipe) = (folder.path().join("engine"), folder.path().join("small.toml"));
    std::fs::write(&recipe, RECIPE).expect("written");
    let options = BuildOptions {
        bundle: mfd().into(),
        recipe: Recipe::parse("small", RECIPE).expect("valid"),
        out: out.clone(),
        weights: WeightMode::Inputs,
        keep_onnx: true,
    };
    build(&options, &Stub, &(Arc::new(|_: &Progress<'_>| true) as Listener)).expect("built");
    let text = |p: &Path| p.to_str().expect("UTF-8").to_owned();
    let (out, recipe) = (text(&out), text(&recipe));
    (folder, out, recipe)
}

fn refused(ran: &Ran, code: i32, message: &str) {
    assert_eq!(ran.code, code, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains(message),
        "{message:?} is not in {}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: "), "no hint: {}", ran.stderr);
}

#[cfg(not(any(feature = "tensorrt", feature = "tensorrt-enterprise")))]
#[test]
fn this_binary_builds_and_runs_none() {
    let (_folder, engine, recipe) = engine();
    let ran = forkcast(&["build", &mfd(), "--recipe", &recipe, "--out", "/nowhere/x"]);
    refused(&ran, 3, "without TensorRT");
    assert!(ran.stderr.contains("make tensorrt"), "{}", ran.stderr);
    let ran = forkcast(&["generate", &engine, "--ids", "1,2"]);
    refused(&ran, 3, "runs no TensorRT engines");
    let ran = forkcast(&[
        "probe",
        &engine,
        "--ids",
        "1,2",
        "--out",
        "/nowhere/x.safetensors",
    ]);
    assert_ne!(ran.code, 0);
    let ran = forkcast(&["serve", &engine, "--port", "0"]);
    refused(&ran, 3, "runs no TensorRT engines");
}

#[test]
fn inspected_and_verified() {
    let (_folder, engine, recipe) = engine();
    let text = stdout(&["inspect", &engine]);
    assert!(
        text.contains("an engine directory") && text.contains("SM 8.9"),
        "{text}"
    );
    let found: Value = serde_json::from_str(&stdout(&["inspect", &engine, "--json"])).expect("JSON");
    assert_eq!(found["kind"], "engine");
    let report: Value =
        serde_json::from_str(&stdout(&["verify", &engine, "--gpu", &recipe, "--json"])).expect("JSON");
    assert_eq!(report["ok"], true);
    assert!(report["checks"].as_array().expect("checks").len() >= 10);
    refused(&forkcast(&["verify", &engine, "--gpu", "rtx-5090"]), 3, "SM 8.9");
    refused(&forkcast(&["verify", &engine, "--gpu", "gtx-1"]), 2, "gtx-1");
    refused(
        &forkcast(&["verify", &engine, "--gpu", &recipe, "--bundle", &dflash()]),
        3,
        "drafter.modes is 1",
    );
    let plan = Path::new(&engine).join("target.plan");
    std::fs::write(&plan, b"targex").expect("written");
    refused(
        &forkcast(&["verify", &engine, "--gpu", &recipe]),
        1,
        "target.plan",
    );
    std::fs::remove_file(&plan).expect("removed");
    refused(
        &forkcast(&["verify", &engine, "--gpu", &recipe]),
        1,
        "target.plan",
    );
}

#[test]
fn what_is_no_engine() {
    refused(&forkcast(&["verify", "/nowhere"]), 2, "does not exist");
    refused(&forkcast(&["verify", &model("tiny-qwen3")]), 2, "not exported");
    refused(
        &forkcast(&["verify", &dflash(), "--gpu", "l40s"]),
        2,
        "engine directories",
    );
    refused(&forkcast(&["doctor", &dflash()]), 2, "not an engine directory");
    refused(
        &forkcast(&["generate", &dflash(), "--ids", "1", "--bundle", &mfd()]),
        2,
        "no engine directory",
    );
    assert!(stdout(&["verify", &dflash()]).contains("as exported"));
}

#[test]
fn a_damaged_bundle_is_corrupt() {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(dflash()).expect("listed").flatten() {
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    std::fs::write(folder.path().join("tokenizer.json"), b"{}").expect("written");
    let ran = forkcast(&["verify", folder.path().to_str().expect("UTF-8")]);
    refused(&ran, 1, "tokenizer.json");
}

#[test]
fn doctor_tells_libraries_and_engines() {
    let (folder, engine, _) = engine();
    let all: Value = serde_json::from_str(&stdout(&["doctor", "--json"])).expect("JSON");
    let roles: Vec<&str> = all["libraries"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(|l| l["role"].as_str())
        .collect();
    assert_eq!(
        roles,
        [
            "onnxruntime",
            "tensorrt-rtx",
            "tensorrt-rtx-parser",
            "tensorrt",
            "plugins"
        ]
    );
    let ran = forkcast(&["doctor", &engine]);
    let has_gpu = all["driver"]["gpus"].as_array().is_some_and(|g| !g.is_empty());
    if !has_gpu {
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        assert!(ran.stdout.contains("does not fit"), "{}", ran.stdout);
    }
    let ran = finish(command().current_dir(folder.path()).arg("doctor"));
    assert!(ran.stdout.contains("engine     engine:"), "{}", ran.stdout);
}

/// A library that is not what its name says is named, with what is wrong.
#[test]
fn a_false_library_is_named() {
    let (folder, engine, _) = engine();
    let false_library = folder.path().join("libtensorrt_rtx.so.1");
    std::fs::write(&false_library, b"no library").expect("written");
    let ran = finish(
        command()
            .env("FORKCAST_TENSORRT_RTX", &false_library)
            .args(["verify", &engine]),
    );
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let text = false_library.to_str().expect("UTF-8");
    assert!(ran.stderr.contains(text), "{}", ran.stderr);
}

#[test]
fn another_drafter_at_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = |drafter: &str| {
        let out = folder.path().join(drafter);
        let out = out.to_str().expect("UTF-8").to_owned();
        stdout(&[
            "export",
            "--target",
            &model("tiny-qwen3"),
            "--drafter",
            &model(drafter),
            "--out",
            &out,
        ]);
        out
    };
    let (own, other) = (bundle("tiny-qwen3-dflash"), bundle("tiny-qwen3-mdraft"));
    let answer = |args: &[&str]| {
        let mut all = vec!["generate", "--ids", "5,6,7,8", "--max-tokens", "40", "--json"];
        all.extend(args);
        serde_json::from_str::<Value>(&stdout(&all)).expect("JSON")
    };
    let (first, swapped, expected) = (
        answer(&[&own]),
        answer(&[&own, "--drafter", &other]),
        answer(&[&other]),
    );
    assert_eq!(first["token_ids"], swapped["token_ids"]);
    assert_eq!(
        swapped["accepted_lengths"], expected["accepted_lengths"],
        "the other drafter drafts"
    );
    refused(
        &forkcast(&["generate", &own, "--ids", "1", "--drafter", &mfd()]),
        2,
        "drafter is",
    );
    refused(
        &forkcast(&["generate", &own, "--ids", "1", "--drafter", "/nowhere"]),
        2,
        "/nowhere",
    );
}

/// A template that loops for ever is never rendered when it is not the exported one.
#[test]
fn a_changed_template_is_refused_before_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(dflash()).expect("listed").flatten() {
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    let changed = "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}";
    std::fs::write(folder.path().join("chat_template.jinja"), changed).expect("written");
    let chat = folder.path().join("chat.json");
    std::fs::write(&chat, r#"[{"role": "user", "content": "hello"}]"#).expect("written");
    let text = |p: &Path| p.to_str().expect("UTF-8").to_owned();
    let ran = forkcast(&["generate", &text(folder.path()), "--chat", &text(&chat)]);
    refused(&ran, 2, "chat_template.jinja");
    assert!(ran.stderr.contains("changed since the export"), "{}", ran.stderr);
}
