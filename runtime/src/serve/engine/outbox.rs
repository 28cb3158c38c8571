//! Hands events to whoever waits for them, without waking them more often than anybody sees.
//!
//! To wake a task costs the engine's thread some microseconds, which shows when a round takes less than a millisecond.

use super::job::Event;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::mpsc::error::SendError;

/// Time for which events of fast rounds are gathered. A frame of a screen takes three times as long.
const GATHER: Duration = Duration::from_millis(5);

/// When events are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Round by round. Where rounds take less than five milliseconds, several go together.
    Rounds,
    /// All at the end.
    End,
}

/// Events of one answer on their way out.
#[derive(Debug)]
pub(super) struct Outbox {
    channel: UnboundedSender<Vec<Event>>,
    held: Vec<Event>,
    delivery: Delivery,
    sent: Option<Instant>,
}

impl Outbox {
    pub(super) fn new(channel: UnboundedSender<Vec<Event>>, delivery: Delivery) -> Self {
        Self {
            channel,
            held: Vec::new(),
            delivery,
            sent: None,
        }
    }

    /// Whether nobody listens any more.
    pub(super) fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Takes an event.
    pub(super) fn push(&mut self, event: Event) {
        self.held.push(event);
    }

    /// A round is over and the next one will probably take `next`: sends what is held, unless that can go with the
    /// next round's.
    pub(super) fn round(&mut self, next: Duration) {
        let now = Instant::now();
        let wait = match self.delivery {
            Delivery::End => true,
            Delivery::Rounds => self.sent.is_some_and(|sent| now + next < sent + GATHER),
        };
        if wait || self.held.is_empty() {
            return;
        }
        self.sent = Some(now);
        // A closed channel is noticed with the next token.
        let _ = self.channel.send(std::mem::take(&mut self.held));
    }

    /// Sends what is held, and the last event.
    ///
    /// # Errors
    /// Nobody listens any more.
    pub(super) fn finish(mut self, last: Event) -> Result<(), SendError<Vec<Event>>> {
        self.held.push(last);
        self.channel.send(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::api::ApiError;
    use tokio::sync::mpsc::unbounded_channel;

    fn event() -> Event {
        Event::Failed(ApiError::draining())
    }

    #[test]
    fn slow_rounds_go_at_once_and_fast_ones_together() {
        let (sender, mut receiver) = unbounded_channel();
        let mut outbox = Outbox::new(sender, Delivery::Rounds);
        let mut arrived = |outbox: &mut Outbox, next| {
            outbox.push(event());
            outbox.push(event());
            outbox.round(next);
            receiver.try_recv().map(|batch| batch.len()).ok()
        };
        assert_eq!(arrived(&mut outbox, Duration::ZERO), Some(2), "the first token");
        assert_eq!(arrived(&mut outbox, GATHER), Some(2), "a slow round");
        outbox.sent = Some(Instant::now() + Duration::from_secs(9));
        assert_eq!(arrived(&mut outbox, Duration::ZERO), None, "a fast round");
        assert_eq!(
            arrived(&mut outbox, Duration::from_secs(10)),
            Some(4),
            "the next one is far"
        );
    }

    #[test]
    fn whole_answers_wake_nobody_before_their_end() {
        let (sender, mut receiver) = unbounded_channel();
        let mut outbox = Outbox::new(sender, Delivery::End);
        outbox.push(event());
        outbox.round(Duration::from_secs(1));
        assert!(receiver.try_recv().is_err());
        outbox.finish(event()).expect("somebody listens");
        assert_eq!(receiver.try_recv().map(|batch| batch.len()), Ok(2));
    }
}
