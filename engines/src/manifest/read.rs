//! Reading and writing `manifest.json`. Reading validates what later code relies on.

use super::{Dtype, FILE_NAME, Layer, Manifest, QUANT_BLOCK, SCHEMA, TensorData};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

/// Largest manifest that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The manifest.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what its schema says.
    #[error("{path}: {reason}")]
    Invalid {
        /// The manifest.
        path: PathBuf,
        /// The field and what is wrong with it.
        reason: String,
    },
    /// The file was written for another schema.
    #[error(
        "{path}: schema {found}, this build reads schema {SCHEMA}\nhint: export the bundle again with this version of forkcast"
    )]
    Schema {
        /// The manifest.
        path: PathBuf,
        /// Schema of the file.
        found: u64,
    },
}

/// What is read first: a file of another schema is named as such, whatever else it holds.
#[derive(serde::Deserialize)]
struct Version {
    #[serde(default)]
    schema: u64,
}

/// Reads and validates the manifest of the bundle in `dir`.
///
/// # Errors
/// The file is missing, too large, not JSON, of another schema, has unknown fields, or contradicts itself.
pub fn read(dir: &Path) -> Result<Manifest, ManifestError> {
    let path = dir.join(FILE_NAME);
    let io = |source| ManifestError::Io {
        path: path.clone(),
        source,
    };
    let invalid = |reason: String| ManifestError::Invalid {
        path: path.clone(),
        reason,
    };
    let mut text = Vec::new();
    // Not by the size that the system states: a device or a pipe has none.
    let file = std::fs::File::open(&path).map_err(io)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(invalid(format!("more than the {MAX_BYTES} bytes that are read")));
    }
    // Typed, not as a value: a hostile file of many small values would take fifty times its size.
    let Version { schema: found } = serde_json::from_slice(&text).map_err(|e| invalid(e.to_string()))?;
    if found != u64::from(SCHEMA) {
        return Err(ManifestError::Schema { path, found });
    }
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| invalid(e.to_string()))?;
    validate(&manifest).map_err(invalid)?;
    Ok(manifest)
}

/// Writes the manifest into `dir` under a temporary name, syncs it and renames it.
///
/// # Errors
/// The file cannot be written.
pub fn write(dir: &Path, manifest: &Manifest) -> Result<(), ManifestError> {
    let path = dir.join(FILE_NAME);
    let io = |source| ManifestError::Io {
        path: path.clone(),
        source,
    };
    let mut text = serde_json::to_vec_pretty(manifest).map_err(|e| io(e.into()))?;
    text.push(b'\n');
    let temporary = dir.join(".manifest.json.part");
    let mut file = std::fs::File::create(&temporary).map_err(io)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
    std::fs::rename(&temporary, &path).map_err(io)
}

fn validate(m: &Manifest) -> Result<(), String> {
    let t = &m.target;
    positive("target.hidden", t.hidden)?;
    positive("target.vocab", t.vocab)?;
    within("target.layers", t.layers.len(), 1, MAX_LAYERS)?;
    positive("max_context", m.max_context)?;
    for (i, layer) in t.layers.iter().enumerate() {
        validate_layer(&format!("target.layers[{i}]"), layer)?;
    }
    for tap in &m.taps {
        if *tap >= t.layers.len() {
            return Err(format!("taps: layer {tap} of {}", t.layers.len()));
        }
    }
    if let Some(d) = &m.drafter {
        validate_layer("drafter.attention", &Layer::Attention(d.attention))?;
        within("drafter.layers", d.layers, 1, MAX_LAYERS)?;
        within("drafter.block", d.block, 2, MAX_BLOCK)?;
        within("drafter.modes", d.modes, 1, MAX_BLOCK)?;
        if m.taps.is_empty() {
            return Err("taps: empty, but there is a drafter, which needs them".to_owned());
        }
        if d.mask_id as usize >= t.vocab {
            return Err(format!(
                "drafter.mask_id: {} is outside the vocabulary of {}",
                d.mask_id, t.vocab
            ));
        }
    }
    let sizes = validate_names(m)?;
    validate_tensor("embedding", &m.embedding, &sizes)?;
    validate_embedding(m, &sizes)?;
    for (stage, graph) in &m.graphs {
        plain_name(&format!("graphs.{stage}"), &graph.file)?;
        for i in &graph.initializers {
            validate_tensor(&format!("graphs.{stage}: {}", i.name), &i.data, &sizes)?;
        }
    }
    Ok(())
}

