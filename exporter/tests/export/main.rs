//! The exporter from outside: what it refuses, what it writes, and what that costs.

mod bundle;
mod checkpoints;
mod configs;
mod full_size;
mod refusals;
mod safetensors;
mod sparse;
mod support;
