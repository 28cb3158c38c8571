//! The bounded queue in front of the stream.

use super::Job;
use metrics::Gauge;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The queue holds as many jobs as it may.
#[derive(Debug)]
pub struct Full {
    /// The job, which was not taken.
    pub job: Box<Job>,
    /// Seconds after which the stream is probably free.
    pub retry_after: u64,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Job>,
    running: bool,
    closed: bool,
    /// Moving mean of the time that answers took.
    mean: Duration,
}

/// Jobs that wait while one is running.
#[derive(Debug)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Condvar,
    limit: usize,
    waiting: Gauge,
    running: Gauge,
}

impl Queue {
    /// A queue for `limit` jobs beside the one that runs.
    #[must_use]
    pub fn new(limit: usize, waiting: Gauge, running: Gauge) -> Self {
        Self {
            inner: Mutex::default(),
            changed: Condvar::new(),
            limit,
            waiting,
            running,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs under the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job into the queue. Jobs whose clients went away make room first.
    ///
    /// # Errors
    /// There is no room.
    pub fn push(&self, mut job: Job) -> Result<(), Full> {
        let mut inner = self.lock();
        let gone = purge(&mut inner);
        let ahead = inner.jobs.len() + usize::from(inner.running);
        let result = if inner.closed || ahead > self.limit {
            let seconds = inner.mean.as_secs_f64() * (ahead as f64 + 1.0) / 2.0;
            Err(Full {
                job: Box::new(job),
                retry_after: (seconds.ceil() as u64).clamp(1, 60),
            })
        } else {
            job.entry.accept(job.deadline);
            inner.jobs.push_back(job);
            Ok(())
        };
        self.waiting.set(inner.jobs.len() as f64);
        drop(inner);
        self.changed.notify_all();
        // Entries are written outside of the lock.
        drop(gone);
        result
    }

    /// Waits for the next job and marks the stream as running. None when the queue is closed and empty.
    pub fn pop(&self) -> Option<Job> {
        let mut inner = self.lock();
        loop {
            if let Some(job) = inner.jobs.pop_front() {
                inner.running = true;
                self.waiting.set(inner.jobs.len() as f64);
                self.running.set(1);
                return Some(job);
            }
            if inner.closed {
                return None;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The running job has ended after `time`.
    pub fn done(&self, time: Duration) {
        let mut inner = self.lock();
        inner.running = false;
        inner.mean = if inner.mean.is_zero() {
            time
        } else {
            (inner.mean * 7 + time) / 8
        };
        self.running.set(0);
        drop(inner);
        self.changed.notify_all();
    }

    /// Takes no more jobs; those in it are still handed out.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Drops what waits, after the worker is gone.
    pub fn clear(&self) {
        let jobs = std::mem::take(&mut self.lock().jobs);
        self.waiting.set(0);
        drop(jobs);
    }

    /// Whether nothing runs and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        !inner.running && inner.jobs.is_empty()
    }
}

/// Takes out the jobs that nobody waits for.
fn purge(inner: &mut Inner) -> Vec<Job> {
    let (gone, kept) = inner.jobs.drain(..).partition(|job| job.events.is_closed());
    inner.jobs = kept;
    Vec::from(gone)
}
