//! Header of a safetensors file: length prefix (u64), JSON object, then the tensors' bytes.
//!
//! The crate `safetensors` checks the same rules, but over the whole mapped file and without saying
//! which tensor broke them. Here the header alone is read and every refusal names its tensor.

use crate::ExportError;
use safetensors::tensor::{Dtype, TensorInfo};
use serde::de::{Error as _, MapAccess, Visitor};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Largest header that is read; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Name in the file.
    pub(crate) name: String,
    /// Type of the numbers.
    pub(crate) dtype: Dtype,
    /// Dimensions, none of them zero.
    pub(crate) shape: Vec<usize>,
    /// First byte, counted from the start of the file.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: u64,
}

/// What the header of a file says.
#[derive(Debug)]
pub(crate) struct Header {
    /// Tensors in the order of their bytes.
    pub(crate) entries: Vec<Entry>,
    /// Size of the file in bytes.
    pub(crate) bytes: u64,
    /// SHA-256 of length prefix and header.
    pub(crate) sha256: String,
}

/// Reads and checks the header of `file`, which was opened from `path`.
pub(crate) fn read(path: &Path, file: &File) -> Result<Header, ExportError> {
    let bytes = file.metadata().map_err(ExportError::read(path))?.len();
    let mut prefix = [0_u8; 8];
    if bytes < 8 {
        return Err(truncated(path, format!("{bytes} bytes are no safetensors file")));
    }
    file.read_exact_at(&mut prefix, 0)
        .map_err(ExportError::read(path))?;
    let length = u64::from_le_bytes(prefix);
    if length > MAX_HEADER {
        return Err(ExportError::file(
            path,
            format!("header of {length} bytes, more than the {MAX_HEADER} that the format allows"),
        ));
    }
    let data = 8 + length;
    if data > bytes {
        return Err(truncated(
            path,
            format!("header of {length} bytes reaches beyond the file of {bytes} bytes"),
        ));
    }
    let mut text = vec![0_u8; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut text, 8)
        .map_err(ExportError::read(path))?;
    let sha256 = hex(&Sha256::new().chain_update(prefix).chain_update(&text).finalize());
    let Raw(raw) =
        serde_json::from_slice(&text).map_err(|e| ExportError::file(path, format!("header: {e}")))?;
    let mut entries = Vec::with_capacity(raw.len());
    for (name, info) in raw {
        entries.push(entry(path, name, &info, data, bytes)?);
    }
    entries.sort_by(|a, b| (a.offset, &a.name).cmp(&(b.offset, &b.name)));
    contiguous(path, &entries, data, bytes)?;
    Ok(Header {
        entries,
        bytes,
        sha256,
    })
}

fn truncated(path: &Path, reason: String) -> ExportError {
    ExportError::file(path, reason).with_hint("the file is cut short: fetch it again")
}

fn entry(path: &Path, name: String, info: &TensorInfo, data: u64, bytes: u64) -> Result<Entry, ExportError> {
    let refuse = |reason: String| ExportError::tensor(path, &name, reason);
    let (start, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
    if end < start {
        return Err(refuse(format!("data offsets [{start}, {end}] run backwards")));
    }
    if info.shape.contains(&0) {
        return Err(refuse(format!("shape {:?} holds no element", info.shape)));
    }
    let bits = info
        .shape
        .iter()
        .try_fold(info.dtype.bitsize() as u64, |a, d| a.checked_mul(*d as u64))
        .ok_or_else(|| refuse(format!("shape {:?} overflows", info.shape)))?;
    let length = end - start;
    if bits.div_ceil(8) != length {
        return Err(refuse(format!(
            "{length} bytes do not hold {:?} numbers of type {:?}",
            info.shape, info.dtype
        )));
    }
    match end.checked_add(data) {
        Some(last) if last <= bytes => {}
        _ => {
            return Err(refuse(format!(
                "data offsets [{start}, {end}] reach beyond the file of {bytes} bytes"
            ))
            .with_hint("the file is cut short: fetch it again"));
        }
    }
    Ok(Entry {
        dtype: info.dtype,
        shape: info.shape.clone(),
        offset: data + start,
        length,
        name,
    })
}

/// The format allows neither overlaps nor bytes that belong to no tensor.
fn contiguous(path: &Path, entries: &[Entry], data: u64, bytes: u64) -> Result<(), ExportError> {
    let mut end = data;
    let mut before = "the header";
    for e in entries {
        if e.offset < end {
            return Err(ExportError::tensor(
                path,
                &e.name,
                format!("its bytes overlap those of {before}"),
            ));
        }
        if e.offset > end {
            return Err(ExportError::tensor(
                path,
                &e.name,
                format!("{} bytes before it belong to no tensor", e.offset - end),
            ));
        }
        end = e.offset + e.length;
        before = &e.name;
    }
    if end != bytes {
        return Err(ExportError::file(
            path,
            format!("{} bytes after the last tensor belong to no tensor", bytes - end),
        ));
    }
    Ok(())
}

/// The header's object, in file order; a name that occurs twice is an error.
struct Raw(Vec<(String, TensorInfo)>);

impl<'de> serde::Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Raw;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut seen = std::collections::HashSet::new();
                let mut list = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("tensor {name} is listed twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<serde::de::IgnoredAny>()?;
                        continue;
                    }
                    let info = map
                        .next_value::<TensorInfo>()
                        .map_err(|e| A::Error::custom(format!("tensor {name}: {e}")))?;
                    list.push((name, info));
                }
                Ok(Raw(list))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut s, b| {
        // Writing to a String cannot fail.
        let _ = write!(s, "{b:02x}");
        s
    })
}
