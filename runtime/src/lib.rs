//! forkcast runtime
