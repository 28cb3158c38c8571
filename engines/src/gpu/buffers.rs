//! Inputs, outputs, stashes and states of the plans: one block of device memory a name, large enough for every profile.

use super::device::{ALIGN, Address, Device, DeviceError};
use super::lane::{Lane, Packed};
use super::stage::{element_bytes, largest_bytes};
use crate::engine::{Axis, Engine};
use std::collections::BTreeMap;

/// Where the rows of a run of the head come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The last pass, all rows of its bucket.
    Pass,
    /// The last draft.
    Draft,
    /// Rows of a prefill pass, gathered.
    Gathered,
}

/// Name of the block behind a value of a plan; none for caches, which have memory of their own. States have two
/// sides, of which `side` is the present one.
pub(super) fn block_name(stage: &str, value: &str, side: usize, source: Source) -> Option<String> {
    let two = |name: &str, side: usize| Some(format!("{name}@{side}"));
    match (stage, value) {
        (_, "past_len") if stage != "draft" => Some(value.to_owned()),
        ("draft", "tokens" | "positions" | "past_len" | "hidden") => Some(format!("draft.{value}")),
        ("context", "positions") => Some("context.positions".to_owned()),
        ("head" | "head_greedy" | "head_top", "hidden") => Some(
            match source {
                Source::Pass => "hidden",
                Source::Draft => "draft.hidden",
                Source::Gathered => "gathered",
            }
            .to_owned(),
        ),
        (_, name) if name.starts_with("past_") => None,
        (_, name) if name.starts_with("state.") || name.starts_with("conv.") => two(name, side),
        (_, name) => match name.strip_prefix("new_") {
            Some(name) => two(name, 1 - side),
            None => Some(name.to_owned()),
        },
    }
}

/// The blocks by name, with their sizes in bytes.
#[derive(Debug)]
pub(super) struct Buffers {
    blocks: BTreeMap<String, (Address, usize)>,
    /// `past_len`, `tokens`, `positions`, `ancestors` of a pass.
    pub(super) pass: Packed,
    /// `path`, and the positions of its rows for the drafter.
    pub(super) path: Packed,
    /// `past_len`, `positions`, `tokens` of a draft.
    pub(super) draft: Packed,
}

const PASS: [&str; 4] = ["past_len", "tokens", "positions", "ancestors"];
const PATH: [&str; 2] = ["path", "context.positions"];
const DRAFT: [&str; 3] = ["draft.past_len", "draft.positions", "draft.tokens"];

impl Buffers {
    /// Allocates what the plans of `engine` need, all zero.
    pub(super) fn new<D: Device>(lane: &mut Lane<D>, engine: &Engine) -> Result<Self, DeviceError> {
        let sizes = sizes(engine)?;
        let size = |name: &&str| sizes.get(*name).copied().unwrap_or(8);
        let [pass, path, draft] =
            [&PASS[..], &PATH[..], &DRAFT[..]].map(|names| names.iter().map(size).collect::<Vec<_>>());
        let packed = Self {
            blocks: BTreeMap::new(),
            pass: Packed::new(lane, &pass)?,
            path: Packed::new(lane, &path)?,
            draft: Packed::new(lane, &draft)?,
        };
        let mut blocks = BTreeMap::new();
        for (names, part) in [
            (&PASS[..], &packed.pass),
            (&PATH, &packed.path),
            (&DRAFT, &packed.draft),
        ] {
            for (i, name) in names.iter().enumerate() {
                blocks.insert((*name).to_owned(), (part.part(i), size(name)));
            }
        }
        for (name, bytes) in sizes {
            if let std::collections::btree_map::Entry::Vacant(entry) = blocks.entry(name) {
                entry.insert((lane.zeros(bytes.next_multiple_of(ALIGN))?, bytes));
            }
        }
        Ok(Self { blocks, ..packed })
    }

    /// Address of a block.
    pub(super) fn get(&self, name: &str) -> Option<Address> {
        self.blocks.get(name).map(|(at, _)| *at)
    }

    /// Address of a block that must be there.
    pub(super) fn need(&self, name: &str) -> Result<Address, DeviceError> {
        self.get(name)
            .ok_or_else(|| DeviceError(format!("no memory for {name:?}")))
    }

    /// Address of a value of a plan.
    pub(super) fn value(&self, stage: &str, value: &str, side: usize, source: Source) -> Option<Address> {
        self.get(&block_name(stage, value, side, source)?)
    }

    /// Bytes of a block.
    pub(super) fn bytes(&self, name: &str) -> usize {
        self.blocks.get(name).map_or(0, |(_, bytes)| *bytes)
    }
}

/// Bytes of every block at its largest, over all plans.
fn sizes(engine: &Engine) -> Result<BTreeMap<String, usize>, DeviceError> {
    let mut sizes = BTreeMap::new();
    for (stage, plan) in &engine.plans {
        for port in plan.inputs.iter().chain(&plan.outputs) {
            let bytes = largest_bytes(port, plan)
                .ok_or_else(|| DeviceError(format!("{stage}: {:?} is too large", port.name)))?;
            for (side, source) in [(0, Source::Pass), (1, Source::Draft), (0, Source::Gathered)] {
                if let Some(name) = block_name(stage, &port.name, side, source) {
                    let size = sizes.entry(name).or_insert(0);
                    *size = bytes.max(*size);
                }
            }
        }
    }
    Ok(sizes)
}

/// Bytes of one row of output `name` of plan `stage`; none when there is no such output.
pub(super) fn row_bytes(engine: &Engine, stage: &str, name: &str) -> Option<usize> {
    let port = engine.plans.get(stage)?.outputs.iter().find(|p| p.name == name)?;
    port.shape
        .iter()
        .skip(1)
        .try_fold(element_bytes(&port.dtype)?, |bytes, axis| match axis {
            Axis::Fixed(n) => bytes.checked_mul(*n),
            Axis::Symbol(_) => None,
        })
}
