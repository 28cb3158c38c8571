//! Weight files that are broken or hostile, and shards that do not belong together.

use crate::checkpoints::{self, Spec, header, write_filled, write_sharded};
use crate::support::Pair;
use serde_json::json;
use std::os::unix::fs::FileExt;

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "expected {part:?} in: {text}");
}

/// Writes the target's file with this header object and `data` bytes behind it.
fn raw(pair: &Pair, object: &str, data: usize) {
    let mut file = (object.len() as u64).to_le_bytes().to_vec();
    file.extend(object.as_bytes());
    file.resize(file.len() + data, 0);
    std::fs::write(pair.target().join("model.safetensors"), file).expect("writes");
}

#[test]
fn hostile_headers() {
    let pair = Pair::hybrid();
    let cases = [
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
            12,
            "tensor b: its bytes overlap those of a",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}"#,
            24,
            "tensor b: 8 bytes before it belong to no tensor",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
            4,
            "tensor a: data offsets [0, 8] reach beyond the file",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
            16,
            "8 bytes after the last tensor belong to no tensor",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
            8,
            "tensor a: data offsets [8, 0] run backwards",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
            8,
            "tensor a: 8 bytes do not hold [3] numbers of type F32",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#,
            0,
            "tensor a: shape [0] holds no element",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}"#,
            8,
            "tensor a: shape [4294967296, 4294967296] overflows",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]}}"#,
            8,
            "tensor a: ",
        ),
        (
            r#"{"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}}"#,
            8,
            "header: tensor a: unknown variant `Q4`",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}"#,
            8,
            "header: tensor a: invalid value",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
            8,
            "header: tensor a is listed twice",
        ),
        ("{", 0, "header: EOF"),
        ("[]", 0, "header: invalid type"),
        (
            "{}",
            0,
            "tensor model.embed_tokens.weight: the model needs it, but the file does not hold it",
        ),
    ];
    for (object, data, expected) in cases {
        raw(&pair, object, data);
        has(&pair.refused(), expected);
    }
}

#[test]
fn headers_beyond_the_file_or_the_limit() {
    let pair = Pair::hybrid();
    let path = pair.target().join("model.safetensors");
    for (bytes, expected) in [
        (
            vec![],
            "0 bytes are no safetensors file\nhint: the file is cut short",
        ),
        (vec![1; 7], "7 bytes are no safetensors file"),
        (
            1000_u64.to_le_bytes().to_vec(),
            "header of 1000 bytes reaches beyond the file of 8 bytes",
        ),
        (
            u64::MAX.to_le_bytes().to_vec(),
            "header of 18446744073709551615 bytes, more than the 100000000",
        ),
    ] {
        std::fs::write(&path, bytes).expect("writes");
        has(&pair.refused(), expected);
    }
    std::fs::remove_file(&path).expect("removes");
    has(
        &pair.refused(),
        "neither model.safetensors.index.json nor model.safetensors is in this folder",
    );
}

#[test]
fn truncated_weights() {
    let pair = Pair::hybrid();
    let path = pair.target().join("model.safetensors");
    let size = std::fs::metadata(&path).expect("file").len();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opens");
    file.set_len(size - 1).expect("cuts");
    let text = pair.refused();
    has(&text, "reach beyond the file");
    has(&text, "hint: the file is cut short: fetch it again");
}

