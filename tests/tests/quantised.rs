//! Quantised bundles on the real ONNX Runtime: the stored blocks mean what the guide says, the text is that of plain decoding,
//! and the model is still the same model.

use forkcast::decode::{Emitted, Ignore, Method, Request, Sink, Verdict, decode};
use forkcast::sample::Sampling;
use forkcast_engines::backend::{Backend, Candidates};
use forkcast_engines::build::prepare;
use forkcast_engines::bundle::Bundle;
use forkcast_engines::engine::WeightMode;
use forkcast_engines::manifest::{Dtype, Manifest, TensorData, read};
use forkcast_engines::ort::{OpenOptions, OrtBackend};
use forkcast_engines::recipe::Recipe;
use forkcast_exporter::{ExportOptions, export};
use forkcast_tests::bundles::verify_chain;
use forkcast_tests::paths;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PAIRS: [(&str, &str); 2] = [
    ("tiny-qwen3.5", "tiny-qwen3.5-dflash"),
    ("tiny-qwen3", "tiny-qwen3-dflash-long"),
];
const PROMPT: [u32; 24] = [
    2043, 11, 50, 300, 7, 9, 1200, 45, 3, 800, 17, 5, 99, 1001, 640, 31, 2, 76, 410, 1999, 12, 13, 14, 15,
];

fn exported(folder: &TempDir, pair: (&str, &str), dtype: Dtype) -> PathBuf {
    let out = folder.path().join(format!("{}-{}", pair.0, dtype.name()));
    let options = ExportOptions {
        target: paths::model(pair.0).display().to_string(),
        drafter: Some(paths::model(pair.1).display().to_string()),
        out: out.clone(),
        dtype,
        copy_weights: false,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: None,
    };
    export(&options, &mut |_| {}).expect("exports");
    out
}

fn open(bundle: &Path) -> OrtBackend {
    let options = OpenOptions {
        threads: Some(2),
        library: Some(paths::onnxruntime()),
        ..OpenOptions::default()
    };
    OrtBackend::open(bundle, &options).expect("opens")
}

fn bytes(bundle: &Path, tensor: &TensorData) -> Vec<u8> {
    let all = std::fs::read(bundle.join(&tensor.file)).expect("weights");
    all[tensor.offset as usize..(tensor.offset + tensor.length) as usize].to_vec()
}

/// The embedding, number by number: `scale * q` or `scale * (q - 8)`.
fn table(bundle: &Path, m: &Manifest) -> Vec<f64> {
    let codes = bytes(bundle, &m.embedding);
    let scales = bytes(bundle, m.embedding_scales.as_ref().expect("scales"));
    let four = m.embedding.dtype == Dtype::Int4;
    let width = if four { 16 } else { 32 };
    let mut table = Vec::new();
    for (block, scale) in codes.chunks(width).zip(scales.chunks(4)) {
        let scale = f64::from(f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]));
        for byte in block {
            if four {
                table.push(scale * (f64::from(byte & 15) - 8.0));
                table.push(scale * (f64::from(byte >> 4) - 8.0));
            } else {
                table.push(scale * f64::from(byte.cast_signed()));
            }
        }
    }
    table
}

/// Logits of the last prompt row, and its hidden state.
fn last(engine: &mut OrtBackend) -> (Vec<f32>, Vec<f32>) {
    engine.reset().expect("resets");
    verify_chain(engine, &PROMPT);
    let (mut logits, mut hidden, mut taps) = (Vec::new(), Vec::new(), Vec::new());
    engine
        .logits(&[PROMPT.len() as u32 - 1], &mut logits)
        .expect("logits");
    engine.features(&mut hidden, &mut taps).expect("features");
    let width = engine.shape().hidden;
    (logits, hidden[(PROMPT.len() - 1) * width..].to_vec())
}

#[test]
fn blocks_mean_what_the_guide_says() {
    let folder = tempfile::tempdir().expect("a folder");
    for dtype in [Dtype::Int4, Dtype::Int8] {
        for pair in PAIRS {
            let bundle = exported(&folder, pair, dtype);
            let manifest = read(&bundle).expect("a manifest");
            let table = table(&bundle, &manifest);
            let mut engine = open(&bundle);
            let (logits, hidden) = last(&mut engine);
            let largest = logits.iter().fold(1.0f32, |m, x| m.max(x.abs()));
            for (found, row) in logits.iter().zip(table.chunks(hidden.len())) {
                let expected: f64 = row.iter().zip(&hidden).map(|(w, h)| w * f64::from(*h)).sum();
                let error = (f64::from(*found) - expected).abs() / f64::from(largest);
                assert!(
                    error < 1e-5,
                    "{} {}: {found} instead of {expected}",
                    pair.0,
                    dtype.name()
                );
            }
        }
    }
}

#[test]
fn builds_for_a_gpu_refuse_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = Bundle::open(&exported(&folder, PAIRS[1], Dtype::Int4)).expect("opens");
    let recipe = Recipe::load("h200").expect("built in");
    let error = prepare(&bundle, &recipe, WeightMode::Inputs).expect_err("refused");
    assert!(error.to_string().contains("int4 bundle"), "{error}");
    assert!(
        error.hint().is_some_and(|h| h.contains("--dtype bf16")),
        "{error}"
    );
}

