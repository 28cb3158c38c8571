//! Folders that are written beside their final place and renamed into it when complete.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Why a folder cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// The place holds something that must not be replaced.
    #[error("--out {path}: {reason}")]
    Place {
        /// The place.
        path: PathBuf,
        /// What is there.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// The system refuses.
    #[error("{path}: cannot write: {source}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder that is referred to cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn write(path: &Path) -> impl FnOnce(io::Error) -> StagingError + '_ {
    move |source| StagingError::Write {
        path: path.to_owned(),
        source,
    }
}

fn read(path: &Path) -> impl FnOnce(io::Error) -> StagingError + '_ {
    move |source| StagingError::Read {
        path: path.to_owned(),
        source,
    }
}

/// Refuses a place that holds something other than a folder of ours, of which `known` gives the files
/// (`None`: it is no such folder). `what` is the word for it.
///
/// # Errors
/// The place cannot be replaced without losing something.
pub fn check(
    out: &Path,
    what: &str,
    known: impl Fn(&Path) -> Option<BTreeSet<String>>,
) -> Result<(), StagingError> {
    let refuse = |reason: String, hint: &str| {
        Err(StagingError::Place {
            path: out.to_owned(),
            reason,
            hint: hint.to_owned(),
        })
    };
    if out.file_name().is_none() {
        return refuse("is no folder name".to_owned(), "name a new folder");
    }
    let Ok(found) = fs::symlink_metadata(out) else {
        return Ok(());
    };
    if found.is_symlink() {
        // A rename would replace the link and leave what it points to.
        return refuse(
            "is a symbolic link".to_owned(),
            "name the folder that it points to",
        );
    }
    let entries: Option<Vec<String>> = fs::read_dir(out).ok().map(|entries| {
        let names = entries.flatten().map(|e| e.file_name());
        names.map(|n| n.to_string_lossy().into_owned()).collect()
    });
    let known = known(out);
    match (entries, known) {
        (Some(entries), None) if entries.is_empty() => Ok(()),
        (Some(entries), Some(known)) => match entries.iter().find(|e| !known.contains(*e)) {
            None => Ok(()),
            Some(other) => refuse(
                format!("holds {other:?}, which is not part of the {what}"),
                "move that file away, or name a new folder",
            ),
        },
        _ => refuse(
            format!("exists and is not a forkcast {what}"),
            "name a new folder, or remove this one",
        ),
    }
}

/// Folders under construction in this process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes every folder under construction; for a process that is about to end early.
pub fn abandon_all() {
    let mut list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    list.drain(..).for_each(|dir| drop(fs::remove_dir_all(dir)));
}

/// A folder under construction. Dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct Staging {
    dir: TempDir,
    out: PathBuf,
    /// Parent folders that were made for it, outermost first.
    made: Vec<PathBuf>,
}

impl Staging {
    /// Makes the temporary folder beside `out`, and missing parents.
    ///
    /// # Errors
    /// The system refuses.
    pub fn create(out: &Path) -> Result<Self, StagingError> {
        let parent = match out.parent() {
            Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut made: Vec<PathBuf> = parent
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_owned)
            .collect();
        made.reverse();
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let dir = fs::create_dir_all(&parent).and_then(|()| {
            tempfile::Builder::new()
                .prefix(&format!(".{name}.part-"))
                // Such a folder is no secret: the usual mode, cut by the umask.
                .permissions(fs::Permissions::from_mode(0o777))
                .tempdir_in(&parent)
        });
        match dir {
            Ok(dir) => {
                let mut list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
                list.push(dir.path().to_owned());
                Ok(Self {
                    dir,
                    out: out.to_owned(),
                    made,
                })
            }
            Err(source) => {
                made.iter().rev().for_each(|p| drop(fs::remove_dir(p)));
                Err(StagingError::Write { path: parent, source })
            }
        }
    }

    /// Where files go meanwhile.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Brings the folder to disk and renames it into place.
    ///
    /// # Errors
    /// The system refuses; what was in the place before is then still there.
    pub fn finish(mut self) -> Result<(), StagingError> {
        sync_dir(self.path())?;
        let replaced = self.replace();
        if replaced.is_ok() {
            self.made.clear();
            self.forget();
            self.dir.disable_cleanup(true);
            if let Some(parent) = self.out.parent().filter(|p| !p.as_os_str().is_empty()) {
                sync_dir(parent)?;
            }
        }
        replaced
    }

    fn replace(&self) -> Result<(), StagingError> {
        if fs::symlink_metadata(&self.out).is_err() {
            return fs::rename(self.path(), &self.out).map_err(write(&self.out));
        }
        if exchange(self.path(), &self.out)? {
            // What was the old folder has the temporary name now. A failure to remove it is no failure of the build.
            drop(fs::remove_dir_all(self.path()));
            return Ok(());
        }
        self.step_aside()
    }

    /// Where the file system cannot exchange two folders: the old one steps aside and comes back if the new one
    /// fails. A process that is killed between the two renames leaves it in `.forkcast-old-*/old`.
    fn step_aside(&self) -> Result<(), StagingError> {
        let parent = self.path().parent().unwrap_or(Path::new("."));
        let aside = tempfile::Builder::new()
            .prefix(".forkcast-old-")
            .tempdir_in(parent)
            .map_err(write(parent))?;
        let old = aside.path().join("old");
        let moved = fs::rename(&self.out, &old).and_then(|()| {
            fs::rename(self.path(), &self.out).inspect_err(|_| drop(fs::rename(&old, &self.out)))
        });
        moved.map_err(write(&self.out))
    }

    fn forget(&self) {
        let mut list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|dir| dir != self.dir.path());
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.forget();
        if self.made.is_empty() {
            return;
        }
        // Parents can go only when they are empty, so the folder inside goes first.
        drop(fs::remove_dir_all(self.dir.path()));
        self.made.iter().rev().for_each(|p| drop(fs::remove_dir(p)));
    }
}

/// Exchanges two folders in one step, so that there is a whole one at `out` at every moment. False where the file system
/// cannot do that.
fn exchange(new: &Path, out: &Path) -> Result<bool, StagingError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, new, CWD, out, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(errno) => Err(write(out)(errno.into())),
    }
}

fn sync_dir(dir: &Path) -> Result<(), StagingError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(write(dir))
}

/// How the folder `out` refers to the folder `dir`: as given when absolute, else relative to `out`, so
/// that both can move together.
///
/// # Errors
/// A folder cannot be resolved.
pub fn reference(out: &Path, dir: &Path) -> Result<PathBuf, StagingError> {
    if dir.is_absolute() {
        return Ok(dir.to_owned());
    }
    // Symbolic links are resolved first: `..` means the real parent.
    let to = fs::canonicalize(dir).map_err(read(dir))?;
    let existing = std::path::absolute(out).map_err(read(out))?;
    let parent = existing.parent().unwrap_or(Path::new("/"));
    let base = parent.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    let tail = parent.strip_prefix(base).unwrap_or(Path::new(""));
    let from = fs::canonicalize(base)
        .map_err(read(base))?
        .join(tail)
        .join(existing.file_name().unwrap_or_default());
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    Ok(up.chain(to.components().skip(shared)).collect())
}

#[cfg(test)]
mod tests;
