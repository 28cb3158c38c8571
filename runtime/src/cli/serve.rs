//! `forkcast serve`.

use super::Outcome;
use crate::exit::{Exit, Failure};
use forkcast::serve::{ServeArgs, run as serve};

pub(super) fn run(args: &ServeArgs) -> Outcome {
    serve(args.clone()).map_err(Failure::from)?;
    Ok(Exit::Done)
}
