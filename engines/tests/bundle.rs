//! Opening bundles that are damaged, changed or hostile: refused by name, never a panic.

#[path = "bundle/content.rs"]
mod content;

use forkcast_engines::bundle::{Bundle, OpenError};
use forkcast_engines::manifest::{
    Attention, Dtype, FILE_NAME, Family, Graph, Initializer, Layer, Manifest, OwnedFile, SCHEMA, Target,
    TensorData, TextFiles, WeightFile, write,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// A checkpoint file: header and 64 bytes of data.
fn checkpoint(path: &Path) -> WeightFile {
    let header = br#"{"w":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header);
    let header_sha256 = hex(&bytes);
    bytes.extend_from_slice(&[0; 64]);
    fs::write(path, &bytes).expect("written");
    WeightFile {
        name: "model.safetensors".to_owned(),
        path: path.to_path_buf(),
        bytes: bytes.len() as u64,
        header_sha256,
        sha256: None,
    }
}

/// A bundle whose files are in order, though no library would take its graphs.
fn bundle() -> (TempDir, Manifest) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let owned = |name: &str, content: &[u8]| {
        fs::write(dir.join(name), content).expect("written");
        OwnedFile {
            name: name.to_owned(),
            bytes: content.len() as u64,
            sha256: hex(content),
        }
    };
    let files = vec![
        owned("target.onnx", b"graph"),
        owned("head.onnx", b"graph"),
        owned("tokenizer.json", b"{}"),
        owned("target.weights", &[0; 128]),
    ];
    let weights = checkpoint(&dir.join("elsewhere.safetensors"));
    let tensor = |file: &str, offset, length, shape: &[usize]| TensorData {
        file: file.to_owned(),
        offset,
        length,
        dtype: Dtype::F32,
        shape: shape.to_vec(),
    };
    let offset = weights.bytes - 64;
    let initializer = Initializer {
        name: "w".to_owned(),
        source: vec!["w".to_owned()],
        transform: "none".to_owned(),
        data: tensor("model.safetensors", offset, 64, &[4, 4]),
    };
    let graph = |file: &str| Graph {
        file: file.to_owned(),
        initializers: vec![initializer.clone()],
    };
    let attention = Attention {
        heads: 2,
        kv_heads: 1,
        head_dim: 2,
    };
    let manifest = Manifest {
        schema: SCHEMA,
        forkcast: "test".to_owned(),
        dtype: Dtype::F32,
        target: Target {
            family: Family::Qwen3,
            hidden: 4,
            vocab: 8,
            layers: vec![Layer::Attention(attention)],
            tied: true,
        },
        drafter: None,
        taps: Vec::new(),
        max_context: 64,
        stop_ids: Vec::new(),
        text: TextFiles {
            tokenizer: Some("tokenizer.json".to_owned()),
            ..TextFiles::default()
        },
        graphs: BTreeMap::from([
            ("target".to_owned(), graph("target.onnx")),
            ("head".to_owned(), graph("head.onnx")),
        ]),
        embedding: tensor("target.weights", 0, 128, &[8, 4]),
        embedding_scales: None,
        files,
        weight_files: vec![weights],
    };
    write(dir, &manifest).expect("written");
    (folder, manifest)
}

fn refused(dir: &Path, needles: &[&str]) -> OpenError {
    let error = Bundle::open(dir).expect_err(needles[0]);
    for needle in needles {
        assert!(error.to_string().contains(needle), "{error}: lacks {needle:?}");
    }
    assert_eq!(error.exit_code(), 2, "{error}");
    error
}

#[test]
fn an_intact_bundle_opens_wherever_it_lies() {
    let (folder, _) = bundle();
    Bundle::open(folder.path()).expect("opens");
}

#[test]
fn places_that_are_no_bundles_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = refused(folder.path(), &["not a bundle", "no manifest.json"]);
    assert!(error.hint().is_some_and(|h| h.contains("forkcast export")));
    refused(&folder.path().join("nothing"), &["does not exist"]);
    fs::write(
        folder.path().join("config.json"),
        r#"{"architectures":["DFlashDraftModel"]}"#,
    )
    .expect("written");
    refused(folder.path(), &["drafter"]);
}

