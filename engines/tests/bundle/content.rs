//! Files that are other files than at the export, and manifests that list very much.

use super::{bundle, hex, refused};
use forkcast_engines::bundle::{Bundle, verify_deep};
use forkcast_engines::manifest::{Graph, OwnedFile, write};
use std::fs;

/// A rewritten header of the same length is another file even when all sizes are the same.
#[test]
fn a_checkpoint_file_with_another_header_is_detected() {
    let (folder, _) = bundle();
    let path = folder.path().join("elsewhere.safetensors");
    let content = fs::read(&path).expect("read");
    let text = String::from_utf8_lossy(&content).into_owned();
    let other = text.replace("\"w\"", "\"v\"");
    assert_eq!(other.len(), content.len());
    fs::write(&path, other).expect("written");
    refused(
        folder.path(),
        &["elsewhere.safetensors", "header changed since the export"],
    );
}

/// A file of equal size and header with other numbers: found when the export recorded hashes of whole files, and
/// reported as unknown when it did not.
#[test]
fn a_content_only_edit_is_detected_where_hashes_were_recorded() {
    for recorded in [true, false] {
        let (folder, mut manifest) = bundle();
        let path = folder.path().join("elsewhere.safetensors");
        let mut content = fs::read(&path).expect("read");
        manifest.weight_files[0].sha256 = recorded.then(|| hex(&content));
        write(folder.path(), &manifest).expect("written");
        let deep = verify_deep(&Bundle::open(folder.path()).expect("opens")).expect("whole");
        let (files, bytes) = (
            4 + usize::from(recorded),
            140 + if recorded { content.len() as u64 } else { 0 },
        );
        assert_eq!(
            (deep.files, deep.bytes, deep.headers_only),
            (files, bytes, 5 - files)
        );

        *content.last_mut().expect("bytes") ^= 1;
        fs::write(&path, &content).expect("written");
        let opened = Bundle::open(folder.path()).expect("opens: size and header are the same");
        match verify_deep(&opened) {
            Err(error) if recorded => {
                assert!(
                    error.to_string().contains("content changed since the export"),
                    "{error}"
                );
            }
            Ok(deep) if !recorded => assert_eq!(deep.headers_only, 1),
            other => panic!("{other:?}"),
        }
    }
}

/// Nothing that is no file is opened: a pipe would block for ever.
#[test]
fn places_of_weights_that_are_no_files_are_refused() {
    let (folder, mut manifest) = bundle();
    manifest.weight_files[0].path = "/dev/zero".into();
    manifest.weight_files[0].bytes = 0;
    manifest.graphs.values_mut().for_each(|g| g.initializers.clear());
    write(folder.path(), &manifest).expect("written");
    refused(folder.path(), &["/dev/zero", "is no file"]);
}

/// A manifest may list very much; reading it stays linear, and layers are bounded.
#[test]
fn long_lists_take_no_quadratic_time() {
    let (folder, mut manifest) = bundle();
    let file = manifest.files[0].clone();
    for i in 0..60_000 {
        let name = format!("f{i}");
        manifest.files.push(OwnedFile {
            name: name.clone(),
            ..file.clone()
        });
        let initializers = manifest.graphs["head"].initializers.clone();
        manifest.graphs.insert(
            name.clone(),
            Graph {
                file: name,
                initializers,
            },
        );
    }
    write(folder.path(), &manifest).expect("written");
    let begin = std::time::Instant::now();
    forkcast_engines::manifest::read(folder.path()).expect("reads");
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    let (folder, mut manifest) = bundle();
    manifest.target.layers = vec![manifest.target.layers[0]; 1025];
    write(folder.path(), &manifest).expect("written");
    refused(folder.path(), &["target.layers: 1025 is outside 1..=1024"]);
}
