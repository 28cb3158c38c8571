//! `forkcast plan`: what a round would cost on a GPU, from counted bytes and operations.

use super::{Outcome, output};
use crate::exit::{Exit, Failure};
use comfy_table::{CellAlignment, Table, presets};
use forkcast_engines::manifest;
use forkcast_engines::recipe::{ModelSize, Precision, Recipe, plan_round};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Floors, not promises: every pass takes the longer of reading its bytes at the recipe's bandwidth and computing its
operations at the recipe's matrix rate. Nothing is run.

Examples:
  forkcast plan rtx-pro-6000-blackwell --bundle bundle --tau 10.7
  forkcast plan my-gpu.toml --bundle bundle --context 32768";

/// Budgets that the table lists.
const BUDGETS: [usize; 6] = [0, 15, 63, 127, 255, 256];
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// Flags of `forkcast plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Name of a recipe, or a .toml file.
    recipe: String,
    /// Bundle whose shapes are planned.
    #[arg(long, value_name = "BUNDLE", env = "FORKCAST_BUNDLE")]
    bundle: PathBuf,
    /// Acceptance length to predict tokens per second for.
    #[arg(long, value_name = "TAU", env = "FORKCAST_TAU", default_value_t = 6.0)]
    tau: f64,
    /// Context in tokens; the recipe's buckets without.
    #[arg(long, value_name = "N", env = "FORKCAST_CONTEXT")]
    context: Option<usize>,
}

pub(super) fn run(args: &Args) -> Outcome {
    if !(args.tau.is_finite() && args.tau >= 1.0) {
        return Err(Failure::input(
            format!("--tau {} is below 1", args.tau),
            "tau counts the next token too",
        ));
    }
    let recipe = Recipe::load(&args.recipe)?;
    let manifest = manifest::read(&args.bundle)?;
    let bytes = if recipe.precision == Precision::F32 {
        4.0
    } else {
        2.0
    };
    let size = ModelSize::of(&manifest, bytes);
    if let Some(context) = args.context.filter(|c| *c > manifest.max_context) {
        let reason = format!("--context {context} exceeds the model's {}", manifest.max_context);
        return Err(Failure::input(reason, "name a context that the model can hold"));
    }
    let contexts = args.context.map_or_else(|| recipe.context.clone(), |c| vec![c]);
    output::data(&format!(
        "{}: {} GB/s, {} TFLOP/s ({})\n{}\n",
        recipe.gpu,
        recipe.hardware.bandwidth_gb_s,
        recipe.hardware.tflops_bf16,
        recipe.hardware.source,
        table(&recipe, &size, &contexts, args.tau)
    ))?;
    Ok(Exit::Done)
}

fn table(recipe: &Recipe, size: &ModelSize, contexts: &[usize], tau: f64) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "context",
        "budget",
        "memory GiB",
        "stash MiB",
        "GB read",
        "TFLOP",
        "draft ms",
        "verify ms",
        "commit ms",
        "round ms",
        "plain ms",
        "tokens/s",
    ]);
    for context in contexts {
        for budget in BUDGETS {
            if budget > 0 && size.modes == 0.0 {
                continue;
            }
            let plan = plan_round(size, &recipe.hardware, budget, *context);
            let memory = plan.weight_bytes + plan.cache_bytes + plan.state_bytes + plan.stash_bytes;
            let ms = |seconds: f64| format!("{:.2}", seconds * 1e3);
            let reached = if budget == 0 { 1.0 } else { tau.min(size.block) };
            table.add_row([
                context.to_string(),
                budget.to_string(),
                format!("{:.2}", memory / GIB),
                format!("{:.1}", plan.stash_bytes / MIB),
                format!(
                    "{:.2}",
                    (plan.draft.bytes + plan.verify.bytes + plan.commit.bytes) / 1e9
                ),
                format!("{:.3}", (plan.draft.flops + plan.verify.flops) / 1e12),
                ms(plan.draft.seconds(&recipe.hardware)),
                ms(plan.verify.seconds(&recipe.hardware)),
                ms(plan.commit.seconds(&recipe.hardware)),
                ms(plan.seconds),
                ms(plan.plain_seconds),
                format!("{:.0}", plan.tokens_per_second(reached)),
            ]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
