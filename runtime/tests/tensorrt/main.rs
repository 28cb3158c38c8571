//! The real TensorRT-RTX library, through the real binary: every plan of the tiny pairs and of the published 4B shapes is
//! built on this machine, which needs no GPU. Run by `make test-tensorrt`, with the feature `tensorrt`.

#[allow(dead_code, reason = "the exporter's tests use more of these modules")]
#[path = "../../../exporter/tests/export/checkpoints.rs"]
mod checkpoints;
#[allow(dead_code, reason = "the exporter's tests use more of these modules")]
#[path = "../../../exporter/tests/export/configs.rs"]
mod configs;
#[allow(dead_code, reason = "the exporter's tests use more of these modules")]
#[path = "../../../exporter/tests/export/sparse.rs"]
mod sparse;

mod damage;
mod interrupt;
mod published;
mod run;
mod tiny;
