//! The export itself: open, plan, write.

use crate::checkpoint::Checkpoint;
use crate::checkpoint::hub::HubCache;
use crate::config::{self, DrafterConfig, TargetConfig, check_pair};
use crate::model::{self, Graphs};
use crate::output::{self, Staging};
use crate::weights::{Matrix, Store, hash_file};
use crate::{ExportError, text};
use forkcast_engines::manifest::{
    self, Drafter, Dtype, Graph, Layer, Manifest, OwnedFile, Target, WeightFile,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to export and how.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Folder or hub id of the target.
    pub target: String,
    /// Folder or hub id of the drafter.
    pub drafter: Option<String>,
    /// The bundle's folder; replaced when it is a bundle already.
    pub out: PathBuf,
    /// Type of linear layers, activations and caches.
    pub dtype: Dtype,
    /// Copy every weight, so that the bundle needs no checkpoint.
    pub copy_weights: bool,
    /// Record SHA-256 of the whole referenced files, not of their headers only.
    pub hash_weights: bool,
    /// Layers whose outputs `target.onnx` returns; with a drafter only its own are possible.
    pub taps: Option<Vec<usize>>,
    /// Keep the first N modes of a drafter with several; all without.
    pub modes: Option<usize>,
    /// Another bundle: owned files that are equal to one of its files become hard links.
    pub weights_from: Option<PathBuf>,
}

/// News of a running export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step began.
    Step(&'static str),
    /// A file is being written.
    Bytes {
        /// Its name.
        file: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in the end.
        total: u64,
    },
    /// Something that the user should know.
    Note(String),
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The bundle.
    pub out: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Bytes of files that the bundle owns.
    pub owned_bytes: u64,
    /// Bytes of checkpoint files that it refers to.
    pub referenced_bytes: u64,
    /// Owned files that are hard links into the other bundle.
    pub linked: Vec<String>,
    /// What was passed to [`Progress::Note`].
    pub notes: Vec<String>,
}

/// A drafter that was read and fits.
struct Draft {
    config: DrafterConfig,
    checkpoint: Checkpoint,
}

/// Exports a target, and a drafter where given, into a bundle.
///
/// # Errors
/// See [`ExportError`]. Nothing is left behind when it fails; an existing bundle then stays as it was.
pub fn export(options: &ExportOptions, progress: &mut dyn FnMut(Progress)) -> Result<Summary, ExportError> {
    let _span =
        tracing::info_span!("export", target = options.target, out = %options.out.display()).entered();
    output::check(&options.out)?;
    let other = options.weights_from.as_deref().map(read_other).transpose()?;
    let cache = HubCache::from_env();
    progress(Progress::Step("read"));
    let dir = cache.resolve(&options.target)?;
    let mut target = TargetConfig::read(&config::read(&dir)?)?;
    let draft_dir = options.drafter.as_deref().map(|d| cache.resolve(d)).transpose()?;
    let draft_config = draft_dir
        .as_deref()
        .map(|d| DrafterConfig::read(&config::read(d)?))
        .transpose()?;
    let taps = taps(options, &target, draft_config.as_ref())?;
    let checkpoint = Checkpoint::open(&dir)?;
    let draft = match (draft_dir, draft_config) {
        (Some(dir), Some(config)) => Some(Draft {
            config,
            checkpoint: Checkpoint::open(&dir)?,
        }),
        _ => None,
    };

    progress(Progress::Step("plan"));
    let mut graphs = Graphs::new();
    let prefix = model::prefix(&checkpoint)?;
    // Quantised are the matrices; what is computed with is float32.
    let dtype = options.dtype.activations();
    let quantised = (dtype != options.dtype).then_some(options.dtype);
    let mut store = Store::new(&checkpoint, "target", prefix, options.copy_weights);
    store.quantise_to(quantised);
    let embedding = model::plan_target(&mut target, &mut store, &checkpoint, dtype, &taps, &mut graphs)?;
    let mut stores = vec![store];
    let mut drafter = None;
    if let Some(draft) = &draft {
        let mut store = Store::new(&draft.checkpoint, "drafter", "", options.copy_weights);
        store.quantise_to(quantised);
        let modes = model::plan_drafter(
            &draft.config,
            &mut store,
            &draft.checkpoint,
            dtype,
            model::Draft {
                taps: taps.len(),
                modes: options.modes,
            },
            &mut graphs,
        )?;
        stores.push(store);
        drafter = Some(describe_drafter(&draft.config, modes));
    }
    let text_files = text::files(&dir);
    let mut notes = Vec::new();
    let stop_ids = text::stop_ids(&dir, &text_files, &target.eos, target.vocab, &mut notes)?;
    notes.iter().for_each(|n| progress(Progress::Note(n.clone())));
    let weight_files = weight_files(options, &stores, progress)?;

    progress(Progress::Step("write"));
    let staging = Staging::create(&options.out)?;
    let mut files = Vec::new();
    for name in text::names(&text_files) {
        files.push(staging.copy(&dir.join(name), name)?);
    }
    let mut listed = BTreeMap::new();
    for (stage, built) in graphs {
        let file = format!("{stage}.onnx");
        files.push(staging.write(&file, &built.model)?);
        let initializers = built.initializers;
        listed.insert(stage, Graph { file, initializers });
    }
    for store in &stores {
        files.extend(store.write(staging.path(), progress)?);
    }
    let linked = link(&staging, &files, other.as_ref())?;
    let (embedding, embedding_scales) = match embedding {
        Matrix::Plain(placed) => (placed.data, None),
        Matrix::Blocks { data, scales, .. } => (data.data, Some(scales.data)),
    };
    let manifest = Manifest {
        schema: manifest::SCHEMA,
        forkcast: env!("CARGO_PKG_VERSION").to_owned(),
        dtype: options.dtype,
        target: describe_target(&target),
        drafter,
        taps,
        max_context: target.max_context,
        stop_ids,
        text: text_files,
        graphs: listed,
        embedding,
        embedding_scales,
        files,
        weight_files,
    };
    staging.finish(&manifest)?;
    Ok(Summary {
        out: options.out.clone(),
        owned_bytes: manifest.files.iter().map(|f| f.bytes).sum(),
        referenced_bytes: manifest.weight_files.iter().map(|f| f.bytes).sum(),
        manifest,
        linked,
        notes,
    })
}

