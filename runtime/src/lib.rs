//! forkcast: tree-verified speculative decoding from ahead-of-time compiled graphs.

#![forbid(unsafe_code)]

pub mod bench;
pub mod cost;
pub mod decode;
pub mod proof;
pub mod sample;
pub mod serve;
pub mod text;
pub mod tree;
pub mod walk;
