//! forkcast exporter