fn read_other(dir: &Path) -> Result<(PathBuf, Manifest), ExportError> {
    let manifest = manifest::read(dir)
        .map_err(|e| ExportError::usage(format!("--weights-from {e}"), "name a forkcast bundle"))?;
    Ok((dir.to_owned(), manifest))
}

fn link(
    staging: &Staging,
    files: &[OwnedFile],
    other: Option<&(PathBuf, Manifest)>,
) -> Result<Vec<String>, ExportError> {
    let mut linked = Vec::new();
    if let Some((dir, listed)) = other {
        for file in files {
            if staging.link(file, dir, listed)? {
                linked.push(file.name.clone());
            }
        }
    }
    Ok(linked)
}

/// Tapped layers: the drafter's, or those that the options name.
fn taps(
    options: &ExportOptions,
    target: &TargetConfig,
    drafter: Option<&DrafterConfig>,
) -> Result<Vec<usize>, ExportError> {
    let asked = options.taps.as_deref();
    if let Some(drafter) = drafter {
        let own = check_pair(target, drafter)?;
        return match asked {
            Some(asked) if asked != own => Err(ExportError::usage(
                format!("--taps {asked:?}: the drafter reads layers {own:?}"),
                "leave --taps out: a drafter names its layers itself",
            )),
            _ => Ok(own),
        };
    }
    let layers = target.layers.len();
    let asked = asked.unwrap_or_default();
    if let Some(id) = asked.iter().find(|id| **id >= layers) {
        return Err(ExportError::usage(
            format!("--taps: layer {id} is outside the target's {layers} layers"),
            format!("layers are 0..={}", layers - 1),
        ));
    }
    Ok(asked.to_vec())
}

fn weight_files(
    options: &ExportOptions,
    stores: &[Store<'_>],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<WeightFile>, ExportError> {
    let mut list = Vec::new();
    for store in stores {
        let dir = output::reference(&options.out, &store.checkpoint().dir)?;
        for (shard, name) in store.referenced() {
            let shard = &store.checkpoint().shards[shard];
            let below = shard
                .path
                .strip_prefix(&store.checkpoint().dir)
                .unwrap_or(&shard.path);
            let sha256 = if options.hash_weights {
                progress(Progress::Step("hash"));
                Some(hash_file(&shard.path)?)
            } else {
                None
            };
            list.push(WeightFile {
                name,
                path: dir.join(below),
                bytes: shard.bytes,
                header_sha256: shard.header_sha256.clone(),
                sha256,
            });
        }
    }
    Ok(list)
}

fn describe_target(config: &TargetConfig) -> Target {
    let layer = |kind: &config::LayerKind| match (kind, config.delta) {
        (config::LayerKind::DeltaNet, Some(delta)) => Layer::DeltaNet(delta),
        _ => Layer::Attention(config.attention),
    };
    Target {
        family: config.family,
        hidden: config.hidden,
        vocab: config.vocab,
        layers: config.layers.iter().map(layer).collect(),
        tied: config.tied == Some(true),
    }
}

fn describe_drafter(config: &DrafterConfig, modes: usize) -> Drafter {
    Drafter {
        layers: config.layers.len(),
        attention: config.attention,
        block: config.block,
        modes,
        // Checked to lie in the target's vocabulary, whose size is far below 2^32.
        mask_id: u32::try_from(config.mask_id).unwrap_or(u32::MAX),
    }
}
