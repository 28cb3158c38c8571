//! Flags of `forkcast serve`.

use super::log::LogFormat;
use crate::decode::{MAX_BUDGET, Method};
use clap::builder::BoolishValueParser;
use std::net::IpAddr;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Requests are answered one at a time; others wait in a queue, and 429 with Retry-After comes beyond it.
The first SIGTERM or SIGINT finishes what was accepted, the second ends the process at once.

Examples:
  forkcast serve bundle
  forkcast serve bundle --host 0.0.0.0 --port 8080 --api-key-file keys --log-format json
  forkcast serve bundle --method mfd --budget 60 --max-queue 4 --drain-seconds 60";

/// Flags of `forkcast serve`. Every one has an environment twin; the flag wins.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ServeArgs {
    /// The bundle or engine directory to serve.
    #[arg(value_name = "MODEL", env = "FORKCAST_MODEL")]
    pub model: PathBuf,

    /// Address to listen on.
    #[arg(long, value_name = "HOST", env = "FORKCAST_HOST", default_value = "127.0.0.1")]
    #[arg(value_parser = host, help_heading = "Network")]
    pub host: String,
    /// Port to listen on; 0 takes any free one.
    #[arg(long, value_name = "PORT", env = "FORKCAST_PORT", default_value_t = 8000)]
    #[arg(help_heading = "Network")]
    pub port: u16,
    /// Name that clients ask for; the bundle's folder without.
    #[arg(
        long,
        value_name = "NAME",
        env = "FORKCAST_SERVED_MODEL_NAME",
        help_heading = "Network"
    )]
    pub served_model_name: Option<String>,
    /// Key that clients must send; may be given several times, commas in the environment.
    #[arg(long, value_name = "KEY", env = "FORKCAST_API_KEY", hide_env_values = true)]
    #[arg(value_delimiter = ',', help_heading = "Network")]
    pub api_key: Vec<String>,
    /// File with one key a line.
    #[arg(
        long,
        value_name = "FILE",
        env = "FORKCAST_API_KEY_FILE",
        help_heading = "Network"
    )]
    pub api_key_file: Option<PathBuf>,
    /// Origin that browsers may call from; may be given several times. None without.
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "FORKCAST_CORS_ORIGIN",
        value_delimiter = ','
    )]
    #[arg(help_heading = "Network")]
    pub cors_origin: Vec<String>,
    /// Largest request body.
    #[arg(long, value_name = "BYTES", env = "FORKCAST_MAX_BODY_BYTES", default_value_t = 4 << 20)]
    #[arg(help_heading = "Network")]
    pub max_body_bytes: usize,
    /// Time between comments that keep an idle stream open.
    #[arg(
        long,
        value_name = "S",
        env = "FORKCAST_KEEP_ALIVE_SECONDS",
        default_value_t = 15
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600), help_heading = "Network")]
    pub keep_alive_seconds: u64,

    /// Requests that may wait while one is answered.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_QUEUE", default_value_t = 16)]
    #[arg(help_heading = "Admission")]
    pub max_queue: usize,
    /// Status beyond that. 503 is for balancers that send only such requests to another replica.
    #[arg(
        long,
        value_enum,
        value_name = "STATUS",
        env = "FORKCAST_BUSY_STATUS",
        default_value = "429"
    )]
    #[arg(help_heading = "Admission")]
    pub busy_status: BusyStatus,
    /// Time that a request may take, waiting included.
    #[arg(
        long,
        value_name = "S",
        env = "FORKCAST_REQUEST_TIMEOUT",
        default_value_t = 600
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Admission")]
    pub request_timeout: u64,
    /// Time to finish accepted requests at shutdown; what is left then is cut.
    #[arg(long, value_name = "S", env = "FORKCAST_DRAIN_SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=86_400), help_heading = "Admission")]
    pub drain_seconds: u64,
    /// Part of it that passes even when nothing is left to finish, so that balancers see the 503 of /health first.
    #[arg(long, value_name = "S", env = "FORKCAST_LINGER_SECONDS", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600), help_heading = "Admission")]
    pub linger_seconds: u64,

    /// How the tree of a round is made: plain, chain, ddtree or mfd; as tuned without, else the best that the drafter allows.
    #[arg(
        long,
        value_name = "METHOD",
        env = "FORKCAST_METHOD",
        help_heading = "Decoding"
    )]
    pub method: Option<Method>,
    /// Most nodes of a tree, 0 to 1024; as tuned without (forkcast tune), else 12. Plain uses 0, chain at most the block.
    #[arg(long, value_name = "N", env = "FORKCAST_BUDGET", value_parser = budget, help_heading = "Decoding")]
    pub budget: Option<usize>,
    /// Decide round by round whether to draft and how much, by the costs of tune.json; --budget is the most then.
    #[arg(long, env = "FORKCAST_ADAPTIVE", value_parser = BoolishValueParser::new(), help_heading = "Decoding")]
    pub adaptive: bool,
    /// Mode of the drafter that chain and ddtree use.
    #[arg(
        long,
        value_name = "M",
        env = "FORKCAST_MODE",
        default_value_t = 0,
        help_heading = "Decoding"
    )]
    pub mode: usize,

    /// Upper bound of prompt plus answer in tokens; the model's own without.
    #[arg(long, value_name = "N", env = "FORKCAST_MAX_CONTEXT", value_parser = positive)]
    #[arg(help_heading = "Engine")]
    pub max_context: Option<usize>,
    /// Threads; all cores without.
    #[arg(long, value_name = "N", env = "FORKCAST_THREADS", value_parser = positive, help_heading = "Engine")]
    pub threads: Option<usize>,
    /// Bundle with the weights for an engine directory; the one that it names without.
    #[arg(long, value_name = "DIR", env = "FORKCAST_BUNDLE", help_heading = "Engine")]
    pub bundle: Option<PathBuf>,
    /// Bundle whose drafter is used instead, of the same shape.
    #[arg(long, value_name = "DIR", env = "FORKCAST_DRAFTER", help_heading = "Engine")]
    pub drafter: Option<PathBuf>,
    /// Tokens that drafting chooses among: the N most frequent ones of --draft-vocab-text. The text stays the same.
    #[arg(long, value_name = "N", env = "FORKCAST_DRAFT_VOCAB", value_parser = positive, help_heading = "Engine")]
    #[arg(requires = "draft_vocab_text")]
    pub draft_vocab: Option<usize>,
    /// Text, or a suite of prompts, whose tokens are counted for --draft-vocab.
    #[arg(
        long,
        value_name = "FILE",
        env = "FORKCAST_DRAFT_VOCAB_TEXT",
        help_heading = "Engine"
    )]
    #[arg(requires = "draft_vocab")]
    pub draft_vocab_text: Option<PathBuf>,
    /// Most bytes of states kept at turn boundaries; 0 starts every request from nothing.
    #[arg(long, value_name = "BYTES", env = "FORKCAST_CACHE_BYTES", default_value_t = 1 << 30)]
    #[arg(help_heading = "Engine")]
    pub cache_bytes: usize,

    /// How log lines are written.
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        env = "FORKCAST_LOG_FORMAT",
        default_value = "text"
    )]
    #[arg(help_heading = "Logging")]
    pub log_format: LogFormat,
}

