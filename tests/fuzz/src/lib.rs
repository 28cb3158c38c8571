//! Fuzz targets: one function per kind of input, each takes any bytes and must neither panic nor take memory or time that
//! the bytes do not explain.
//!
//! The same functions run in two ways: `cargo test -p forkcast-fuzz` gives them the corpus and a fixed number of seeded
//! mutations of it, under bounds; `make fuzz` gives them to libFuzzer (`tests/fuzz/libfuzzer`).

pub mod mutate;
pub mod scratch;
pub mod targets;
