//! `forkcast probe`.

mod compare;

use super::engine::{ModelArgs, check_prompt, locate, manifest, open};
use super::parse::{Ids, Parents};
use super::safetensors::{Values, check_place, write};
use super::{Outcome, output};
use crate::exit::{Exit, Failure};
use clap::builder::BoolishValueParser;
use forkcast_engines::backend::{Backend, RowBatch};
use forkcast_engines::manifest::Manifest;
use forkcast_engines::model::Place;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Tensors of the file, all f32: logits [rows, vocab], hidden [rows, H] after the final norm, and taps
[rows, layers, H] where the bundle taps layers. Without --rows the rows are the prompt's positions.

Examples:
  forkcast probe bundle-int4 --ids 1,2,3 --compare bundle-f32
  forkcast probe bundle --ids 1,2,3 --out prompt.safetensors
  forkcast probe bundle --ids 1,2,3 --rows 7,8,9 --parents=-1,0,0 --out tree.safetensors";

/// Flags of `forkcast probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A bundle or an engine directory.
    model: PathBuf,
    /// Prompt.
    #[arg(
        long,
        value_name = "1,2,3",
        env = "FORKCAST_IDS",
        allow_hyphen_values = true,
        help_heading = "Input"
    )]
    ids: Ids,
    /// Rows to verify after the prompt, as a tree.
    #[arg(long, value_name = "7,8,9", env = "FORKCAST_ROWS", allow_hyphen_values = true)]
    #[arg(requires = "parents", help_heading = "Input")]
    rows: Option<Ids>,
    /// Parent of each row, by its place in --rows; the first has -1.
    #[arg(
        long,
        value_name = "-1,0,0",
        env = "FORKCAST_PARENTS",
        allow_hyphen_values = true
    )]
    #[arg(requires = "rows", help_heading = "Input")]
    parents: Option<Parents>,
    /// File to write.
    #[arg(
        long,
        value_name = "FILE.safetensors",
        env = "FORKCAST_OUT",
        required_unless_present = "compare",
        help_heading = "Output"
    )]
    out: Option<PathBuf>,
    /// Another bundle of the same shape: tell how far this one's logits and hidden states are from it.
    #[arg(long, value_name = "MODEL", env = "FORKCAST_COMPARE", help_heading = "Output")]
    compare: Option<PathBuf>,
    /// Print the comparison as JSON.
    #[arg(long, env = "FORKCAST_JSON", requires = "compare", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    json: bool,
}

/// Rows in topological order.
struct Tree {
    tokens: Vec<u32>,
    depths: Vec<usize>,
    ancestors: Vec<bool>,
}

/// What the rows gave.
#[derive(Default)]
struct Found {
    rows: usize,
    logits: Vec<f32>,
    hidden: Vec<f32>,
    taps: Vec<f32>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let flags = ModelArgs::default();
    let place = locate(&args.model, &flags)?;
    let manifest = manifest(&place.bundle)?;
    let tree = match (&args.rows, &args.parents) {
        (Some(rows), Some(parents)) => Some(Tree::new(&rows.0, &parents.0, manifest.target.vocab)?),
        _ => None,
    };
    // A prompt may fill the context: nothing is answered.
    let rows = tree.as_ref().map_or(0, |t| t.tokens.len());
    check_prompt(&args.ids.0, &manifest, manifest.max_context + 1)?;
    if args.ids.0.len() + rows > manifest.max_context {
        let (prompt, context) = (args.ids.0.len(), manifest.max_context);
        return Err(Failure::input(
            format!("{prompt} prompt tokens and {rows} rows do not fit a context of {context}"),
            "give fewer",
        ));
    }
    if let Some(out) = &args.out {
        check_place(out)?;
    }
    let other = match &args.compare {
        Some(path) => Some((path, comparable(path, &manifest, &flags)?)),
        None => None,
    };
    let found = probed(&place, &flags, &args.ids.0, tree.as_ref())?;
    if let Some(out) = &args.out {
        save(out, &manifest, &found)?;
        output::say(&format!("{}: {} rows\n", out.display(), found.rows));
    }
    if let Some((path, other)) = other {
        let reference = probed(&other, &flags, &args.ids.0, tree.as_ref())?;
        let Some(comparison) = compare::compare(found.rows(), reference.rows()) else {
            return Err(Failure::new(
                Exit::Running,
                anyhow::anyhow!("{}: numbers that are not finite", path.display()),
                "write both with --out and look for them",
            ));
        };
        if args.json {
            output::json(&comparison)?;
        } else {
            output::data(&comparison.text())?;
        }
    }
    Ok(Exit::Done)
}

/// Opens a model, runs the rows, and closes it: two are never in memory at once.
fn probed(place: &Place, flags: &ModelArgs, prompt: &[u32], tree: Option<&Tree>) -> Result<Found, Failure> {
    let mut engine = open(place, flags)?;
    probe(engine.as_mut(), prompt, tree)
}

/// The model to compare with: of the same shape, with room for as many rows.
fn comparable(path: &Path, manifest: &Manifest, flags: &ModelArgs) -> Result<Place, Failure> {
    let place = locate(path, flags)?;
    let other = self::manifest(&place.bundle)?;
    if manifest.target != other.target || manifest.max_context > other.max_context {
        return Err(Failure::input(
            format!(
                "--compare {}: its target has another shape, or less context",
                path.display()
            ),
            "name a bundle of the same model",
        ));
    }
    Ok(place)
}

