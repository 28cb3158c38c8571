//! `export --modes N`: the first N futures of a drafter, exactly as in the whole one.

use forkcast::decode::{Ignore, Method, Request, decode};
use forkcast::sample::Sampling;
use forkcast_engines::backend::{Backend, Candidates};
use forkcast_engines::manifest::Dtype;
use forkcast_engines::ort::{OpenOptions, OrtBackend};
use forkcast_exporter::{ExportError, ExportOptions, export};
use forkcast_tests::paths;
use std::path::Path;

const PROMPT: [u32; 9] = [2043, 11, 50, 300, 7, 9, 1200, 45, 3];

fn exported(out: &Path, modes: Option<usize>) -> Result<(), ExportError> {
    let options = ExportOptions {
        target: paths::model("tiny-qwen3.5").display().to_string(),
        drafter: Some(paths::model("tiny-qwen3.5-mfd").display().to_string()),
        out: out.to_owned(),
        dtype: Dtype::F32,
        copy_weights: false,
        hash_weights: false,
        taps: None,
        modes,
        weights_from: None,
    };
    export(&options, &mut |_| {}).map(|_| ())
}

fn candidates(engine: &mut OrtBackend, modes: usize) -> Candidates {
    let request = Request {
        method: Method::Ddtree,
        budget: 8,
        mode: 0,
        max_tokens: 1,
        sampling: Sampling::default(),
        seed: 0,
        stop_ids: Vec::new(),
        logprobs: None,
    };
    decode(engine, &PROMPT, &request, &mut Ignore).expect("decodes");
    engine.draft(77).expect("drafts");
    let mut found = Candidates::default();
    engine.candidates(0..modes, 16, &mut found).expect("candidates");
    found
}

#[test]
fn the_first_modes_are_those_of_the_whole_drafter() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |modes: Option<usize>| {
        let out = folder.path().join(format!("{modes:?}"));
        exported(&out, modes).expect("exports");
        let options = OpenOptions {
            library: Some(paths::onnxruntime()),
            ..OpenOptions::default()
        };
        OrtBackend::open(&out, &options).expect("opens")
    };
    let mut whole = open(None);
    for modes in [1, 3, 8] {
        let mut some = open(Some(modes));
        assert_eq!(some.shape().modes, modes);
        let (expected, found) = (candidates(&mut whole, modes), candidates(&mut some, modes));
        assert_eq!(found.ids, expected.ids, "{modes} modes");
        for (a, b) in found.logp.iter().zip(&expected.logp) {
            assert!((a - b).abs() < 1e-4, "{modes} modes: {a} instead of {b}");
        }
    }
}

#[test]
fn more_modes_than_there_are_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("bundle");
    let said = exported(&out, Some(9)).expect_err("refused").to_string();
    assert!(said.contains("--modes 9: the drafter has 8"), "{said}");
    assert!(!out.exists());
}
