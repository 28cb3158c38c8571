//! From flags to a running server.

use super::args::{BusyStatus, ServeArgs};
use super::engine::{Loader, WorkerSettings};
use super::http::HttpSettings;
use super::keys::Keys;
use super::model::{Model, read_defaults};
use super::server::{Settings, serve};
use super::{ServeError, log};
use crate::bench::frequent;
use crate::cost::{self, Found, Tune, defaults};
use crate::decode::DEFAULT_BUDGET;
use crate::text::TextModel;
use axum::http::StatusCode;
use forkcast_engines::bundle::OpenError;
use forkcast_engines::gpu::Progress;
use forkcast_engines::manifest;
use forkcast_engines::model::{self, ModelOptions};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time that the head of a request may take, and that an idle connection is kept. Longer than balancers keep theirs.
const HEAD: Duration = Duration::from_secs(75);

/// Serves until a signal comes. Starts logging on stderr, so nothing else in the process should have.
///
/// # Errors
/// The server cannot start or cannot go on; [`ServeError::exit_code`] says what that means for the process.
pub fn run(args: ServeArgs) -> Result<(), ServeError> {
    log::install(args.log_format);
    let model = Arc::new(open_model(&args)?);
    let tune = tuned(&args)?;
    let settings = settings(&args, tune)?;
    let list = draft_vocab(&args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    let result = runtime.block_on(async {
        let stop = Stop::new().map_err(ServeError::Runtime)?;
        let listener = listen(&args.host, args.port).await?;
        let address = listener.local_addr().map_err(ServeError::Runtime)?;
        tracing::info!(target: "forkcast::serve", %address, model = %model.id, "loading");
        serve(settings, model, loader(args, list), listener, stop.first()).await
    });
    // Blocking work and a loading engine are not waited for.
    runtime.shutdown_background();
    result
}

/// A host that is none, or none of this machine, is wrong usage; a port that is taken is not.
async fn listen(host: &str, port: u16) -> Result<TcpListener, ServeError> {
    let wrong = |source: std::io::Error| ServeError::Flag {
        flag: "--host",
        reason: format!("{host}: {source}"),
    };
    let found = tokio::net::lookup_host((host, port)).await.map_err(wrong)?;
    let found: Vec<SocketAddr> = found.collect();
    TcpListener::bind(found.as_slice())
        .await
        .map_err(|source| match source.kind() {
            ErrorKind::AddrNotAvailable => wrong(source),
            _ => ServeError::Bind {
                address: format!("{host}:{port}"),
                source,
            },
        })
}

/// Reads everything about the model but its engine.
fn open_model(args: &ServeArgs) -> Result<Model, ServeError> {
    let place = model::locate(&args.model, args.bundle.as_deref())?;
    let dir = &place.bundle;
    if !dir.join(manifest::FILE_NAME).is_file()
        && let Err(error @ OpenError::NotABundle { .. }) = forkcast_engines::bundle::Bundle::open(dir)
    {
        // Says what the place is instead.
        return Err(error.into());
    }
    let manifest = manifest::read(dir)?;
    let text = TextModel::of_bundle(dir, &manifest)?;
    let config = manifest
        .text
        .generation_config
        .as_ref()
        .map(|name| dir.join(name));
    let defaults = read_defaults(config.as_deref())?;
    let folder = || {
        let whole = std::path::absolute(&args.model).ok();
        let name = whole.as_deref().and_then(|d| d.file_name()?.to_str());
        name.unwrap_or("forkcast").to_owned()
    };
    let id = args.served_model_name.clone().unwrap_or_else(folder);
    Model::new(id, text, manifest.stop_ids, defaults)
}

/// What was tuned for this model on this host.
fn tuned(args: &ServeArgs) -> Result<Option<Tune>, ServeError> {
    let place = model::locate(&args.model, args.bundle.as_deref())?;
    let found = cost::beside(&place, args.drafter.is_some(), args.threads);
    if let Found::Unfit(reason) = &found {
        tracing::warn!(target: "forkcast::serve", "tune.json is not used: it {reason}");
    }
    let Some(tune) = found.tune() else {
        return if args.adaptive {
            Err(ServeError::Flag {
                flag: "--adaptive",
                reason:
                    "there is no tune.json for this model on this host; measure first: forkcast tune MODEL"
                        .to_owned(),
            })
        } else {
            Ok(None)
        };
    };
    Ok(Some(tune.clone()))
}

fn settings(args: &ServeArgs, tune: Option<Tune>) -> Result<Settings, ServeError> {
    let (method, budget) = match &tune {
        None => (args.method, args.budget.unwrap_or(DEFAULT_BUDGET)),
        Some(tune) => {
            let (method, budget) = if args.adaptive {
                tune.adaptive_defaults(args.method, args.budget)
            } else {
                defaults(args.method, args.budget, 0, Some(tune))
            };
            let adaptive = args.adaptive;
            tracing::info!(target: "forkcast::serve", %method, budget, adaptive, "as flags and tune.json say");
            (Some(method), budget)
        }
    };
    let origin = |origin: &String| {
        origin.parse().map_err(|_| ServeError::Flag {
            flag: "--cors-origin",
            reason: format!("{origin:?} is no origin"),
        })
    };
    let cors: Result<Vec<_>, _> = args.cors_origin.iter().map(origin).collect();
    Ok(Settings {
        worker: WorkerSettings {
            method,
            budget,
            adaptive: tune.filter(|_| args.adaptive).map(Arc::new),
            mode: args.mode,
            cache_bytes: args.cache_bytes,
        },
        http: HttpSettings {
            max_body: args.max_body_bytes,
            timeout: Duration::from_secs(args.request_timeout),
            keep_alive: Duration::from_secs(args.keep_alive_seconds),
            max_queue: args.max_queue,
            busy: if args.busy_status == BusyStatus::Unavailable {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::TOO_MANY_REQUESTS
            },
            keys: Keys::collect(&args.api_key, args.api_key_file.as_deref())?,
            cors: cors?,
        },
        head: HEAD,
        drain: Duration::from_secs(args.drain_seconds),
        linger: Duration::from_secs(args.linger_seconds),
    })
}

/// Tokens that drafting is confined to, if it is.
fn draft_vocab(args: &ServeArgs) -> Result<Option<Vec<u32>>, ServeError> {
    let (Some(n), Some(path)) = (args.draft_vocab, &args.draft_vocab_text) else {
        return Ok(None);
    };
    let place = model::locate(&args.model, args.bundle.as_deref())?;
    let manifest = manifest::read(&place.bundle)?;
    let text = TextModel::of_bundle(&place.bundle, &manifest)?;
    let vocab = manifest.target.vocab;
    frequent(&text, std::slice::from_ref(path), n, &manifest.stop_ids, vocab)
        .map(Some)
        .map_err(|e| ServeError::Flag {
            flag: "--draft-vocab-text",
            reason: e.to_string(),
        })
}

fn loader(args: ServeArgs, draft_vocab: Option<Vec<u32>>) -> Loader {
    Box::new(move || {
        let place = model::locate(&args.model, args.bundle.as_deref())?;
        let options = ModelOptions {
            threads: args.threads,
            max_context: args.max_context,
            drafter: args.drafter,
        };
        let mut engine = model::open(&place, &options, &mut |progress| {
            if let Progress::Plan { stage, number, of } = progress {
                tracing::info!(target: "forkcast::serve", stage, number, of, "loading plans");
            }
        })?;
        if let Some(list) = &draft_vocab {
            engine.shorten_draft(list).map_err(|e| ServeError::Flag {
                flag: "--draft-vocab",
                reason: e.to_string(),
            })?;
        }
        Ok(engine)
    })
}

/// SIGTERM and SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first signal. From then on a second one ends the process at once.
    async fn first(mut self) {
        self.next().await;
        tokio::spawn(async move {
            let code = self.next().await;
            tracing::warn!(target: "forkcast::serve", "second signal: ending at once");
            std::process::exit(code);
        });
    }

    /// The next signal, as the exit code that shells give it.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => 128 + SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => 128 + SignalKind::interrupt().as_raw_value(),
        }
    }
}