fn validate_embedding(m: &Manifest, sizes: &FileSizes<'_>) -> Result<(), String> {
    let (table, t) = (&m.embedding, &m.target);
    let blocks = t.hidden / QUANT_BLOCK;
    let expected = match table.dtype.block_bytes() {
        Some(bytes) => vec![t.vocab, blocks, bytes],
        None => vec![t.vocab, t.hidden],
    };
    if table.shape != expected {
        return Err(format!(
            "embedding: shape {:?}, expected {expected:?}",
            table.shape
        ));
    }
    if table.dtype.block_bytes().is_some() && table.dtype != m.dtype {
        let (table, bundle) = (table.dtype.name(), m.dtype.name());
        return Err(format!("embedding: {table} in a bundle of {bundle}"));
    }
    match (&m.embedding_scales, table.dtype.block_bytes()) {
        (None, None) => Ok(()),
        (Some(_), None) => Err("embedding_scales: the embedding is not quantised".to_owned()),
        (None, Some(_)) => Err("embedding_scales: missing for a quantised embedding".to_owned()),
        (Some(scales), Some(_)) => {
            validate_tensor("embedding_scales", scales, sizes)?;
            if scales.shape != [t.vocab, blocks] || scales.dtype != Dtype::F32 {
                return Err(format!(
                    "embedding_scales: {} {:?}, expected f32 [{}, {blocks}]",
                    scales.dtype.name(),
                    scales.shape,
                    t.vocab
                ));
            }
            Ok(())
        }
    }
}

/// Sizes of the listed files by name.
type FileSizes<'a> = HashMap<&'a str, u64>;

/// Names are plain, unique, and listed where they are used. Returns the size of every file.
fn validate_names(m: &Manifest) -> Result<FileSizes<'_>, String> {
    let mut sizes = HashMap::from([(FILE_NAME, 0)]);
    let owned = m.files.iter().map(|f| ("files", &f.name, f.bytes));
    let referenced = m.weight_files.iter().map(|f| ("weight_files", &f.name, f.bytes));
    for (field, name, bytes) in owned.chain(referenced) {
        plain_name(field, name)?;
        if sizes.insert(name, bytes).is_some() {
            return Err(format!("{field}: {name:?} is listed twice"));
        }
    }
    let owned: HashSet<&str> = m.files.iter().map(|f| f.name.as_str()).collect();
    let text = &m.text;
    let text = [
        &text.tokenizer,
        &text.tokenizer_config,
        &text.chat_template,
        &text.generation_config,
    ];
    let text = text.into_iter().flatten().map(|name| ("text".to_owned(), name));
    let graphs = m
        .graphs
        .iter()
        .map(|(stage, g)| (format!("graphs.{stage}"), &g.file));
    for (field, name) in text.chain(graphs) {
        plain_name(&field, name)?;
        if !owned.contains(name.as_str()) {
            return Err(format!("{field}: file {name:?} is not listed"));
        }
    }
    sizes.remove(FILE_NAME);
    Ok(sizes)
}

fn validate_layer(field: &str, layer: &Layer) -> Result<(), String> {
    match layer {
        Layer::Attention(a) => {
            positive(&format!("{field}.head_dim"), a.head_dim)?;
            divides(field, "heads", a.heads, "kv_heads", a.kv_heads)
        }
        Layer::DeltaNet(d) => {
            positive(&format!("{field}.key_dim"), d.key_dim)?;
            positive(&format!("{field}.value_dim"), d.value_dim)?;
            within(&format!("{field}.kernel"), d.kernel, 2, MAX_BLOCK)?;
            divides(field, "value_heads", d.value_heads, "key_heads", d.key_heads)
        }
    }
}

fn divides(field: &str, many: &str, a: usize, few: &str, b: usize) -> Result<(), String> {
    positive(&format!("{field}.{many}"), a)?;
    positive(&format!("{field}.{few}"), b)?;
    if !a.is_multiple_of(b) {
        return Err(format!("{field}: {many} {a} is not a multiple of {few} {b}"));
    }
    Ok(())
}

/// Largest dimension that any field may have; keeps products far from overflow.
const MAX_DIM: usize = 1 << 28;

/// Most layers of a model, as in the exporter.
const MAX_LAYERS: usize = 1024;

/// Largest block, number of modes or kernel.
const MAX_BLOCK: usize = 4096;

fn within(field: &str, value: usize, min: usize, max: usize) -> Result<(), String> {
    if value < min || value > max {
        return Err(format!("{field}: {value} is outside {min}..={max}"));
    }
    Ok(())
}

fn positive(field: &str, value: usize) -> Result<(), String> {
    if value == 0 || value > MAX_DIM {
        return Err(format!("{field}: {value} is outside 1..={MAX_DIM}"));
    }
    Ok(())
}

/// Names in a manifest stay inside the bundle.
fn plain_name(field: &str, name: &str) -> Result<(), String> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(()),
        _ => Err(format!("{field}: {name:?} is not a plain file name")),
    }
}

fn validate_tensor(field: &str, tensor: &TensorData, sizes: &FileSizes<'_>) -> Result<(), String> {
    let size = *sizes
        .get(tensor.file.as_str())
        .ok_or_else(|| format!("{field}: file {:?} is not listed", tensor.file))?;
    let count = tensor
        .shape
        .iter()
        .try_fold(tensor.dtype.size() as u64, |a, d| a.checked_mul(*d as u64));
    if count != Some(tensor.length) {
        return Err(format!(
            "{field}: {} bytes do not hold shape {:?}",
            tensor.length, tensor.shape
        ));
    }
    match tensor.offset.checked_add(tensor.length) {
        Some(end) if end <= size => Ok(()),
        _ => Err(format!(
            "{field}: bytes {}+{} lie outside {:?} of {size} bytes",
            tensor.offset, tensor.length, tensor.file
        )),
    }
}
