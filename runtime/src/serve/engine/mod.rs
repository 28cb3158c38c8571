//! The one stream: queue, worker thread, and the prefix that it keeps between requests.

mod emitter;
mod job;
mod outbox;
mod prefix;
mod queue;
mod worker;

pub use job::{Event, Job, Output, TokenEvent};
pub use outbox::Delivery;
pub use prefix::Prefix;
pub use queue::{Full, Queue};
pub use worker::{Loader, Running, WorkerSettings, start};
