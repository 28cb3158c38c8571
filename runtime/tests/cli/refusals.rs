//! Everything that is refused: exit code, message, hint, and nothing on stdout.

use crate::bundles::{bf16, dense, dflash, int4, mfd, model, text, without_text};
use crate::run::{Ran, command, finish, forkcast};

fn check(ran: &Ran, code: i32, message: &str) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(message),
        "{message:?} is not in {}",
        ran.stderr
    );
    assert!(ran.stderr.contains("\nhint: "), "no hint: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

/// Refused as wrong usage or unusable input, with `message`.
fn refused(args: &[&str], message: &str) {
    check(&forkcast(args), 2, message);
}

#[test]
fn usage() {
    refused(&["nope"], "unrecognized subcommand 'nope'");
    refused(
        &["generate", "x", "--prompt", "a", "--nope"],
        "unexpected argument '--nope'",
    );
    refused(&["generate", "--prompt", "a"], "<MODEL>");
    refused(&["export", "--target", "x"], "--out <BUNDLE>");
    refused(
        &["generate", "x", "--prompt", "a", "--method", "best"],
        "invalid value 'best' for '--method",
    );
    refused(&["completions", "cmd"], "invalid value 'cmd'");
}

#[test]
fn numbers_out_of_range() {
    let cases = [
        ("--budget", "1025", "0..=1024"),
        ("--budget", "-1", "0..=1024"),
        ("--budget", "many", "0..=1024"),
        ("--top-p", "0", "(0, 1]"),
        ("--top-p", "1.01", "(0, 1]"),
        ("--top-p", "-0.5", "(0, 1]"),
        ("--top-p", "nan", "(0, 1]"),
        ("--min-p", "1.5", "[0, 1]"),
        ("--temperature", "NaN", "[0, 100]"),
        ("--temperature", "-1", "[0, 100]"),
        ("--temperature", "inf", "[0, 100]"),
        ("--threads", "0", "at least 1"),
        ("--max-context", "0", "at least 1"),
        ("--ids", "1,x", "\"x\" is no token id"),
        ("--ids", "1,-2", "\"-2\" is no token id"),
        ("--ids", "1,,2", "\"\" is no token id"),
        ("--stop", "", "a stop string is not empty"),
    ];
    for (flag, value, message) in cases {
        let given = format!("invalid value '{value}' for '{flag}");
        let ran = forkcast(&["generate", "x", "--prompt", "a", flag, value]);
        check(&ran, 2, message);
        assert!(ran.stderr.contains(&given), "{given:?} is not in {}", ran.stderr);
    }
}

#[test]
fn environment_twins_are_checked_too() {
    let ran = finish(
        command()
            .env("FORKCAST_BUDGET", "2000")
            .args(["generate", "x", "--prompt", "a"]),
    );
    check(&ran, 2, "invalid value '2000' for '--budget");
}

#[test]
fn prompts() {
    let bundle = dflash();
    let generate = |rest: &[&str], message: &str| {
        let mut args = vec!["generate", &bundle];
        args.extend(rest);
        refused(&args, message);
    };
    generate(&[], "there is no prompt");
    generate(
        &["--prompt", "a", "--ids", "1"],
        "--prompt and --ids are both given",
    );
    generate(&["--prompt", ""], "the prompt is empty");
    generate(&["--ids", ""], "the prompt is empty");
    generate(
        &["--ids", "1,2048"],
        "token id 2048 at place 1 of the prompt is outside the vocabulary of 2048",
    );
    generate(
        &["--ids", "1,2,3,4,5", "--max-context", "5"],
        "the prompt has 5 tokens, the context holds 5",
    );
    generate(&["--chat", "/nonexistent.json"], "--chat /nonexistent.json: ");
}

#[test]
fn conversations() {
    let bundle = dflash();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = text(file.path());
    let cases = [
        ("", "not valid JSON"),
        ("3", "neither an array of messages nor an object"),
        ("[]", "`messages` is empty"),
        (r#"[{"role": "user"}]"#, "messages[0].content is missing"),
        (
            r#"{"messages": [{"role": "user", "content": "x"}], "seed": 1}"#,
            "field `seed` is not known",
        ),
    ];
    for (content, message) in cases {
        std::fs::write(&path, content).expect("written");
        refused(&["generate", &bundle, "--chat", &path], message);
    }
}

#[test]
fn methods() {
    let (dflash, mfd, dense) = (dflash(), mfd(), dense());
    let generate = |bundle: &str, rest: &[&str], message: &str| {
        let mut args = vec!["generate", bundle, "--ids", "1,2"];
        args.extend(rest);
        refused(&args, message);
    };
    generate(
        &dflash,
        &["--method", "mfd"],
        "method mfd needs a drafter with several modes, this one has 1",
    );
    generate(
        &dflash,
        &["--method", "chain", "--mode", "1"],
        "mode 1 does not exist, the drafter has 1",
    );
    generate(
        &mfd,
        &["--method", "ddtree", "--mode", "8"],
        "mode 8 does not exist, the drafter has 8",
    );
    generate(
        &dense,
        &["--method", "ddtree"],
        "method ddtree needs a drafter, and this model has none",
    );
    generate(&dense, &["--max-context", "1000000"], "1000000");
}

#[test]
fn models() {
    refused(
        &["generate", "/nonexistent", "--ids", "1"],
        "/nonexistent: not a bundle",
    );
    refused(
        &["generate", &model("tiny-qwen3"), "--ids", "1"],
        "this is a checkpoint that was not exported",
    );
    refused(
        &["generate", &model("tiny-qwen3-dflash"), "--ids", "1"],
        "this is a drafter",
    );
    refused(
        &["probe", &model("tiny-qwen3"), "--ids", "1", "--out", "x"],
        "not a bundle",
    );
    refused(&["inspect", "/nonexistent"], "no such file or folder");
}

#[test]
fn text_without_a_tokenizer() {
    let bundle = without_text();
    refused(
        &["generate", &bundle, "--prompt", "a"],
        "this model has no tokenizer",
    );
    refused(
        &["generate", &bundle, "--ids", "1", "--stop", "a"],
        "stop strings need a tokenizer",
    );
}

#[test]
fn quantised_bundles_are_known_everywhere() {
    let bundle = int4();
    let ran = forkcast(&["generate", &bundle, "--ids", "1,2,3", "--max-tokens", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = forkcast(&["verify", &bundle]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let said = forkcast(&["inspect", &bundle]).stdout;
    assert!(said.contains("int4"), "{said}");
}

#[test]
fn a_bundle_for_another_engine() {
    let ran = forkcast(&["generate", &bf16(), "--ids", "1"]);
    check(&ran, 3, "bf16");
    assert!(ran.stderr.contains("hint: export --dtype f32"), "{}", ran.stderr);
}

#[test]
fn a_missing_library() {
    let mut command = command();
    command.env("ORT_DYLIB_PATH", "/nonexistent/libonnxruntime.so");
    check(
        &finish(command.args(["generate", &dense(), "--ids", "1"])),
        3,
        "/nonexistent/libonnxruntime.so",
    );
}

#[test]
fn exports() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = text(&folder.path().join("bundle"));
    let target = model("tiny-qwen3.5");
    let drafter = model("tiny-qwen3.5-dflash");
    let export = |args: &[&str], message: &str| {
        let mut all = vec!["export", "--out", &out];
        all.extend(args);
        refused(&all, message);
        let left: Vec<_> = folder.path().read_dir().expect("listed").collect();
        assert!(left.is_empty(), "{args:?} left {left:?}");
    };
    export(&["--target", "/nonexistent"], "/nonexistent: no such folder");
    export(&["--target", &drafter], "this is a drafter, not a target");
    export(
        &["--target", &target, "--drafter", &target],
        "this is a target, not a drafter",
    );
    export(
        &["--target", &target, "--taps", "8"],
        "layer 8 is outside the target's 8 layers",
    );
    export(&["--target", &target, "--taps", "x"], "\"x\" is no layer");
    export(
        &["--target", &target, "--dtype", "f64"],
        "invalid value 'f64' for '--dtype",
    );
    let ran = finish(
        command()
            .env("HF_HUB_CACHE", folder.path())
            .args(["export", "--out", &out, "--target", "a/b"]),
    );
    check(&ran, 2, "a/b: ");
    assert!(ran.stderr.contains("hint: hf download a/b"), "{}", ran.stderr);
}

#[test]
fn probes() {
    let bundle = dense();
    let folder = tempfile::tempdir().expect("a folder");
    let out = text(&folder.path().join("out.safetensors"));
    let probe = |args: &[&str], message: &str| {
        let mut all = vec!["probe", &bundle, "--out", &out];
        all.extend(args);
        refused(&all, message);
    };
    probe(&["--ids", ""], "the prompt is empty");
    probe(&["--ids", "2048"], "token id 2048 at place 0");
    probe(&["--ids", "1", "--rows", "1,2"], "--parents");
    probe(&["--ids", "1", "--parents=-1"], "--rows");
    probe(
        &["--ids", "1", "--rows", "1,2", "--parents=-1"],
        "1 parents for 2 rows",
    );
    probe(
        &["--ids", "1", "--rows", "1,2", "--parents=0,0"],
        "row 0 has parent 0",
    );
    probe(
        &["--ids", "1", "--rows", "1,2", "--parents=-1,-1"],
        "row 1 has parent -1",
    );
    probe(
        &["--ids", "1", "--rows", "1,2", "--parents=-1,1"],
        "row 1 has parent 1",
    );
    probe(
        &["--ids", "1", "--rows", "1,9999", "--parents=-1,0"],
        "token id 9999 of row 1",
    );
    let long = vec!["1"; 4097].join(",");
    probe(&["--ids", &long], "4097");
    let args = ["probe", &bundle, "--ids", "1", "--out"];
    refused(
        &[&args[..], &["/nonexistent/out.safetensors"]].concat(),
        "the folder /nonexistent does not exist",
    );
    refused(&[&args[..], &[&text(folder.path())]].concat(), "is a folder");
    assert_eq!(folder.path().read_dir().expect("listed").count(), 0);
}

#[test]
fn a_probe_replaces_neither_a_link_nor_a_file_of_a_bundle() {
    let bundle = dflash();
    let weights = format!("{bundle}/target.weights");
    refused(
        &["probe", &bundle, "--ids", "1", "--out", &weights],
        "lies inside a bundle",
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("elsewhere", &link).expect("a link");
    refused(
        &["probe", &bundle, "--ids", "1", "--out", &text(&link)],
        "not a regular file",
    );
}

#[test]
fn plans() {
    let bundle = dflash();
    refused(&["plan", "rtx-9999", "--bundle", &bundle], "no such recipe");
    refused(
        &["plan", "rtx-5090", "--bundle", &bundle, "--tau", "0.5"],
        "is below 1",
    );
}
