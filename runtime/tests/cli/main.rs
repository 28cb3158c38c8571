//! The command line as scripts see it: the real binary, its output and its exit codes.

mod bench;
mod bundles;
mod demo;
mod engines;
mod generate;
mod inspect;
mod probe;
mod proof;
mod refusals;
mod run;
mod tune;