#[test]
fn wrong_type_shape_and_leftovers() {
    let pair = Pair::hybrid();
    let change = |name: &str, edit: &dyn Fn(&mut Spec)| {
        let mut specs = pair.target_specs();
        edit(specs.iter_mut().find(|s| s.name == name).expect("exists"));
        pair.write_target(&specs);
        pair.refused()
    };
    let name = "model.layers.3.self_attn.q_proj.weight";
    has(
        &change(name, &|s| s.dtype = "F8_E4M3"),
        "tensor model.layers.3.self_attn.q_proj.weight: type F8_E4M3; weights may be F32, BF16 or F16",
    );
    has(&change(name, &|s| s.dtype = "I32"), "type I32; weights may be");
    // A plain attention's q_proj: half as wide as the gated one.
    has(
        &change(name, &|s| s.shape[0] /= 2),
        "shape [32, 16], but the configuration asks for [64, 16]",
    );
    has(
        &change(name, &|s| s.name = "model.layers.3.self_attn.q.weight".to_owned()),
        "tensor model.layers.3.self_attn.q_proj.weight: the model needs it, but the file does not hold it",
    );
    let mut specs = pair.target_specs();
    specs.push(Spec::new("model.layers.3.self_attn.q_proj.bias", "BF16", &[64]));
    pair.write_target(&specs);
    has(
        &pair.refused(),
        "tensor model.layers.3.self_attn.q_proj.bias: is not part of the model that config.json describes",
    );
    let mut specs = pair.target_specs();
    specs.push(Spec::new(
        "model.layers.0.linear_attn.in_proj_qkvz.weight",
        "BF16",
        &[4, 4],
    ));
    pair.write_target(&specs);
    has(
        &pair.refused(),
        "fused projections of Qwen3-Next are not supported",
    );
}

#[test]
fn leftovers_of_a_drafter() {
    let pair = Pair::hybrid();
    let mut specs = pair.drafter_specs(4);
    pair.write_drafter(&specs);
    pair.export().expect("mode gates are no leftovers");
    std::fs::remove_dir_all(pair.out()).expect("removes");
    specs.push(Spec::new("embed_tokens.weight", "BF16", &[32, 16]));
    pair.write_drafter(&specs);
    has(
        &pair.refused(),
        "tensor embed_tokens.weight: is not part of a drafter of the DFlash family",
    );
}

#[test]
fn numbers_that_f16_cannot_hold() {
    let pair = Pair::hybrid();
    let path = pair.target().join("model.safetensors");
    let specs = pair.target_specs();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opens");
    let data = header(&specs).len() as u64;
    file.write_all_at(&half::bf16::from_f32(1e6).to_le_bytes(), data)
        .expect("writes");
    let mut options = pair.options();
    options.dtype = forkcast_engines::manifest::Dtype::F16;
    let text = crate::support::refusal(&options, pair.root());
    has(
        &text,
        "tensor model.embed_tokens.weight: 999424 does not fit type f16",
    );
    has(&text, "hint: export --dtype bf16 or --dtype f32");
}

/// The tiny target in three shards with odd names.
fn sharded() -> Pair {
    let pair = Pair::hybrid();
    std::fs::remove_file(pair.target().join("model.safetensors")).expect("removes");
    write_sharded(&pair.target(), &pair.target_specs(), shard_of, write_filled);
    pair
}

fn shard_of(s: &Spec) -> String {
    let number = s.name.len() % 3;
    format!("model.safetensors-0000{number}-of-00003.safetensors")
}

fn edit_index(pair: &Pair, edit: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = pair.target().join("model.safetensors.index.json");
    let text = std::fs::read(&path).expect("reads");
    let mut index: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    edit(index["weight_map"].as_object_mut().expect("object"));
    std::fs::write(&path, index.to_string()).expect("writes");
}

#[test]
fn odd_shard_names_work_and_the_index_wins() {
    let pair = sharded();
    // A file of another checkpoint beside the index is not looked at.
    std::fs::write(pair.target().join("model.safetensors"), "junk").expect("writes");
    let summary = pair.export().expect("exports");
    assert_eq!(
        summary.notes,
        ["there is no tokenizer.json: the bundle takes and gives token ids only"]
    );
}

