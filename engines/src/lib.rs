//! forkcast's engines: the bundle format, and backends that load and execute it.

pub mod backend;
pub mod bundle;
pub mod manifest;
pub mod ort;
pub mod recipe;
pub mod topk;
