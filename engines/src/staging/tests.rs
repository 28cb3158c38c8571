//! Places that may be replaced, folders that are exchanged, and what is left of unfinished ones.

use super::*;

/// Tests run in the folder of the crate, so `src` is a relative folder that exists.
#[test]
fn relative_folders_are_found_from_the_new_one() {
    let root = tempfile::tempdir().expect("temporary folder");
    for out in ["bundle", "a/b/bundle"] {
        let out = root.path().join(out);
        let path = reference(&out, Path::new("src")).expect("a path");
        assert!(path.is_relative(), "{}", path.display());
        fs::create_dir_all(&out).expect("folder");
        let found = fs::canonicalize(out.join(&path)).expect("exists");
        assert_eq!(found, fs::canonicalize("src").expect("exists"));
    }
    let path = reference(Path::new("no/such/bundle"), Path::new("src")).expect("a path");
    assert_eq!(path, Path::new("../../../src"));
}

#[test]
fn absolute_folders_stay_as_given() {
    let path = reference(Path::new("bundle"), Path::new("/models/x")).expect("a path");
    assert_eq!(path, Path::new("/models/x"));
}

#[test]
fn foreign_files_are_never_replaced() {
    let root = tempfile::tempdir().expect("temporary folder");
    let known = |_: &Path| Some(BTreeSet::from(["ours".to_owned()]));
    assert!(check(root.path(), "bundle", |_| None).is_ok());
    fs::write(root.path().join("ours"), "x").expect("write");
    assert!(check(root.path(), "bundle", known).is_ok());
    assert!(check(root.path(), "bundle", |_| None).is_err());
    fs::write(root.path().join("notes.txt"), "x").expect("write");
    let error = check(root.path(), "bundle", known).expect_err("foreign file");
    assert!(error.to_string().contains("notes.txt"), "{error}");
}

#[test]
fn an_old_folder_is_exchanged_or_steps_aside() {
    for exchanged in [true, false] {
        let root = tempfile::tempdir().expect("temporary folder");
        let out = root.path().join("b");
        fs::create_dir(&out).expect("folder");
        fs::write(out.join("old"), "1").expect("write");
        let staging = Staging::create(&out).expect("created");
        fs::write(staging.path().join("new"), "2").expect("write");
        if exchanged {
            staging.finish().expect("finished");
        } else {
            staging.step_aside().expect("replaced");
        }
        assert!(out.join("new").exists() && !out.join("old").exists());
        assert_eq!(fs::read_dir(root.path()).expect("read").count(), 1);
    }
}

#[test]
fn an_unfinished_folder_leaves_nothing() {
    let root = tempfile::tempdir().expect("temporary folder");
    let out = root.path().join("a/b");
    drop(Staging::create(&out).expect("created"));
    assert_eq!(fs::read_dir(root.path()).expect("read").count(), 0);
    let staging = Staging::create(&out).expect("created");
    fs::write(staging.path().join("x"), "1").expect("write");
    staging.finish().expect("finished");
    assert_eq!(fs::read(out.join("x")).expect("read"), b"1");
}
