//! What an export writes: the same bytes twice, in one step, complete.

use crate::checkpoints::Spec;
use crate::configs;
use crate::support::{Pair, contents, listing};
use forkcast_engines::manifest::{self, Dtype, Manifest};
use forkcast_exporter::export;
use prost::Message;
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

#[test]
fn two_exports_are_equal_to_the_byte() {
    for (dtype, copy) in [(Dtype::F32, false), (Dtype::Bf16, false), (Dtype::F16, true)] {
        let pair = Pair::hybrid();
        let mut options = pair.options();
        (options.dtype, options.copy_weights, options.hash_weights) = (dtype, copy, true);
        let mut bundle = |name: &str| {
            options.out = pair.root().join(name);
            export(&options, &mut |_| {}).expect("exports");
            contents(&options.out)
        };
        let (a, b) = (bundle("one"), bundle("two"));
        assert!(a == b, "{dtype:?}, copied {copy}");
    }
}

/// Every initializer of every graph: external, with the place that the manifest says.
fn check_initializers(dir: &Path, m: &Manifest) {
    for (stage, graph) in &m.graphs {
        let bytes = std::fs::read(dir.join(&graph.file)).expect("graph");
        let model = forkcast_plugins::onnx::proto::ModelProto::decode(bytes.as_slice()).expect("ONNX");
        let list = &model.graph.as_ref().expect("graph").initializer;
        assert_eq!(list.len(), graph.initializers.len(), "{stage}");
        for (tensor, listed) in list.iter().zip(&graph.initializers) {
            assert_eq!(tensor.name(), listed.name);
            let entry = |key: &str| {
                let found = tensor.external_data.iter().find(|e| e.key() == key);
                found.and_then(|e| e.value.clone()).unwrap_or_default()
            };
            assert_eq!(entry("location"), listed.data.file);
            assert_eq!(entry("offset"), listed.data.offset.to_string());
            assert_eq!(entry("length"), listed.data.length.to_string());
        }
    }
}