#[test]
fn missing_truncated_and_changed_files_are_named() {
    for name in [
        "target.onnx",
        "tokenizer.json",
        "target.weights",
        "elsewhere.safetensors",
    ] {
        let (folder, _) = bundle();
        let path = folder.path().join(name);
        let content = fs::read(&path).expect("read");

        fs::write(&path, &content[..content.len() - 1]).expect("written");
        let error = refused(folder.path(), &[name, "size changed since the export"]);
        assert!(error.hint().is_some_and(|h| h.contains("export")), "{error}");

        let mut other = content.clone();
        other[content.len().min(20) - 1] ^= 1;
        fs::write(&path, &other).expect("written");
        refused(folder.path(), &[name, "changed since the export"]);

        fs::remove_file(&path).expect("removed");
        assert!(refused(folder.path(), &[name]).hint().is_some());
    }
}

#[test]
fn a_header_length_beyond_the_file_is_refused() {
    let (folder, _) = bundle();
    let path = folder.path().join("elsewhere.safetensors");
    let mut content = fs::read(&path).expect("read");
    content[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs::write(&path, &content).expect("written");
    refused(folder.path(), &["elsewhere.safetensors", "header changed"]);
}

#[test]
fn contradictions_are_named_by_field() {
    type Edit = fn(&mut Manifest);
    let cases: [(&str, Edit); 17] = [
        ("files: \"../x\"", |m| m.files[0].name = "../x".to_owned()),
        ("files: \"target.onnx\" is listed twice", |m| {
            m.files[1].name = "target.onnx".to_owned()
        }),
        ("weight_files: \"target.weights\" is listed twice", |m| {
            m.weight_files[0].name = "target.weights".to_owned()
        }),
        ("weight_files: \"/x\"", |m| {
            m.weight_files[0].name = "/x".to_owned()
        }),
        ("graphs.head: file \"other.onnx\"", |m| {
            m.graphs.get_mut("head").expect("head").file = "other.onnx".to_owned()
        }),
        ("text: \"../t\"", |m| m.text.tokenizer = Some("../t".to_owned())),
        ("text: file \"t.json\" is not listed", |m| {
            m.text.chat_template = Some("t.json".to_owned())
        }),
        ("embedding: shape", |m| m.embedding.shape = vec![4, 8]),
        ("embedding: 128 bytes do not hold", |m| {
            m.embedding.shape = vec![usize::MAX, 4]
        }),
        ("embedding: bytes", |m| m.embedding.offset = u64::MAX),
        ("embedding: file \"none\"", |m| {
            m.embedding.file = "none".to_owned()
        }),
        ("target.hidden", |m| m.target.hidden = 0),
        ("target.vocab", |m| m.target.vocab = usize::MAX),
        ("target.layers[0].kv_heads", |m| {
            m.target.layers[0] = attention(2, 0, 2)
        }),
        ("heads 3 is not a multiple", |m| {
            m.target.layers[0] = attention(3, 2, 2)
        }),
        ("target.layers[0].heads", |m| {
            m.target.layers[0] = attention(usize::MAX, 1, 2)
        }),
        ("taps: layer 1 of 1", |m| m.taps = vec![1]),
    ];
    for (needle, edit) in cases {
        let (folder, mut manifest) = bundle();
        edit(&mut manifest);
        write(folder.path(), &manifest).expect("written");
        refused(folder.path(), &[FILE_NAME, needle]);
    }
}

fn attention(heads: usize, kv_heads: usize, head_dim: usize) -> Layer {
    Layer::Attention(Attention {
        heads,
        kv_heads,
        head_dim,
    })
}

#[test]
fn damaged_manifests_never_panic() {
    let (folder, _) = bundle();
    let path = folder.path().join(FILE_NAME);
    let text = fs::read(&path).expect("read");
    let mut state = 7u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % n
    };
    let pieces: [&[u8]; 8] = [
        b"18446744073709551615",
        b"-1",
        b"null",
        b"[]",
        b"{}",
        b"\"\"",
        b"1e999",
        b"\0",
    ];
    for _ in 0..3000 {
        let mut damaged = text.clone();
        for _ in 0..=random(3) {
            let at = random(damaged.len());
            let end = at + random((damaged.len() - at).min(8) + 1);
            damaged.splice(at..end, pieces[random(pieces.len())].iter().copied());
        }
        fs::write(&path, &damaged).expect("written");
        if let Err(error) = Bundle::open(folder.path()) {
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
}

#[test]
fn another_schema_says_what_to_do() {
    let (folder, mut manifest) = bundle();
    manifest.schema = 99;
    write(folder.path(), &manifest).expect("written");
    refused(folder.path(), &["schema 99", "hint: export"]);
}
