//! Exit codes, and failures that carry one.

use forkcast::decode::DecodeError;
use forkcast::serve::ServeError;
use forkcast::text::TextError;
use forkcast_engines::backend::BackendError;
use forkcast_engines::manifest::ManifestError;
use forkcast_engines::recipe::RecipeError;
use forkcast_exporter::ExportError;
use std::fmt::Write as _;
use std::process::ExitCode;

/// How the process ends. Scripts depend on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// A check said no.
    No = 1,
    /// Wrong usage or unusable input.
    Input = 2,
    /// Does not fit this host, or a needed library is missing.
    Host = 3,
    /// Failed while running.
    Running = 5,
    /// A signal ended the work; what shells report for SIGINT.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The exit of a library's code.
    pub(crate) fn of(code: u8) -> Self {
        match code {
            0 => Self::Done,
            1 => Self::No,
            2 => Self::Input,
            3 => Self::Host,
            _ => Self::Running,
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit code.
    pub(crate) exit: Exit,
    /// The reason, with its causes.
    pub(crate) error: anyhow::Error,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// The reader of stdout went away: no failure, and nothing to say.
    pub(crate) broken_pipe: bool,
}

impl Failure {
    /// A failure with a hint.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self {
            exit,
            error: error.into(),
            hint: Some(hint.into()),
            broken_pipe: false,
        }
    }

    /// Unusable input.
    pub(crate) fn input(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::Input, anyhow::Error::msg(reason.into()), hint)
    }

    pub(crate) fn with(exit: Exit, error: impl Into<anyhow::Error>, hint: Option<String>) -> Self {
        Self {
            exit,
            error: error.into(),
            hint,
            broken_pipe: false,
        }
    }

    /// Lines for stderr: `error: ...`, its causes, and a hint. A cause that its error spells out already
    /// is left out.
    pub(crate) fn describe(&self) -> String {
        let whole = self.error.to_string();
        let (first, own_hint) = match whole.split_once("\nhint: ") {
            Some((first, hint)) => (first, Some(hint)),
            None => (whole.as_str(), None),
        };
        let mut out = format!("error: {first}\n");
        let mut said = first.to_owned();
        for cause in self.error.chain().skip(1) {
            let text = cause.to_string();
            if !said.contains(&text) {
                let _ = writeln!(out, "  caused by: {text}");
                said += &text;
            }
        }
        let fallback = (self.exit == Exit::Input).then_some("see `forkcast help`");
        if let Some(hint) = self.hint.as_deref().or(own_hint).or(fallback) {
            let _ = writeln!(out, "hint: {hint}");
        }
        out
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let (exit, hint) = (Exit::of(error.exit_code()), error.hint());
        Self::with(exit, error, hint)
    }
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        let hint = match &error {
            ManifestError::Schema { .. } => None,
            _ => Some("export the bundle again: forkcast export --target DIR --out BUNDLE".to_owned()),
        };
        Self::with(Exit::Input, error, hint)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let (exit, hint) = (Exit::of(error.exit_code()), error.hint());
        Self::with(exit, error, hint)
    }
}

impl From<RecipeError> for Failure {
    fn from(error: RecipeError) -> Self {
        Self::with(Exit::Input, error, None)
    }
}

impl From<TextError> for Failure {
    fn from(error: TextError) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self::with(Exit::Input, error, hint)
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let exit = if error.is_input() {
            Exit::Input
        } else {
            Exit::Running
        };
        let hint = error.hint().map(str::to_owned);
        Self::with(exit, error, hint)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        let exit = match error {
            BackendError::Limit(_) => Exit::Input,
            BackendError::Run { .. } => Exit::Running,
        };
        Self::with(exit, error, None)
    }
}

impl From<std::io::Error> for Failure {
    /// Failure of stdout.
    fn from(error: std::io::Error) -> Self {
        let broken_pipe = error.kind() == std::io::ErrorKind::BrokenPipe;
        let exit = if broken_pipe { Exit::Done } else { Exit::Running };
        let error = anyhow::Error::from(error).context("stdout cannot be written");
        Self {
            broken_pipe,
            ..Self::with(exit, error, None)
        }
    }
}
