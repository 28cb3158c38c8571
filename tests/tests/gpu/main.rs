//! The GPU engine on a simulated device: the same numbers as the CPU engine, and the calls that a GPU would see.

mod calls;
mod device;
mod engine;
mod model;
mod plan;
mod refusals;
mod same;
