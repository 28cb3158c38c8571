//! `forkcast completions`.

use super::{Outcome, output};
use crate::exit::Exit;

/// Flags of `forkcast completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  forkcast completions bash > /etc/bash_completion.d/forkcast")]
pub(super) struct Args {
    /// Shell to write for.
    shell: clap_complete::Shell,
}

pub(super) fn run(args: &Args, command: &mut clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "forkcast", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
