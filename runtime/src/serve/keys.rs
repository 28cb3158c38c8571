//! API keys, compared in constant time.

use super::ServeError;
use std::path::Path;
use subtle::{Choice, ConstantTimeEq};

/// Longest key in bytes; shorter ones are padded for the comparison.
const WIDTH: usize = 256;

/// The keys that are taken; none means that no key is asked for.
#[derive(Clone, Default)]
pub struct Keys {
    keys: Vec<Padded>,
}

#[derive(Clone)]
struct Padded {
    bytes: [u8; WIDTH],
    length: u64,
}

impl Padded {
    fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; WIDTH];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Self {
            bytes,
            length: key.len() as u64,
        })
    }
}

/// Keys are not shown.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.keys.len())
    }
}

impl Keys {
    /// Collects keys from flags or the environment, and from a file with one key a line; empty lines and
    /// lines that start with `#` are skipped.
    ///
    /// # Errors
    /// The file is unreadable or holds no key, or a key is unusable.
    pub fn collect(given: &[String], file: Option<&Path>) -> Result<Self, ServeError> {
        let mut keys = Self::default();
        for key in given {
            keys.add("--api-key", key.trim())?;
        }
        if let Some(path) = file {
            let origin = path.display().to_string();
            let wrong = |reason: String| ServeError::Key {
                origin: origin.clone(),
                reason,
            };
            let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
            let before = keys.keys.len();
            let lines = text.lines().map(str::trim);
            for line in lines.filter(|l| !l.is_empty() && !l.starts_with('#')) {
                keys.add(&origin, line)?;
            }
            if keys.keys.len() == before {
                return Err(wrong("there is no key in this file".to_owned()));
            }
        }
        Ok(keys)
    }

    fn add(&mut self, origin: &str, key: &str) -> Result<(), ServeError> {
        let wrong = |reason: String| ServeError::Key {
            origin: origin.to_owned(),
            reason,
        };
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(wrong("a key must be printable ASCII without spaces".to_owned()));
        }
        let padded = Padded::new(key.as_bytes());
        self.keys
            .push(padded.ok_or_else(|| wrong(format!("a key is longer than {WIDTH} bytes")))?);
        Ok(())
    }

    /// Whether a key is asked for at all.
    #[must_use]
    pub fn needed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether an `Authorization` header carries one of the keys. Takes the same time for every key of the
    /// same number of configured keys.
    #[must_use]
    pub fn accept(&self, header: Option<&[u8]>) -> bool {
        if !self.needed() {
            return true;
        }
        let Some((scheme, key)) = header.and_then(|h| h.split_at_checked(7)) else {
            return false;
        };
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return false;
        }
        let Some(given) = Padded::new(key.trim_ascii()) else {
            return false;
        };
        let found = self.keys.iter().fold(Choice::from(0), |found, key| {
            found | (key.bytes.ct_eq(&given.bytes) & key.length.ct_eq(&given.length))
        });
        found.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_whole() {
        let keys = Keys::collect(&["alpha".into(), "beta".into()], None).unwrap();
        for (header, accepted) in [
            ("Bearer alpha", true),
            ("bearer beta", true),
            ("Bearer alph", false),
            ("Bearer alphab", false),
            ("Bearer alpha\0", false),
            ("Bearer ", false),
            ("Basic alpha", false),
            ("alpha", false),
        ] {
            assert_eq!(keys.accept(Some(header.as_bytes())), accepted, "{header}");
        }
        assert!(!keys.accept(None));
        assert!(Keys::default().accept(None));
        let long = format!("Bearer {}", "x".repeat(5000));
        assert!(!keys.accept(Some(long.as_bytes())));
    }

    #[test]
    fn unusable_keys_are_refused() {
        for key in ["", " ", "a b", "schl\u{fc}ssel"] {
            assert!(Keys::collect(&[key.to_owned()], None).is_err(), "{key:?}");
        }
        assert!(Keys::collect(&["x".repeat(257)], None).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        assert!(Keys::collect(&[], Some(&path)).is_err());
        std::fs::write(&path, "# nothing\n\n").unwrap();
        assert!(Keys::collect(&[], Some(&path)).is_err());
        std::fs::write(&path, "# two\none\n two \n").unwrap();
        let keys = Keys::collect(&[], Some(&path)).unwrap();
        assert!(keys.accept(Some(b"Bearer two")));
    }
}