#[test]
fn weights_that_fit_stay_where_they_are() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    options.dtype = Dtype::Bf16;
    let m = export(&options, &mut |_| {}).expect("exports").manifest;
    check_initializers(&pair.out(), &m);
    assert_eq!(m, manifest::read(&pair.out()).expect("reads"));
    let names: Vec<&str> = m.weight_files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["target.00.safetensors", "drafter.00.safetensors"]);
    assert_eq!(m.weight_files[0].path, pair.target().join("model.safetensors"));
    assert!(!pair.out().join("target.00.safetensors").exists());
    assert_eq!(m.embedding.file, "target.00.safetensors");
    // Norms are folded and gates stay float32: that is all the bundle owns of the target's weights.
    let owned = m
        .files
        .iter()
        .find(|f| f.name == "target.weights")
        .expect("folded weights");
    assert!(owned.bytes < 8192, "{}", owned.bytes);
    let target = &m.graphs["target"].initializers;
    let one = |name: &str| {
        target
            .iter()
            .find(|i| i.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(one("layers.0.input_layernorm.weight").transform, "add-one");
    assert_eq!(one("layers.0.linear_attn.A_log").transform, "neg-exp");
    assert_eq!(one("layers.0.linear_attn.norm.weight").transform, "none");
    assert_eq!(
        one("layers.0.mlp.gate_proj.weight").data.file,
        "target.00.safetensors"
    );
}

#[test]
fn copied_bundles_stack_projections_and_need_no_checkpoint() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    // bf16 bundles are for GPUs and stack nothing: all of one shape have the same graphs.
    (options.dtype, options.copy_weights) = (Dtype::F32, true);
    let m = export(&options, &mut |_| {}).expect("exports").manifest;
    check_initializers(&pair.out(), &m);
    assert!(m.weight_files.is_empty());
    let find = |stage: &str, name: &str| {
        let found = m.graphs[stage].initializers.iter().find(|i| i.name == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let stack = find("draft", "layers.0.self_attn.qkv_proj.weight");
    assert_eq!(
        (stack.transform.as_str(), stack.data.shape.as_slice()),
        ("stack", &[64, 16][..])
    );
    // The context's k and v are the tail of the block's q, k and v: the same bytes.
    let tail = find("context", "layers.0.self_attn.kv_proj.weight");
    assert_eq!(tail.data.shape, [32, 16]);
    assert_eq!(
        tail.data.offset + tail.data.length,
        stack.data.offset + stack.data.length
    );
    assert_eq!(tail.source, stack.source[1..]);
    for i in m.graphs.values().flat_map(|g| &g.initializers) {
        assert_eq!(i.data.offset % 4, 0, "{}", i.name);
    }
    // The tied head and the embedding are one.
    assert_eq!(m.graphs["head"].initializers[0].data, m.embedding);
}

#[test]
fn conversion_keeps_the_numbers() {
    let pair = Pair::hybrid();
    let m = pair.export().expect("exports").manifest;
    let owned = std::fs::read(pair.out().join(&m.embedding.file)).expect("weights");
    let source = std::fs::read(pair.target().join("model.safetensors")).expect("checkpoint");
    let data = crate::checkpoints::header(&pair.target_specs()).len();
    let at = m.embedding.offset as usize;
    for n in 0..32 * 16 {
        let b = [source[data + 2 * n], source[data + 2 * n + 1]];
        let f = owned[at + 4 * n..at + 4 * n + 4].try_into().expect("4 bytes");
        assert_eq!(half::bf16::from_le_bytes(b).to_f32(), f32::from_le_bytes(f));
    }
}

#[test]
fn an_old_bundle_is_replaced_and_anything_else_is_not() {
    let pair = Pair::hybrid();
    pair.export().expect("exports");
    std::fs::write(pair.out().join("stray"), "x").expect("writes");
    let text = pair.refused();
    assert!(
        text.contains("holds \"stray\", which is not part of the bundle"),
        "{text}"
    );
    std::fs::remove_file(pair.out().join("stray")).expect("removes");
    pair.export().expect("exports again");
    assert_eq!(listing(pair.root()), ["bundle", "drafter", "target"]);
    let mode = std::fs::metadata(pair.out())
        .expect("bundle")
        .permissions()
        .mode();
    assert_eq!(mode & 0o700, 0o700);

    std::fs::remove_file(pair.out().join(manifest::FILE_NAME)).expect("removes");
    let before = contents(&pair.out());
    let text = pair.refused();
    assert!(
        text.contains("exists and is not a forkcast bundle\nhint: name a new folder"),
        "{text}"
    );
    assert!(contents(&pair.out()) == before);
}

#[test]
fn a_failed_export_keeps_the_old_bundle() {
    let pair = Pair::hybrid();
    pair.export().expect("exports");
    let before = contents(&pair.out());
    std::fs::remove_file(pair.drafter().join("model.safetensors")).expect("removes");
    pair.refused();
    assert!(contents(&pair.out()) == before);
}

#[test]
fn a_place_that_cannot_be_written_is_exit_code_5() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    std::fs::write(pair.root().join("file"), "x").expect("writes");
    options.out = pair.root().join("file/bundle");
    let error = export(&options, &mut |_| {}).expect_err("no folder");
    assert_eq!(error.exit_code(), 5, "{error}");
    assert!(error.to_string().contains("cannot write"), "{error}");
}

#[test]
fn missing_parents_are_made_and_go_again_on_failure() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    options.out = pair.root().join("a/b/bundle");
    export(&options, &mut |_| {}).expect("exports");
    assert_eq!(listing(&pair.root().join("a/b")), ["bundle"]);
    // f16 overflow is found while writing, after the parents were made.
    options.out = pair.root().join("c/d/bundle");
    options.dtype = Dtype::F16;
    let path = pair.target().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("reads");
    let data = crate::checkpoints::header(&pair.target_specs()).len();
    bytes[data..data + 2].copy_from_slice(&half::bf16::from_f32(1e6).to_le_bytes());
    std::fs::write(&path, bytes).expect("writes");
    export(&options, &mut |_| {}).expect_err("overflow");
    assert_eq!(listing(pair.root()), ["a", "drafter", "target"]);
}

#[test]
fn equal_files_of_another_bundle_are_linked() {
    let pair = Pair::hybrid();
    pair.export().expect("exports");
    let mut options = pair.options();
    options.out = pair.root().join("second");
    options.weights_from = Some(pair.out());
    pair.write_drafter(&pair.drafter_specs(4));
    let summary = export(&options, &mut |_| {}).expect("exports");
    assert!(
        summary.linked.contains(&"target.weights".to_owned()),
        "{:?}",
        summary.linked
    );
    assert!(!summary.linked.contains(&"drafter.weights".to_owned()));
    let inode = |dir: &Path| std::fs::metadata(dir.join("target.weights")).expect("file").ino();
    assert_eq!(inode(&pair.out()), inode(&options.out));
    let alone = {
        options.out = pair.root().join("third");
        options.weights_from = None;
        export(&options, &mut |_| {}).expect("exports");
        contents(&options.out)
    };
    assert!(
        contents(&pair.root().join("second")) == alone,
        "linking changes no byte"
    );
    // A file that no longer is what its manifest says is not linked.
    std::fs::write(pair.out().join("target.weights"), vec![0; 10]).expect("writes");
    options.out = pair.root().join("fourth");
    options.weights_from = Some(pair.out());
    let summary = export(&options, &mut |_| {}).expect("exports");
    assert!(!summary.linked.contains(&"target.weights".to_owned()));
}

