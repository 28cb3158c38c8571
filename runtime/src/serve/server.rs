//! The life of a server: loading, ready, draining, gone.

use super::ServeError;
use super::accept::accept;
use super::engine::{Loader, Queue, WorkerSettings, start};
use super::http::{App, HttpSettings, router};
use super::metrics::Metrics;
use super::model::Model;
use super::state::{Phase, State};
use sd_notify::NotifyState;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// How often observations are moved into buckets.
const UPKEEP: Duration = Duration::from_secs(5);
/// Time that a round, or the last bytes to a slow client, may take after everything was cut.
const GRACE: Duration = Duration::from_secs(5);
/// How often the end of draining is looked for.
const POLL: Duration = Duration::from_millis(5);

/// All settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the engine's thread.
    pub worker: WorkerSettings,
    /// Of the HTTP side.
    pub http: HttpSettings,
    /// Time that the head of a request may take, and that an idle connection is kept.
    pub head: Duration,
    /// Time to finish accepted requests at shutdown.
    pub drain: Duration,
    /// Time of it that passes even when nothing is left to finish: balancers see that the server goes down while
    /// it still answers them.
    pub linger: Duration,
}

/// Serves `model` on `listener` until `stop` comes and everything accepted is answered.
///
/// # Errors
/// The engine cannot be opened or fails, or connections can no longer be accepted.
pub async fn serve(
    settings: Settings,
    model: Arc<Model>,
    loader: Loader,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let metrics = Arc::new(Metrics::new()?);
    let state = Arc::new(State::new(Arc::clone(&metrics)));
    let queue = Queue::new(
        settings.http.max_queue,
        metrics.waiting.clone(),
        metrics.running.clone(),
    );
    let queue = Arc::new(queue);
    let address = listener.local_addr().map_err(ServeError::Runtime)?;
    let worker = start(
        loader,
        settings.worker,
        Arc::clone(&model),
        Arc::clone(&state),
        Arc::clone(&queue),
    )?;
    let mut ended = worker.ended;
    let app = App {
        state: Arc::clone(&state),
        model,
        queue: Arc::clone(&queue),
        settings: settings.http,
    };
    let (close, closed) = oneshot::channel::<()>();
    let mut http = tokio::spawn(accept(listener, router(app), settings.head, async {
        // A dropped sender means the same.
        let _ = closed.await;
    }));
    let background = [
        tokio::spawn(upkeep(metrics)),
        tokio::spawn(supervise(Arc::clone(&state), address.to_string())),
    ];

    let result = tokio::select! {
        biased;
        result = &mut ended => Err(worker_error(result)),
        result = &mut http => Err(http_error(address, result)),
        () = stop => Ok(()),
    };
    if result.is_ok() {
        tracing::info!(target: "forkcast::serve", "draining");
        state.advance(Phase::Draining);
        notify(&[NotifyState::Stopping]);
        drain(&state, &queue, settings.drain, settings.linger).await;
    }
    queue.close();
    drop(close);
    // Connections of clients that do not read are left behind.
    let _ = timeout(GRACE, &mut http).await;
    if result.is_ok() {
        // An engine that is still being loaded cannot be interrupted; the process ends anyway.
        let _ = timeout(GRACE, &mut ended).await;
    }
    for task in background {
        task.abort();
    }
    tracing::info!(target: "forkcast::serve", "stopped");
    result
}

/// Waits until everything accepted is answered, and `linger` at least; cuts what is left when `time` is over.
async fn drain(state: &State, queue: &Queue, time: Duration, linger: Duration) {
    let begin = Instant::now();
    let busy = || !queue.is_idle() || begin.elapsed() < linger;
    while busy() && begin.elapsed() < time && state.phase() == Phase::Draining {
        tokio::time::sleep(POLL).await;
    }
    if queue.is_idle() {
        return;
    }
    tracing::warn!(target: "forkcast::serve", "drain time is over: cutting what is left");
    state.cut();
    let deadline = Instant::now() + GRACE;
    while !queue.is_idle() && Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
}

fn worker_error(result: Result<Result<(), ServeError>, oneshot::error::RecvError>) -> ServeError {
    match result {
        Ok(Err(error)) => error,
        // The queue is only closed after this select.
        Ok(Ok(())) | Err(_) => ServeError::WorkerLost,
    }
}

fn http_error(address: std::net::SocketAddr, result: Result<(), tokio::task::JoinError>) -> ServeError {
    let source = match result {
        Ok(()) => std::io::Error::other("the listener ended"),
        Err(error) => std::io::Error::other(error),
    };
    ServeError::Http { address, source }
}

async fn upkeep(metrics: Arc<Metrics>) {
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tick.tick().await;
        metrics.upkeep();
    }
}

/// Tells systemd when the server is ready, and as long as its engine gives signs of life.
async fn supervise(state: Arc<State>, address: String) {
    if state.loaded().await != Phase::Ready {
        return;
    }
    tracing::info!(target: "forkcast::serve", %address, "ready");
    notify(&[NotifyState::Ready]);
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut tick = tokio::time::interval(limit / 3);
    loop {
        tick.tick().await;
        if state.alive(limit / 2) && state.phase() != Phase::Dead {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

/// Without systemd this does nothing.
fn notify(message: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(message) {
        tracing::warn!(target: "forkcast::serve", %error, "systemd was not told");
    }
}
