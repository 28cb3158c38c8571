//! A folder for targets whose product code reads files.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

thread_local! {
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// Where the folder is made: memory where the system has some for files.
fn base() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// Folder `name` inside this thread's scratch folder; made on first use.
///
/// # Panics
/// The system refuses.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    FOLDER.with_borrow_mut(|folder| {
        let root = folder.get_or_insert_with(|| {
            tempfile::Builder::new()
                .prefix("forkcast-fuzz-")
                .tempdir_in(base())
                .expect("a scratch folder")
        });
        let path = root.path().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    })
}

/// Writes `content` into file `name` of `dir`.
///
/// # Panics
/// The system refuses.
pub fn put(dir: &Path, name: &str, content: &[u8]) {
    std::fs::write(dir.join(name), content).expect("written");
}
