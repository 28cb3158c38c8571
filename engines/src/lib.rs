//! forkcast engines