/// Status of refusals for want of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BusyStatus {
    /// 429 Too Many Requests.
    #[value(name = "429")]
    TooManyRequests,
    /// 503 Service Unavailable.
    #[value(name = "503")]
    Unavailable,
}

/// An address, or what can be the name of a host. What ends in a number is meant as an address and must be one.
fn host(text: &str) -> Result<String, String> {
    let wrong = "an IP address or the name of a host is needed, without port and brackets";
    let label = |l: &str| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let number = |l: &str| l.bytes().all(|b| b.is_ascii_digit());
    let name = text.split('.').all(label) && !text.split('.').next_back().is_some_and(number);
    if name || text.parse::<IpAddr>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err(wrong.to_owned())
    }
}

fn budget(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n <= MAX_BUDGET => Ok(n),
        _ => Err(format!("a budget is a number in 0..={MAX_BUDGET}")),
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a number of at least 1 is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        serve: ServeArgs,
    }

    #[test]
    fn every_flag_has_its_environment_twin() {
        let command = Cli::command();
        command.clone().debug_assert();
        for argument in command.get_arguments().filter(|a| a.get_id() != "help") {
            let id = argument.get_id().as_str().to_uppercase();
            let twin = argument.get_env().and_then(std::ffi::OsStr::to_str);
            assert_eq!(twin, Some(format!("FORKCAST_{id}").as_str()));
        }
    }

    #[test]
    fn values_are_bounded() {
        for flags in [
            ["--budget", "1025"],
            ["--budget", "-1"],
            ["--method", "magic"],
            ["--max-context", "0"],
            ["--keep-alive-seconds", "0"],
            ["--request-timeout", "0"],
            ["--port", "65536"],
            ["--log-format", "xml"],
            ["--host", "127.0.0.1:8000"],
            ["--host", "127.0.0.256"],
            ["--host", "127.0.0"],
            ["--host", "[::1]"],
            ["--host", "local host"],
            ["--host", ""],
        ] {
            assert!(
                Cli::try_parse_from(["x", "bundle", flags[0], flags[1]]).is_err(),
                "{flags:?}"
            );
        }
        let cli = Cli::try_parse_from(["x", "bundle", "--method", "mfd"]).unwrap();
        assert_eq!(cli.serve.method, Some(Method::Mfd));
        assert_eq!(cli.serve.host, "127.0.0.1");
        assert_eq!((cli.serve.budget, cli.serve.adaptive), (None, false));
        for name in ["::1", "0.0.0.0", "localhost", "gpu-1.example.org"] {
            assert!(
                Cli::try_parse_from(["x", "bundle", "--host", name]).is_ok(),
                "{name}"
            );
        }
    }
}
