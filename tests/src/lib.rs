//! forkcast tests
