//! Ctrl-C and SIGTERM while a folder is being written: nothing half-written stays.

use super::output;
use forkcast_engines::staging;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
/// What shells report for a process that SIGINT ended.
const INTERRUPTED: i32 = 130;

fn leave() -> ! {
    staging::abandon_all();
    output::say("cancelled; nothing was written\n");
    std::process::exit(INTERRUPTED)
}

/// The first signal ends the process, after removing what is unfinished.
pub(super) fn at_once() {
    // Without a handler the folder would stay; that is no reason to refuse the work.
    let _ = ctrlc::set_handler(|| leave());
}

/// The first signal is a wish that [`asked`] tells; a second one does not wait.
pub(super) fn politely() {
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            leave();
        }
        output::say("stopping; once more to stop at once\n");
    });
}

/// Whether a signal came.
pub(super) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
