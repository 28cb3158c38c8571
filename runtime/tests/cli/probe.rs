//! `forkcast probe`: shapes, and rows of a tree against positions of a prompt.

use crate::bundles::{dense, dflash, int4};
use crate::run::{forkcast, stdout};
use safetensors::SafeTensors;
use std::collections::BTreeMap;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn probe(args: &[&str]) -> Tensors {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.safetensors");
    let place = out.to_str().expect("a plain path");
    assert_eq!(stdout(&[&["probe"][..], args, &["--out", place]].concat()), "");
    assert_eq!(
        folder.path().read_dir().expect("listed").count(),
        1,
        "one file, no partial one"
    );
    let bytes = std::fs::read(&out).expect("written");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        assert_eq!(view.dtype(), safetensors::Dtype::F32);
        let numbers = view
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        (name, (view.shape().to_vec(), numbers.collect()))
    });
    tensors.collect()
}

/// Row `row` of a tensor.
fn row(tensors: &Tensors, name: &str, row: usize) -> Vec<f32> {
    let (shape, data) = &tensors[name];
    let width = data.len() / shape[0];
    data[row * width..(row + 1) * width].to_vec()
}

#[test]
fn shapes() {
    let found = probe(&[&dflash(), "--ids", "1,2,3,4,5"]);
    let shapes: Vec<_> = found
        .iter()
        .map(|(name, (shape, _))| (name.as_str(), shape.clone()))
        .collect();
    assert_eq!(
        shapes,
        [
            ("hidden", vec![5, 192]),
            ("logits", vec![5, 2048]),
            ("taps", vec![5, 3, 192])
        ]
    );
    let found = probe(&[&dense(), "--ids", "1", "--rows", "7,8,9", "--parents=-1,0,0"]);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["hidden", "logits"]);
    assert_eq!(found["logits"].0, [3, 2048]);
}

#[test]
fn every_path_of_a_tree_equals_a_prompt() {
    for bundle in [dflash(), dense()] {
        // Row 0 is 7; 8 and 9 follow it; 10 follows 9.
        let tree = probe(&[
            &bundle,
            "--ids",
            "1,2,3",
            "--rows",
            "7,8,9,10",
            "--parents",
            "-1,0,0,2",
        ]);
        for (ids, rows) in [
            ("1,2,3,7,8", vec![(3, 0), (4, 1)]),
            ("1,2,3,7,9,10", vec![(3, 0), (4, 2), (5, 3)]),
        ] {
            let prompt = probe(&[&bundle, "--ids", ids]);
            for (position, node) in rows {
                for name in tree.keys() {
                    let (a, b) = (row(&prompt, name, position), row(&tree, name, node));
                    let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
                    assert!(worst < 1e-3, "{name} of row {node} differs by {worst}");
                }
            }
        }
    }
}

#[test]
fn a_quantised_bundle_is_compared_with_the_float32_one() {
    let ids = "5,6,7,8,9,300,1200";
    let numbers = |model: &str| -> serde_json::Value {
        let args = ["probe", model, "--ids", ids, "--compare", &dense(), "--json"];
        serde_json::from_str(&stdout(&args)).expect("one JSON object")
    };
    let same = numbers(&dense());
    assert_eq!(same["logits"]["max_abs"], 0.0, "{same}");
    assert_eq!(same["top1"], 1.0, "{same}");
    let four = numbers(&int4());
    assert_eq!(four["rows"], 7);
    let number = |path: &str| {
        four.pointer(path)
            .and_then(serde_json::Value::as_f64)
            .expect("a number")
    };
    assert!(number("/logits/max_abs") > number("/logits/mean_abs"), "{four}");
    assert!(
        number("/logits/mean_abs") > 0.0 && number("/kl_mean") > 0.0,
        "{four}"
    );
    assert!(
        number("/logits/mean_abs") < 0.2 * number("/logits/largest"),
        "{four}"
    );
    let text = stdout(&["probe", &int4(), "--ids", ids, "--compare", &dense()]);
    assert!(text.starts_with("logits") && text.contains("top 1"), "{text}");
}

#[test]
fn a_comparison_is_of_one_model() {
    let ran = forkcast(&["probe", &dense(), "--ids", "1", "--compare", &dflash()]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("name a bundle of the same model"),
        "{}",
        ran.stderr
    );
    let ran = forkcast(&["probe", &dense(), "--ids", "1"]);
    assert_eq!(ran.code, 2, "neither --out nor --compare: {}", ran.stderr);
}
