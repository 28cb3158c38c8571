//! Where the prompt comes from.

use super::super::names::Switch;
use super::super::output;
use super::Args;
use crate::exit::Failure;
use clap::ArgMatches;
use clap::parser::ValueSource;
use forkcast::text::{Conversation, RenderOptions, TextModel};
use std::io::Read;
use std::path::Path;

/// Largest conversation that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The flag that gives the prompt.
pub(super) enum Source<'a> {
    Prompt(&'a str),
    Chat(&'a Path),
    Ids(&'a [u32]),
}

/// Takes the one prompt flag that was given. Flags win over their environment twins.
pub(super) fn choose<'a>(args: &'a Args, matches: &ArgMatches) -> Result<Source<'a>, Failure> {
    let names = ["prompt", "chat", "ids"];
    let from = |source| {
        names
            .into_iter()
            .filter(move |n| matches.value_source(n) == Some(source))
    };
    let mut given: Vec<&str> = from(ValueSource::CommandLine).collect();
    if given.is_empty() {
        given = from(ValueSource::EnvVariable).collect();
    }
    let chosen = match given.as_slice() {
        ["prompt"] => args.prompt.as_deref().map(Source::Prompt),
        ["chat"] => args.chat.as_deref().map(Source::Chat),
        ["ids"] => args.ids.as_ref().map(|ids| Source::Ids(&ids.0)),
        _ => None,
    };
    chosen.ok_or_else(|| {
        let reason = match given.as_slice() {
            [a, b, ..] => format!("--{a} and --{b} are both given"),
            _ => "there is no prompt".to_owned(),
        };
        Failure::input(
            reason,
            "give one of --prompt TEXT, --chat FILE.json and --ids 1,2,3",
        )
    })
}

/// Tokens of the prompt.
pub(super) fn tokens(args: &Args, source: &Source<'_>, text: &TextModel) -> Result<Vec<u32>, Failure> {
    if args.thinking.is_some() && !matches!(source, Source::Chat(_)) {
        output::note("--thinking acts on --chat only");
    }
    match source {
        Source::Ids(ids) => Ok(ids.to_vec()),
        // Refused as empty, whether there is a tokenizer or not.
        Source::Prompt("") => Ok(Vec::new()),
        Source::Prompt(prompt) => Ok(text.encode(prompt)?),
        Source::Chat(path) => {
            let conversation = read(path)?;
            let template = text.template.as_ref();
            if args.thinking.is_some() && template.is_some_and(|t| !t.knows_thinking()) {
                output::note("this model's chat template knows no thinking switch: --thinking does not act");
            }
            let options = RenderOptions {
                generation_prompt: true,
                thinking: Some(args.thinking.unwrap_or(Switch::On) == Switch::On),
            };
            Ok(text.encode_chat(&conversation, options)?)
        }
    }
}

fn read(path: &Path) -> Result<Conversation, Failure> {
    let unreadable = |reason: String| {
        Failure::input(
            format!("--chat {}: {reason}", path.display()),
            "name a JSON file with an array of messages, or - for stdin",
        )
    };
    let mut json = Vec::new();
    let taken = if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut json)
    } else {
        std::fs::File::open(path).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut json))
    };
    taken.map_err(|e| unreadable(e.to_string()))?;
    if json.len() as u64 > MAX_BYTES {
        return Err(unreadable(format!(
            "more than the {MAX_BYTES} bytes that are read"
        )));
    }
    Conversation::parse(&json).map_err(|e| {
        let hint = e.hint().unwrap_or_default();
        Failure::input(format!("--chat {}: {e}", path.display()), hint)
    })
}