#[test]
fn stop_ids_are_united() {
    let pair = Pair::hybrid();
    let put = |name: &str, text: String| std::fs::write(pair.target().join(name), text).expect("writes");
    put(
        "generation_config.json",
        json!({"eos_token_id": [29, 30]}).to_string(),
    );
    put(
        "tokenizer_config.json",
        json!({"eos_token": {"content": "<end>"}}).to_string(),
    );
    put(
        "tokenizer.json",
        json!({"added_tokens": [{"id": 28, "content": "<end>"}], "model": {}}).to_string(),
    );
    put("chat_template.jinja", "x".to_owned());
    let m = pair.export().expect("exports").manifest;
    assert_eq!(m.stop_ids, [28, 29, 30]);
    assert_eq!(m.text.chat_template.as_deref(), Some("chat_template.jinja"));
    assert!(pair.out().join("tokenizer.json").exists());
    // Some tokens are named in tokenizer_config.json only.
    put(
        "tokenizer_config.json",
        json!({"eos_token": "<end>", "added_tokens_decoder": {"27": {"content": "<end>"}}}).to_string(),
    );
    assert_eq!(pair.export().expect("exports").manifest.stop_ids, [27, 29, 30]);
}

#[test]
fn a_target_alone_has_taps_only_where_asked() {
    let pair = Pair::hybrid();
    let mut options = pair.options();
    options.drafter = None;
    let m = export(&options, &mut |_| {}).expect("exports").manifest;
    assert_eq!((m.taps.len(), m.drafter), (0, None));
    assert_eq!(m.graphs.keys().collect::<Vec<_>>(), ["commit", "head", "target"]);
    options.taps = Some(vec![3, 1]);
    assert_eq!(
        export(&options, &mut |_| {}).expect("exports").manifest.taps,
        [3, 1]
    );
}

#[test]
fn dense_targets_have_no_commit_graph() {
    let mut pair = Pair::hybrid();
    pair.target_config = configs::tiny_dense();
    pair.drafter_config["num_target_layers"] = json!(2);
    pair.drafter_config["dflash_config"]["target_layer_ids"] = json!([0, 1]);
    // A tied checkpoint may store the head again: the embedding is used.
    let mut specs = crate::checkpoints::qwen3(&pair.target_config, "BF16");
    specs.push(Spec::new("lm_head.weight", "BF16", &[32, 16]));
    pair.write_target(&specs);
    pair.write_configs();
    let m = pair.export().expect("exports").manifest;
    assert!(!m.graphs.contains_key("commit"));
    assert_eq!(m.graphs["head"].initializers[0].data, m.embedding);
    // Untied: the head is a matrix of its own.
    pair.target_config["tie_word_embeddings"] = json!(false);
    pair.write_configs();
    let m = pair.export().expect("exports").manifest;
    assert_eq!(m.graphs["head"].initializers[0].source, ["lm_head.weight"]);
    assert_ne!(m.graphs["head"].initializers[0].data, m.embedding);
}

#[test]
fn values_at_both_places_of_a_drafter_configuration() {
    let mut pair = Pair::hybrid();
    // First generation: flat fields; no list of layers.
    let config = pair.drafter_config.as_object_mut().expect("object");
    config.remove("dflash_config");
    config.remove("rope_parameters");
    config.insert("rope_theta".to_owned(), json!(5000));
    config.insert("block_size".to_owned(), json!(8));
    config.insert("mask_token_id".to_owned(), json!(7));
    pair.write_configs();
    let m = pair.export().expect("exports").manifest;
    let drafter = m.drafter.expect("drafter");
    assert_eq!((drafter.block, drafter.mask_id), (8, 7));
    // Two own layers over four: round(1 + i * 0 / 1).
    assert_eq!(m.taps, [1, 1]);
    // The nested value wins.
    pair.drafter_config["dflash_config"] = json!({"block_size": 4, "target_layer_ids": [0, 2]});
    pair.write_configs();
    let m = pair.export().expect("exports").manifest;
    assert_eq!((m.drafter.expect("drafter").block, m.taps), (4, vec![0, 2]));
}
