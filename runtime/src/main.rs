//! The `forkcast` command.

#![forbid(unsafe_code)]

mod cli;
mod exit;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os()).into()
}