fn save(out: &Path, manifest: &Manifest, found: &Found) -> Result<(), Failure> {
    let (vocab, hidden) = (manifest.target.vocab, manifest.target.hidden);
    let mut tensors = vec![
        Values {
            name: "logits",
            shape: vec![found.rows, vocab],
            data: &found.logits,
        },
        Values {
            name: "hidden",
            shape: vec![found.rows, hidden],
            data: &found.hidden,
        },
    ];
    if !manifest.taps.is_empty() {
        tensors.push(Values {
            name: "taps",
            shape: vec![found.rows, manifest.taps.len(), hidden],
            data: &found.taps,
        });
    }
    write(out, &tensors)
}

/// Runs the prompt in chunks, and the tree after it.
fn probe(engine: &mut dyn Backend, prompt: &[u32], tree: Option<&Tree>) -> Result<Found, Failure> {
    engine.reset()?;
    engine.set_drafting(false);
    engine.reserve(prompt.len() + tree.map_or(0, |t| t.tokens.len()))?;
    let mut found = Found::default();
    for chunk in prompt.chunks(engine.shape().prefill_rows.max(1)) {
        let rows = Tree::chain(chunk);
        verify(engine, &rows)?;
        if tree.is_none() {
            found.take(engine, chunk.len())?;
        }
        let path: Vec<u32> = (0..chunk.len() as u32).collect();
        engine.commit(&path)?;
    }
    if let Some(tree) = tree {
        verify(engine, tree)?;
        found.take(engine, tree.tokens.len())?;
    }
    Ok(found)
}

fn verify(engine: &mut dyn Backend, rows: &Tree) -> Result<(), Failure> {
    let start = engine.committed();
    let positions: Vec<i64> = rows.depths.iter().map(|d| (start + d) as i64).collect();
    engine.verify(&RowBatch {
        tokens: &rows.tokens,
        positions: &positions,
        ancestors: &rows.ancestors,
    })?;
    Ok(())
}

impl Found {
    fn rows(&self) -> compare::Rows<'_> {
        compare::Rows {
            rows: self.rows,
            logits: &self.logits,
            hidden: &self.hidden,
        }
    }

    /// Appends what the last pass over `rows` rows gave.
    fn take(&mut self, engine: &mut dyn Backend, rows: usize) -> Result<(), Failure> {
        let (mut hidden, mut taps) = (Vec::new(), Vec::new());
        engine.features(&mut hidden, &mut taps)?;
        self.hidden.append(&mut hidden);
        self.taps.append(&mut taps);
        let mut logits = Vec::new();
        let all: Vec<u32> = (0..rows as u32).collect();
        engine.logits(&all, &mut logits)?;
        self.logits.append(&mut logits);
        self.rows += rows;
        Ok(())
    }
}

impl Tree {
    fn chain(tokens: &[u32]) -> Self {
        let n = tokens.len();
        Self {
            tokens: tokens.to_vec(),
            depths: (0..n).collect(),
            ancestors: (0..n * n).map(|i| i % n <= i / n).collect(),
        }
    }

    /// Checks rows and parents.
    fn new(tokens: &[u32], parents: &[i64], vocab: usize) -> Result<Self, Failure> {
        let n = tokens.len();
        let wrong = |reason: String| Failure::input(reason, "for example --rows 7,8,9 --parents=-1,0,0");
        if n == 0 {
            return Err(wrong("--rows: there is no row".to_owned()));
        }
        if parents.len() != n {
            return Err(wrong(format!(
                "--parents: {} parents for {n} rows",
                parents.len()
            )));
        }
        if let Some(row) = tokens.iter().position(|t| *t as usize >= vocab) {
            let id = tokens[row];
            return Err(wrong(format!(
                "--rows: token id {id} of row {row} is outside the vocabulary of {vocab}"
            )));
        }
        let mut depths = vec![0; n];
        let mut ancestors = vec![false; n * n];
        for (row, parent) in parents.iter().enumerate() {
            match usize::try_from(*parent) {
                Ok(p) if p < row => {
                    depths[row] = depths[p] + 1;
                    ancestors.copy_within(p * n..(p + 1) * n, row * n);
                }
                Err(_) if *parent == -1 && row == 0 => {}
                _ if row == 0 => {
                    return Err(wrong(format!(
                        "--parents: row 0 has parent {parent}, it must be -1"
                    )));
                }
                _ => {
                    return Err(wrong(format!(
                        "--parents: row {row} has parent {parent}, it must be a row before it"
                    )));
                }
            }
            ancestors[row * n + row] = true;
        }
        Ok(Self {
            tokens: tokens.to_vec(),
            depths,
            ancestors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn rows_see_their_ancestors() {
        let tree = Tree::new(&[7, 8, 9, 10], &[-1, 0, 0, 2], 100).expect("a tree");
        assert_eq!(tree.depths, [0, 1, 1, 2]);
        let seen: Vec<usize> = (0..16).filter(|i| tree.ancestors[*i]).collect();
        assert_eq!(seen, [0, 4, 5, 8, 10, 12, 14, 15]);
    }

    #[test]
    fn refusals() {
        let reason = |rows: &[u32], parents: &[i64]| match Tree::new(rows, parents, 100) {
            Ok(_) => String::new(),
            Err(failure) => failure.error.to_string(),
        };
        assert_eq!(reason(&[1], &[-1]), "");
        assert!(reason(&[], &[]).contains("no row"));
        assert!(reason(&[1, 2], &[-1]).contains("1 parents for 2 rows"));
        assert!(reason(&[1, 100], &[-1, 0]).contains("token id 100 of row 1"));
        assert!(reason(&[1, 2], &[0, 0]).contains("row 0 has parent 0"));
        assert!(reason(&[1, 2], &[-1, -1]).contains("row 1 has parent -1"));
        assert!(reason(&[1, 2], &[-1, 1]).contains("row 1 has parent 1"));
    }
}
