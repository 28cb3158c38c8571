//! `forkcast inspect`, help, version and completions.

use crate::bundles::{dflash, model};
use crate::run::{forkcast, stdout};
use serde_json::Value;

#[test]
fn what_lies_at_a_path() {
    let target = stdout(&["inspect", &model("tiny-qwen3.5")]);
    assert!(
        target.contains("a checkpoint (qwen3_5_text)") && target.contains("108 tensors"),
        "{target}"
    );
    let drafter = stdout(&["inspect", &model("tiny-qwen3.5-mfd")]);
    assert!(drafter.contains("this is a drafter"), "{drafter}");
    let file = stdout(&[
        "inspect",
        &format!("{}/model.safetensors", model("tiny-qwen3.5-mfd")),
    ]);
    assert!(file.contains("mode_embed bf16 [8, 192]"), "{file}");
    let bundle = stdout(&["inspect", &dflash()]);
    assert!(
        bundle.contains("a bundle") && bundle.contains("block 16, 1 modes"),
        "{bundle}"
    );
}

#[test]
fn as_json() {
    let json = |path: &str| -> Value {
        serde_json::from_str(&stdout(&["inspect", path, "--json"])).expect("one JSON object")
    };
    let bundle = json(&dflash());
    assert_eq!(bundle["kind"], "bundle");
    assert_eq!(bundle["manifest"]["drafter"]["block"], 16);
    let drafter = json(&model("tiny-qwen3.5-mfd"));
    assert_eq!(
        (&drafter["kind"], &drafter["weights"][0]["tensors"]),
        (&"drafter".into(), &38.into())
    );
    assert_eq!(drafter["config"]["dflash_config"]["mask_token_id"], 2047);
    assert_eq!(json(&model("tiny-qwen3"))["kind"], "target");
}

#[test]
fn damaged_files_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = std::fs::read(format!("{}/model.safetensors", model("tiny-qwen3.5-mfd"))).expect("read");
    for (name, bytes) in [
        ("empty", &source[..0]),
        ("short", &source[..5]),
        ("header", &source[..100]),
        ("truncated", &source[..source.len() - 1]),
        ("garbage", &b"\xff\xff\xff\xff\xff\xff\xff\xff1234"[..]),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let ran = forkcast(&["inspect", path.to_str().expect("a plain path")]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{name}");
        assert!(
            ran.stderr.starts_with("error: ") && ran.stderr.contains(name),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("\nhint: ") && !ran.stderr.contains("panicked"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_damaged_bundle_is_a_no() {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(dflash()).expect("listed") {
        let entry = entry.expect("listed");
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    let path = folder.path().to_str().expect("a plain path");
    std::fs::write(folder.path().join("chat_template.jinja"), "x").expect("written");
    let ran = forkcast(&["inspect", path]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("not usable") && ran.stdout.contains("chat_template.jinja"),
        "{}",
        ran.stdout
    );
    std::fs::write(folder.path().join("manifest.json"), "{\"schema\": 99}").expect("written");
    let ran = forkcast(&["inspect", path]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("schema 99") && ran.stderr.contains("hint: export"),
        "{}",
        ran.stderr
    );
}

#[test]
fn help_and_version() {
    assert!(stdout(&["--version"]).starts_with("forkcast "));
    let help = stdout(&["--help"]);
    for command in [
        "export",
        "generate",
        "probe",
        "inspect",
        "demo",
        "completions",
        "Exit codes",
    ] {
        assert!(help.contains(command), "{command}");
    }
    for command in ["export", "generate", "probe", "inspect", "demo", "completions"] {
        assert!(stdout(&["help", command]).contains("Examples:"), "{command}");
    }
    let generate = stdout(&["generate", "--help"]);
    assert!(generate.contains("[env: FORKCAST_BUDGET=]"), "{generate}");
}

#[test]
fn completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&["completions", shell]).contains("generate"), "{shell}");
    }
}
