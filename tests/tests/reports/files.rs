//! Cases of checkpoints and bundles that are not what they should be.

use forkcast_engines::bundle::Bundle as Opened;
use forkcast_engines::manifest::Dtype;
use forkcast_exporter::{ExportError, ExportOptions, export};
use forkcast_tests::paths;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SHARDED: &str = "hybrid_composite_mixed";

/// A copy of a golden checkpoint that may be damaged.
fn copy(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("target");
    std::fs::create_dir(&dir).expect("a folder");
    for entry in std::fs::read_dir(paths::golden(name)).expect("a checkpoint") {
        let from = entry.expect("an entry").path();
        std::fs::copy(&from, dir.join(from.file_name().expect("a name"))).expect("copied");
    }
    (folder, dir)
}

fn try_export(target: &Path, out: &Path) -> Result<(), ExportError> {
    let options = ExportOptions {
        target: target.to_string_lossy().into_owned(),
        drafter: None,
        out: out.to_owned(),
        dtype: Dtype::F32,
        copy_weights: true,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: None,
    };
    export(&options, &mut |_| ()).map(drop)
}

/// A shard that the index names is absent: refused before anything is written, with its name.
#[test]
fn sglang_32279_an_absent_shard_is_named() {
    let (folder, dir) = copy(SHARDED);
    let shard = "model.safetensors-00002-of-00002.safetensors";
    std::fs::remove_file(dir.join(shard)).expect("removed");
    let out = folder.path().join("bundle");
    let error = try_export(&dir, &out).expect_err("refused");
    assert!(
        error.to_string().contains(shard) && error.to_string().contains("absent"),
        "{error}"
    );
    assert_eq!((error.exit_code(), out.exists()), (2, false));
}

/// The index lacks the name, the shard is absent, the shard lacks the tensor: three messages.
#[test]
fn colibri_1317_and_1487_causes_of_a_missing_tensor_are_told_apart() {
    let index = "model.safetensors.index.json";
    let edit = |change: &dyn Fn(&Path)| {
        let (folder, dir) = copy(SHARDED);
        change(&dir);
        let error = try_export(&dir, &folder.path().join("bundle")).expect_err("refused");
        error.to_string()
    };
    let rewrite = |dir: &Path, change: &dyn Fn(&mut serde_json::Map<String, serde_json::Value>)| {
        let path = dir.join(index);
        let mut value: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
        change(value["weight_map"].as_object_mut().expect("a map"));
        std::fs::write(&path, value.to_string()).expect("written");
    };
    let first = |map: &serde_json::Map<String, serde_json::Value>| {
        let mut names: Vec<&String> = map.keys().filter(|k| k.contains("layers.0.")).collect();
        names.sort();
        names[0].clone()
    };
    let unlisted = edit(&|dir| {
        rewrite(dir, &|map| {
            let name = first(map);
            map.remove(&name);
        });
    });
    let absent = edit(&|dir| {
        rewrite(dir, &|map| {
            let name = first(map);
            map.insert(name, "gone.safetensors".into());
        })
    });
    let lacking = edit(&|dir| {
        rewrite(dir, &|map| {
            map.insert(
                "model.invented".into(),
                "model.safetensors-00001-of-00002.safetensors".into(),
            );
        })
    });
    assert!(unlisted.contains("does not list it"), "{unlisted}");
    assert!(
        absent.contains("gone.safetensors") && absent.contains("absent"),
        "{absent}"
    );
    assert!(
        lacking.contains("model.invented") && lacking.contains("but it does not"),
        "{lacking}"
    );
}

/// A bundle that was moved and is read-only opens; one whose data is cut short does not.
#[test]
fn llm2vec_155_and_anomalib_2591_bundles_move_and_truncation_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, moved) = (folder.path().join("bundle"), folder.path().join("elsewhere"));
    try_export(&paths::golden("dense_untied_f32"), &out).expect("exports");
    std::fs::rename(&out, &moved).expect("moved");
    let mut mode = std::fs::metadata(&moved).expect("there").permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&moved, mode).expect("set");
    Opened::open(&moved).expect("opens");
    let weights = moved.join("target.weights");
    let length = std::fs::metadata(&weights).expect("there").len();
    let file = std::fs::File::options()
        .write(true)
        .open(&weights)
        .expect("opens");
    file.set_len(length - 1).expect("cut");
    let error = Opened::open(&moved).expect_err("refused");
    assert!(error.to_string().contains("size changed"), "{error}");
}

/// A drafter is no model by itself.
#[test]
fn s2_a_drafter_is_not_exported_or_opened_as_a_model() {
    let drafter = paths::golden("drafter_second_generation");
    let folder = tempfile::tempdir().expect("a folder");
    let error = try_export(&drafter, &folder.path().join("bundle")).expect_err("refused");
    assert!(error.to_string().contains("this is a drafter"), "{error}");
    let error = Opened::open(&drafter).expect_err("refused");
    assert!(error.to_string().contains("drafter"), "{error}");
}
