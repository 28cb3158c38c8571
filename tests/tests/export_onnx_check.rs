//! Exported graphs under the ONNX checker and in plain ONNX Runtime, by `onnx_check.py`: no code of
//! forkcast's runs there, so the function bodies are what is executed.

use forkcast_engines::manifest::Dtype;
use forkcast_exporter::{ExportOptions, export};
use forkcast_tests::paths::{golden, model, repository};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter with `onnx` and `onnxruntime`. Without it these tests fail: a skip would look like a pass.
fn python() -> PathBuf {
    let path = std::env::var_os("FORKCAST_PYTHON")
        .map_or_else(|| repository().join(".venv/bin/python"), PathBuf::from);
    assert!(
        path.is_file(),
        "no Python at {}: run `make test`, or set FORKCAST_PYTHON to one with onnx and onnxruntime",
        path.display()
    );
    path
}

/// Exports a self-contained bundle and checks it; goldens are compared when they are given.
fn check(target: &Path, drafter: Option<&Path>, dtype: Dtype, goldens: &[(&str, PathBuf)]) {
    let python = python();
    let root = tempfile::tempdir().expect("temporary folder");
    let text = |p: &Path| p.to_str().expect("plain path").to_owned();
    let options = ExportOptions {
        target: text(target),
        drafter: drafter.map(text),
        out: root.path().join("bundle"),
        dtype,
        copy_weights: true,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: None,
    };
    export(&options, &mut |_| {}).expect("exports");
    let output = Command::new(python)
        .arg(repository().join("tests/onnx_check.py"))
        .arg(&options.out)
        .args(
            goldens
                .iter()
                .flat_map(|(flag, path)| [OsString::from(flag), path.into()]),
        )
        .output()
        .expect("Python runs");
    let report = String::from_utf8_lossy(&output.stdout);
    println!("{report}");
    assert!(
        output.status.success(),
        "{} {dtype:?}:\n{report}{}",
        target.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn trained_pairs() {
    for (target, drafter) in [
        ("tiny-qwen3.5", "tiny-qwen3.5-dflash"),
        ("tiny-qwen3.5", "tiny-qwen3.5-mfd"),
        ("tiny-qwen3", "tiny-qwen3-dflash"),
        ("tiny-qwen3", "tiny-qwen3-mdraft"),
    ] {
        let goldens = [
            ("--target", golden(&format!("{target}.safetensors"))),
            ("--drafter", golden(&format!("{drafter}.safetensors"))),
        ];
        check(&model(target), Some(&model(drafter)), Dtype::F32, &goldens);
    }
}

#[test]
fn random_targets_of_several_shapes() {
    for name in [
        "hybrid_ratio1_untied_f32",
        "hybrid_ratio2_tied_mixed",
        "hybrid_ratio3_untied_bf16",
        "hybrid_composite_mixed",
        "dense_untied_f32",
        "dense_tied_bf16_flat",
    ] {
        let folder = golden(name);
        let goldens = [("--target", folder.join("golden.safetensors"))];
        check(&folder, None, Dtype::F32, &goldens);
    }
}

#[test]
fn random_drafters_of_both_generations() {
    for generation in ["first", "second"] {
        let folder = golden(&format!("drafter_{generation}_generation"));
        let goldens = [("--drafter", folder.join("golden.safetensors"))];
        check(&golden("dense_untied_f32"), Some(&folder), Dtype::F32, &goldens);
    }
}

#[test]
fn half_precision_graphs_are_well_formed() {
    for dtype in [Dtype::Bf16, Dtype::F16] {
        check(
            &model("tiny-qwen3.5"),
            Some(&model("tiny-qwen3.5-mfd")),
            dtype,
            &[],
        );
        check(
            &model("tiny-qwen3"),
            Some(&model("tiny-qwen3-dflash")),
            dtype,
            &[],
        );
    }
}
