//! `forkcast man`.

use super::{Outcome, output};
use crate::exit::{Exit, Failure};

/// Flags of `forkcast man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  forkcast man > forkcast.1\n  forkcast man serve | man -l -")]
pub(super) struct Args {
    /// Command whose page is printed; the whole program's without.
    command: Option<String>,
}

pub(super) fn run(args: &Args, program: &clap::Command) -> Outcome {
    let mut program = program.clone();
    program.build();
    let page = match &args.command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned();
            // `forkcast-serve` names the page, as git's pages are named.
            let found = found.map(|c| c.display_name(format!("forkcast-{name}")));
            found.ok_or_else(|| {
                Failure::input(
                    format!("there is no command {name:?}"),
                    "`forkcast help` lists the commands",
                )
            })?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    output::data(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use clap::CommandFactory;

    /// The command and all of its flags that have a name.
    fn flags(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
        let own = |a: &&clap::Arg| !matches!(a.get_id().as_str(), "help" | "version");
        command
            .get_arguments()
            .filter(|a| a.get_long().is_some())
            .filter(own)
    }

    #[test]
    fn every_flag_of_every_command_has_its_environment_twin() {
        for command in Cli::command().get_subcommands() {
            for flag in flags(command) {
                let twin = format!("FORKCAST_{}", flag.get_id().as_str().to_uppercase());
                let found = flag.get_env().and_then(std::ffi::OsStr::to_str);
                assert_eq!(
                    found,
                    Some(twin.as_str()),
                    "{} --{}",
                    command.get_name(),
                    flag.get_id()
                );
            }
        }
    }

    #[test]
    fn every_command_has_a_page_with_all_its_flags() {
        for command in Cli::command().get_subcommands() {
            let mut page = Vec::new();
            clap_mangen::Man::new(command.clone())
                .render(&mut page)
                .expect("memory");
            let page = String::from_utf8(page).expect("text").replace('\\', "");
            for flag in flags(command) {
                let long = format!("--{}", flag.get_long().unwrap_or_default());
                assert!(page.contains(&long), "{}: {long}", command.get_name());
            }
        }
    }
}
