//! What forkcast's cross-crate tests share: a scripted engine, paths of test data, helpers.

pub mod bundles;
pub mod mock;
pub mod paths;
pub mod plugin_nodes;
pub mod protocol;
pub mod symbolic;
pub mod tensors;
pub mod trees;
