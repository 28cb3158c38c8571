//! forkcast's engines: the bundle format, and backends that load and execute it.

pub mod backend;
pub mod manifest;
