//! The command line: one file per command. Data goes to stdout, everything for people to stderr.

mod bench;
mod build;
mod completions;
mod demo;
mod doctor;
mod engine;
mod export;
mod generate;
mod inspect;
mod interrupt;
mod man;
mod names;
mod output;
mod parse;
mod plan;
mod probe;
mod safetensors;
mod samples;
mod serve;
mod tune;
mod verify;

use crate::exit::{Exit, Failure};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// What a command hands back.
type Outcome = Result<Exit, Failure>;

/// Text at the end of `forkcast --help`.
const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  a check said no
  2  wrong usage or unusable input
  3  does not fit this host, or a needed library or GPU is missing
  5  failed while running
  130  interrupted while writing a folder; nothing of it is left

Every flag has an environment twin FORKCAST_<FLAG>; the flag wins.

Examples:
  forkcast export --target Qwen3.5-4B --drafter Qwen3.5-4B-DFlash --out bundle
  forkcast generate bundle --prompt 'The sea is' --max-tokens 64
  forkcast serve bundle --port 8000
  forkcast inspect bundle";

/// Tree-verified speculative decoding: checkpoints in, engines out, the target's own text, fast.
#[derive(Debug, Parser)]
#[command(name = "forkcast", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Turn a checkpoint (and a drafter's) into a bundle of ONNX graphs.
    Export(export::Args),
    /// Compile a bundle into an engine directory for a GPU; needs no GPU.
    Build(build::Args),
    /// Answer a prompt.
    Generate(generate::Args),
    /// Measure every method on suites of prompts against plain, and compare such records.
    Bench(Box<bench::Args>),
    /// Write logits, hidden states and tapped layers of given tokens to a safetensors file.
    Probe(probe::Args),
    /// Say what a bundle, an engine, a checkpoint or a safetensors file holds.
    Inspect(inspect::Args),
    /// Serve a model over HTTP, OpenAI-compatible, one stream at a time.
    Serve(Box<forkcast::serve::ServeArgs>),
    /// Check that an engine directory (or a bundle) is whole and fits this host or a named GPU.
    Verify(verify::Args),
    /// Measure what rounds cost and what pays on this host; generate and serve then use it.
    Tune(tune::Args),
    /// Say what this host has, and which engine directories run on it.
    Doctor(doctor::Args),
    /// Predict what a round costs on a GPU, from a recipe and a bundle.
    Plan(plan::Args),
    /// Export the trained tiny models and compare the methods on one prompt per domain.
    Demo(demo::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Print a manual page.
    Man(man::Args),
}

/// Runs the command that `args` spell.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let matches = match Cli::command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    // The server has its own log, with levels and formats.
    if !matches!(cli.command, Command::Serve(_)) {
        output::start_log();
    }
    let sub = matches.subcommand().map(|(_, sub)| sub);
    match dispatch(&cli.command, sub.unwrap_or(&matches)) {
        Ok(exit) => exit,
        Err(failure) => {
            if !failure.broken_pipe {
                output::say(&failure.describe());
            }
            failure.exit
        }
    }
}

fn dispatch(command: &Command, matches: &ArgMatches) -> Outcome {
    match command {
        Command::Export(args) => export::run(args),
        Command::Build(args) => build::run(args),
        Command::Generate(args) => generate::run(args, matches),
        Command::Bench(args) => bench::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions(args) => completions::run(args, &mut Cli::command()),
        Command::Man(args) => man::run(args, &Cli::command()),
    }
}

/// Prints what clap says: help and version to stdout, errors with a hint to stderr.
fn usage(error: &clap::Error) -> Exit {
    let printed = error.print();
    if error.use_stderr() {
        if !error.render().to_string().contains("tip:") {
            output::say("hint: `forkcast help COMMAND` lists the flags of a command with examples\n");
        } else {
            output::say("hint: see the tip above, or `forkcast help COMMAND`\n");
        }
        return Exit::Input;
    }
    match printed {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Exit::Running,
        _ => Exit::Done,
    }
}