#[test]
fn it_is_still_the_same_model() {
    let folder = tempfile::tempdir().expect("a folder");
    for pair in PAIRS {
        let (exact, _) = last(&mut open(&exported(&folder, pair, Dtype::F32)));
        let probability = |logits: &[f32]| -> Vec<f64> {
            let largest = logits.iter().copied().fold(f32::MIN, f32::max);
            let weights: Vec<f64> = logits.iter().map(|x| f64::from(x - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(|w| w / sum).collect()
        };
        let p = probability(&exact);
        for (dtype, bound) in [(Dtype::Int8, 0.02), (Dtype::Int4, 0.3)] {
            let (found, _) = last(&mut open(&exported(&folder, pair, dtype)));
            let q = probability(&found);
            let kl: f64 = p
                .iter()
                .zip(&q)
                .map(|(p, q)| p * (p.max(1e-30) / q.max(1e-30)).ln())
                .sum();
            assert!(kl < bound, "{} {}: KL divergence {kl}", pair.0, dtype.name());
        }
    }
}

#[test]
fn trees_give_the_text_of_plain_decoding() {
    let folder = tempfile::tempdir().expect("a folder");
    for dtype in [Dtype::Int4, Dtype::Int8] {
        for pair in PAIRS {
            let mut engine = open(&exported(&folder, pair, dtype));
            let mut run = |method: Method, budget: usize, logprobs: Option<usize>| {
                let request = Request {
                    method,
                    budget,
                    mode: 0,
                    max_tokens: 48,
                    sampling: Sampling::default(),
                    seed: 0,
                    stop_ids: Vec::new(),
                    logprobs,
                };
                let mut gaps = Gaps(Vec::new());
                let report = decode(&mut engine, &PROMPT, &request, &mut gaps).expect("decodes");
                (report.token_ids, gaps.0)
            };
            let (plain, gaps) = run(Method::Plain, 0, Some(2));
            for (method, budget) in [(Method::Chain, 15), (Method::Ddtree, 12), (Method::Ddtree, 64)] {
                let (found, _) = run(method, budget, None);
                let Some(place) = (0..plain.len()).find(|i| plain[*i] != found[*i]) else {
                    continue;
                };
                assert!(
                    gaps[place] < 1e-3,
                    "{} {}, {method} {budget}: another token at {place}, where plain's best two are {} apart",
                    pair.0,
                    dtype.name(),
                    gaps[place]
                );
            }
        }
    }
}

#[test]
fn drafts_choose_among_part_of_the_vocabulary() {
    let folder = tempfile::tempdir().expect("a folder");
    for dtype in [Dtype::Int4, Dtype::Int8] {
        let mut engine = open(&exported(&folder, PAIRS[0], dtype));
        let mut candidates = |list: Option<&[u32]>, k: usize| {
            if let Some(list) = list {
                engine.shorten_draft(list).expect("a list");
            }
            let request = Request {
                method: Method::Chain,
                budget: 9,
                mode: 0,
                max_tokens: 1,
                sampling: Sampling::default(),
                seed: 0,
                stop_ids: Vec::new(),
                logprobs: None,
            };
            decode(&mut engine, &PROMPT, &request, &mut Ignore).expect("decodes");
            engine.draft(9).expect("drafts");
            let mut found = Candidates::default();
            engine.candidates(0..1, k, &mut found).expect("candidates");
            found
        };
        let all = candidates(None, 2048);
        let list: Vec<u32> = (0..2048).step_by(5).collect();
        let some = candidates(Some(&list), list.len());
        for row in 0..all.positions {
            let kept = all.ids[row * 2048..][..2048]
                .iter()
                .filter(|id| list.contains(id));
            let kept: Vec<u32> = kept.copied().collect();
            // The rows are the same bytes, so the order is the same to the last bit.
            assert_eq!(
                kept,
                some.ids[row * list.len()..][..list.len()],
                "{} row {row}",
                dtype.name()
            );
        }
    }
}

/// Distance of the best two tokens at every place.
struct Gaps(Vec<f32>);

impl Sink for Gaps {
    fn token(&mut self, token: &Emitted<'_>) -> Verdict {
        if let [(_, best), (_, second), ..] = token.top {
            self.0.push(best - second);
        }
        Verdict::Continue
    }
}

/// Weights that lie elsewhere than the graph says would be read as others without a word.
#[test]
fn weights_that_the_graph_does_not_mean_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = exported(&folder, PAIRS[0], Dtype::Int8);
    let place = bundle.join("manifest.json");
    let good: Value = serde_json::from_str(&std::fs::read_to_string(&place).expect("text")).expect("JSON");
    let names = ["in_proj_qkv.weight", "in_proj_z.weight"].map(|n| format!("layers.0.linear_attn.{n}"));
    let change = |how: &str, part: &str| {
        let mut manifest = good.clone();
        let list = manifest["graphs"]["target"]["initializers"]
            .as_array_mut()
            .expect("a list");
        let at = |list: &[Value], name: &str| list.iter().position(|i| i["name"] == name).expect("there");
        let first = at(list, &names[0]);
        match how {
            "removed" => drop(list.remove(first)),
            "renamed" => list[first]["name"] = "nonsense".into(),
            "added" => {
                let mut more = list[first].clone();
                more["name"] = "nonsense".into();
                list.push(more);
            }
            "turned" => list[first]["shape"].as_array_mut().expect("a shape").swap(0, 1),
            _ => {
                let second = at(list, &names[1]);
                let name = list[first]["name"].take();
                list[first]["name"] = list[second]["name"].take();
                list[second]["name"] = name;
            }
        }
        std::fs::write(&place, manifest.to_string()).expect("written");
        let options = OpenOptions {
            library: Some(paths::onnxruntime()),
            ..OpenOptions::default()
        };
        let error = OrtBackend::open(&bundle, &options).expect_err(how);
        assert_eq!(error.exit_code(), 2, "{how}: {error}");
        assert!(error.to_string().contains(part), "{how}: {error}");
    };
    change("removed", "in_proj_qkv.weight\": the manifest does not have it");
    change("renamed", "\"nonsense\": the graph does not have it");
    change("added", "\"nonsense\": the graph does not have it");
    change("turned", "in the manifest");
    change("exchanged", "in the manifest");
}
