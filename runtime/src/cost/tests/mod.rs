//! The cost model, the choice and the file.

mod choice;
mod file;

pub(crate) use file::tune;
