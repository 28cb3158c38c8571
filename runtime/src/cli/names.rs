//! Words that flags take, as the libraries know them.

use clap::ValueEnum;
use forkcast::decode::Method;
use forkcast_engines::engine::WeightMode;
use forkcast_engines::manifest::Dtype;

/// `--dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DtypeName {
    /// IEEE single precision; what a CPU runs
    F32,
    /// bfloat16; for TensorRT
    Bf16,
    /// IEEE half precision
    F16,
    /// Matrices of 8 bits in blocks of 32, the rest single precision; for the CPU
    Int8,
    /// Matrices of 4 bits in blocks of 32, the rest single precision; for the CPU
    Int4,
}

impl From<DtypeName> for Dtype {
    fn from(name: DtypeName) -> Self {
        match name {
            DtypeName::F32 => Self::F32,
            DtypeName::Bf16 => Self::Bf16,
            DtypeName::F16 => Self::F16,
            DtypeName::Int8 => Self::Int8,
            DtypeName::Int4 => Self::Int4,
        }
    }
}

/// `--method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MethodName {
    /// No draft: one token a round
    Plain,
    /// One path: the drafter's best token per position
    Chain,
    /// The best-scoring prefixes of one mode
    Ddtree,
    /// The best-scoring prefixes over all modes
    Mfd,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Plain => Self::Plain,
            MethodName::Chain => Self::Chain,
            MethodName::Ddtree => Self::Ddtree,
            MethodName::Mfd => Self::Mfd,
        }
    }
}

/// `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

/// `build --weights`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WeightsName {
    /// Bound when the engine is loaded: any bundle of the same shape runs on it
    Inputs,
    /// Inside the plans: for small models
    Embedded,
}

impl From<WeightsName> for WeightMode {
    fn from(name: WeightsName) -> Self {
        match name {
            WeightsName::Inputs => Self::Inputs,
            WeightsName::Embedded => Self::Embedded,
        }
    }
}
