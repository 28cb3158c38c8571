//! Headers of safetensors files, and writing a file in one go.

use crate::exit::{Exit, Failure};
use ::safetensors::tensor::{Metadata, TensorView};
use forkcast_engines::manifest::FILE_NAME;
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest header that is read, in bytes; the format's own bound.
const MAX_HEADER: u64 = 100_000_000;

/// One tensor of a file.
#[derive(Debug, Serialize)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
}

/// Tensors of a safetensors file, by offset; only the header is read.
pub(super) fn header(path: &Path) -> Result<Vec<Tensor>, Failure> {
    let broken = |reason: String| {
        Failure::input(
            format!("{}: {reason}", path.display()),
            "the file is not a complete safetensors file: copy or download it again",
        )
    };
    let mut file = std::fs::File::open(path).map_err(|e| broken(e.to_string()))?;
    let size = file.metadata().map_err(|e| broken(e.to_string()))?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| broken(format!("{size} bytes, too short for a header")))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length + 8 > size {
        return Err(broken(format!(
            "a header of {length} bytes does not fit a file of {size}"
        )));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(|e| broken(e.to_string()))?;
    let metadata: Metadata = serde_json::from_slice(&text).map_err(|e| broken(format!("header: {e}")))?;
    let mut tensors: Vec<_> = metadata.tensors().into_iter().collect();
    tensors.sort_by_key(|(name, info)| (info.data_offsets, name.clone()));
    let mut end = 0;
    for (name, info) in &tensors {
        let bits = info
            .shape
            .iter()
            .try_fold(info.dtype.bitsize(), |a, d| a.checked_mul(*d));
        let (start, stop) = info.data_offsets;
        if start != end || bits.map(|b| b.div_ceil(8)) != stop.checked_sub(start) {
            return Err(broken(format!(
                "tensor {name}: bytes {start}..{stop} do not fit shape {:?}",
                info.shape
            )));
        }
        end = stop;
    }
    let data = size - length - 8;
    if end as u64 != data {
        return Err(broken(format!(
            "the header describes {end} bytes of data, the file has {data}"
        )));
    }
    Ok(tensors
        .into_iter()
        .map(|(name, info)| Tensor {
            name,
            dtype: format!("{:?}", info.dtype).to_lowercase(),
            shape: info.shape.clone(),
        })
        .collect())
}

/// A float32 tensor to be written.
pub(super) struct Values<'a> {
    pub(super) name: &'static str,
    pub(super) shape: Vec<usize>,
    pub(super) data: &'a [f32],
}

/// Writes tensors under a temporary name and renames the file when it is complete.
pub(super) fn write(path: &Path, tensors: &[Values<'_>]) -> Result<(), Failure> {
    let fail = |reason: String| {
        Failure::new(
            Exit::Running,
            anyhow::anyhow!("{}: cannot write: {reason}", path.display()),
            "check the disk's free space",
        )
    };
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|t| {
            let bytes: &[u8] = bytemuck::cast_slice(t.data);
            let view = TensorView::new(::safetensors::Dtype::F32, t.shape.clone(), bytes);
            view.map(|v| (t.name, v))
        })
        .collect();
    let views = views.map_err(|e| fail(e.to_string()))?;
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = ::safetensors::serialize_to_file(views, None, &part).map_err(|e| e.to_string());
    let moved = written.and_then(|()| std::fs::rename(&part, path).map_err(|e| e.to_string()));
    moved.map_err(|reason| {
        let _ = std::fs::remove_file(&part);
        fail(reason)
    })
}

/// Refuses a place that no file can be written to, before any work is done.
pub(super) fn check_place(path: &Path) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    if path.is_dir() || path.file_name().is_none() {
        let reason = format!("--out {}: is a folder", path.display());
        return Err(Failure::input(reason, "name a file"));
    }
    if !folder.is_dir() {
        let reason = format!(
            "--out {}: the folder {} does not exist",
            path.display(),
            folder.display()
        );
        return Err(Failure::input(reason, format!("mkdir -p {}", folder.display())));
    }
    if folder.join(FILE_NAME).exists() {
        let reason = format!("--out {}: lies inside a bundle", path.display());
        return Err(Failure::input(reason, "name a file outside the bundle"));
    }
    // The file is renamed into place, which would replace a device, pipe or link by a file.
    let regular = std::fs::symlink_metadata(path).map_or(true, |m| m.is_file());
    if !regular {
        let reason = format!("--out {}: exists and is not a regular file", path.display());
        return Err(Failure::input(reason, "name a new file"));
    }
    Ok(())
}