#[test]
fn three_causes_of_a_missing_tensor_have_three_messages() {
    let name = "model.layers.0.linear_attn.A_log";
    let pair = sharded();
    edit_index(&pair, |map| drop(map.remove(name)));
    has(
        &pair.refused(),
        "tensor model.layers.0.linear_attn.A_log: this shard holds it, but the index does not list it",
    );

    let pair = sharded();
    let specs: Vec<Spec> = pair
        .target_specs()
        .into_iter()
        .filter(|s| s.name != name)
        .collect();
    write_sharded(&pair.target(), &specs, shard_of, write_filled);
    has(
        &pair.refused(),
        "model.safetensors.index.json: tensor model.layers.0.linear_attn.A_log: the model needs it, but the index does not list it",
    );

    let pair = sharded();
    let shard = shard_of(&Spec::new(name, "F32", &[]));
    std::fs::remove_file(pair.target().join(&shard)).expect("removes");
    has(
        &pair.refused(),
        &format!("model.safetensors.index.json: shards that the index names are absent: {shard}"),
    );

    let pair = sharded();
    let specs: Vec<Spec> = pair
        .target_specs()
        .into_iter()
        .filter(|s| shard_of(s) == shard && s.name != name)
        .collect();
    write_filled(&pair.target().join(&shard), &specs);
    has(
        &pair.refused(),
        &format!("{shard}: tensor {name}: the index says that this shard holds it, but it does not"),
    );
}

#[test]
fn weight_maps_that_leave_the_folder() {
    for file in [
        "../model.safetensors",
        "/etc/passwd",
        "a/../../b",
        "",
        "./x.safetensors/..",
    ] {
        let pair = sharded();
        edit_index(&pair, |map| {
            map.insert("model.norm.weight".to_owned(), json!(file));
        });
        has(
            &pair.refused(),
            &format!(
                "tensor model.norm.weight: weight_map names {file:?}, which leaves the checkpoint folder"
            ),
        );
    }
}

#[test]
fn broken_indices() {
    let pair = sharded();
    let path = pair.target().join("model.safetensors.index.json");
    for (text, expected) in [
        ("{}", "missing field `weight_map`"),
        ("{\"weight_map\": {}}", "weight_map is empty"),
        ("{\"weight_map\": {\"a\": 1}}", "invalid type"),
        ("", "EOF"),
    ] {
        std::fs::write(&path, text).expect("writes");
        has(&pair.refused(), expected);
    }
}

#[test]
fn a_tensor_in_two_shards() {
    let pair = sharded();
    let specs = pair.target_specs();
    let twice = specs
        .iter()
        .find(|s| shard_of(s) != shard_of(&specs[0]))
        .expect("another shard");
    let mut first: Vec<Spec> = specs
        .iter()
        .filter(|s| shard_of(s) == shard_of(&specs[0]))
        .cloned()
        .collect();
    first.push(twice.clone());
    write_filled(&pair.target().join(shard_of(&specs[0])), &first);
    has(&pair.refused(), "also in ");
}

#[test]
fn prefixes_of_re_saves() {
    for prefix in ["model.language_model.", "language_model.model.", "model.", ""] {
        let pair = Pair::hybrid();
        pair.write_target(&checkpoints::qwen35(&pair.target_config, prefix, "BF16"));
        pair.export().unwrap_or_else(|e| panic!("{prefix}: {e}"));
    }
}

#[test]
fn damaged_headers_never_panic() {
    use rand::{Rng, SeedableRng};
    let pair = Pair::hybrid();
    let path = pair.target().join("model.safetensors");
    let whole = std::fs::read(&path).expect("reads");
    let head = header(&pair.target_specs()).len();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let mut refused = 0;
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..head);
            bytes[at] = rng.random_range(b' '..=b'~');
        }
        if rng.random_range(0..4) == 0 {
            bytes.truncate(rng.random_range(0..whole.len()));
        }
        std::fs::write(&path, bytes).expect("writes");
        // A changed letter of the free metadata leaves a valid file.
        refused += usize::from(pair.export().is_err());
    }
    assert!(refused > 300, "{refused} of 400 were refused");
}
