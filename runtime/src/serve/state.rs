//! Where the server stands, shared by everything that runs in it.

use super::api::ApiError;
use super::metrics::Metrics;
use crate::decode::Method;
use forkcast_engines::backend::Shape;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Life of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The engine is being opened and warmed up.
    Loading,
    /// Requests are taken.
    Ready,
    /// What was accepted is finished, nothing new is taken.
    Draining,
    /// The engine is gone.
    Dead,
}

/// What is known once the engine is open.
#[derive(Clone, Copy, Debug)]
pub struct EngineInfo {
    /// Sizes.
    pub shape: Shape,
    /// Method that makes the trees.
    pub method: Method,
    /// Most nodes of a tree, as the method uses it.
    pub budget: usize,
}

/// The shared state.
#[derive(Debug)]
pub struct State {
    phase: AtomicU8,
    cut: AtomicBool,
    beat: AtomicU64,
    busy: AtomicBool,
    begin: Instant,
    engine: OnceLock<EngineInfo>,
    changes: watch::Sender<Phase>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
}

impl State {
    /// A server that is being loaded.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            phase: AtomicU8::new(0),
            cut: AtomicBool::new(false),
            beat: AtomicU64::new(0),
            busy: AtomicBool::new(true),
            begin: Instant::now(),
            engine: OnceLock::new(),
            changes: watch::Sender::new(Phase::Loading),
            metrics,
        }
    }

    /// Where the server stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Loading,
            1 => Phase::Ready,
            2 => Phase::Draining,
            _ => Phase::Dead,
        }
    }

    /// Goes on to a later phase; there is no way back.
    pub fn advance(&self, phase: Phase) {
        let number = match phase {
            Phase::Loading => 0,
            Phase::Ready => 1,
            Phase::Draining => 2,
            Phase::Dead => 3,
        };
        let before = self.phase.fetch_max(number, Ordering::SeqCst);
        self.metrics
            .ready
            .set(f64::from(u8::from(before.max(number) == 1)));
        self.changes.send_replace(self.phase());
    }

    /// Waits until the server is past loading.
    pub async fn loaded(&self) -> Phase {
        let mut changes = self.changes.subscribe();
        // The sender lives as long as `self`.
        let phase = changes.wait_for(|p| *p != Phase::Loading).await;
        phase.map_or(Phase::Dead, |p| *p)
    }

    /// Whether requests are taken, and if not, why.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self) -> Result<&EngineInfo, ApiError> {
        match (self.phase(), self.engine.get()) {
            (Phase::Ready, Some(engine)) => Ok(engine),
            (Phase::Draining, _) => Err(ApiError::draining()),
            (Phase::Dead, _) => Err(ApiError::engine_gone()),
            (Phase::Loading | Phase::Ready, _) => Err(ApiError::loading()),
        }
    }

    /// The engine, once it is open.
    #[must_use]
    pub fn engine(&self) -> Option<&EngineInfo> {
        self.engine.get()
    }

    /// Publishes the engine; later calls change nothing.
    pub fn set_engine(&self, info: EngineInfo) {
        // There is one worker, and it opens one engine.
        let _ = self.engine.set(info);
    }

    /// Cuts what is running and queued: the time for draining is over.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// Whether answers are to be cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// The worker is alive; `busy` while it has something to do.
    pub fn beat(&self, busy: bool) {
        let now = self.begin.elapsed().as_millis() as u64;
        self.beat.store(now, Ordering::SeqCst);
        self.busy.store(busy, Ordering::SeqCst);
    }

    /// Whether the worker waits for work, or gave a sign of life within `time`.
    #[must_use]
    pub fn alive(&self, time: Duration) -> bool {
        let now = self.begin.elapsed().as_millis() as u64;
        let since = now.saturating_sub(self.beat.load(Ordering::SeqCst));
        !self.busy.load(Ordering::SeqCst) || u128::from(since) <= time.as_millis()
    }
}
