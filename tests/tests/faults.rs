//! A full disk, or the end of the process, at every call of an export and of a build that changes a file: what lies at
//! `--out` afterwards is the whole old folder or the whole new one.
//!
//! The work runs in a child process (this test program again) with `tests/faults/fail.c` preloaded.

use forkcast_engines::build::{BuildError, BuildOptions, Compiler, Listener, Prepared, Progress, build};
use forkcast_engines::bundle::{Bundle, verify_deep};
use forkcast_engines::engine::{self, WeightMode};
use forkcast_engines::manifest::Dtype;
use forkcast_engines::recipe::Recipe;
use forkcast_exporter::{ExportOptions, export};
use forkcast_tests::paths;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What a child is to do, and where.
const TASK: &str = "FORKCAST_FAULT_TASK";
const ROOT: &str = "FORKCAST_FAULT_ROOT";

fn export_to(out: &Path, target: &str) -> Result<(), String> {
    let options = ExportOptions {
        target: paths::golden(target).to_string_lossy().into_owned(),
        drafter: None,
        out: out.to_owned(),
        dtype: Dtype::F32,
        copy_weights: true,
        hash_weights: false,
        taps: None,
        modes: None,
        weights_from: None,
    };
    export(&options, &mut |_| ()).map(drop).map_err(|e| {
        assert_eq!(e.exit_code(), 5, "{e}");
        e.to_string()
    })
}

struct Stub(&'static [u8]);

impl Compiler for Stub {
    fn version(&self) -> String {
        "1.7.1".to_owned()
    }

    fn compile(&self, _: &Prepared, _: &Recipe, _: &Listener) -> Result<Vec<u8>, BuildError> {
        Ok(self.0.repeat(5000))
    }
}

fn build_to(out: &Path, bundle: &Path, plan: &'static [u8]) -> Result<(), String> {
    let text = "name = \"test\"\ngpu = \"a test GPU\"\nsm = 120\nflavour = \"tensorrt-rtx\"\nprecision = \"f32\"\n\
                rows = [1, 16]\ncontext = [128]\nworkspace_mib = 64\n[hardware]\nmemory_gib = 8\n\
                bandwidth_gb_s = 100.0\ntflops_bf16 = 10.0\nsource = \"made up\"\n";
    let options = BuildOptions {
        bundle: bundle.to_owned(),
        recipe: Recipe::parse("test", text).expect("valid"),
        out: out.to_owned(),
        weights: WeightMode::Inputs,
        keep_onnx: true,
    };
    let listener: Listener = Arc::new(|_: &Progress<'_>| true);
    build(&options, &Stub(plan), &listener).map(drop).map_err(|e| {
        assert_eq!(e.exit_code(), 5, "{e}");
        e.to_string()
    })
}

/// Not a test of its own: what a child does. Exit code 0: done, 9: refused with an error.
#[test]
fn child() {
    let (Ok(task), Some(root)) = (std::env::var(TASK), std::env::var_os(ROOT)) else {
        return;
    };
    let root = PathBuf::from(root);
    let out = root.join("place/out");
    let done = match task.as_str() {
        "export" => export_to(&out, "hybrid_ratio1_untied_f32"),
        _ => build_to(&out, &root.join("bundle"), b"new"),
    };
    std::process::exit(if done.is_ok() { 0 } else { 9 });
}

/// The preloaded library, compiled.
fn library(root: &Path) -> PathBuf {
    let library = root.join("fail.so");
    let source = paths::repository().join("tests/faults/fail.c");
    let status = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-w", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl")
        .status()
        .expect("a C compiler");
    assert!(status.success(), "fail.c does not compile");
    library
}

/// Files below `dir` with their contents.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(dir)
        .expect("a folder")
        .map(|e| {
            let path = e.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("a file"))
        })
        .collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for (name, bytes) in contents(from) {
        std::fs::write(to.join(name), bytes).expect("written");
    }
}

/// Fault after fault until the child gets through without one. Returns how many there were.
fn faults(root: &Path, task: &str, fault: &str, whole: &dyn Fn(&Path)) -> usize {
    let library = library(root);
    let place = root.join("place");
    let (old, new) = (contents(&root.join("old")), contents(&root.join("new")));
    assert!(old != new);
    let (mut kept, mut replaced) = (0, 0);
    for at in 1.. {
        assert!(at < 2000, "no end of calls");
        drop(std::fs::remove_dir_all(&place));
        copy(&root.join("old"), &place.join("out"));
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "child", "--nocapture"])
            .env(TASK, task)
            .env(ROOT, root)
            .env("LD_PRELOAD", &library)
            .env("FAULT_DIR", &place)
            .env("FAULT_AT", at.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !fault.is_empty() {
            command.env(fault, "1");
        }
        let status = command.status().expect("runs");
        let found = contents(&place.join("out"));
        assert!(
            found == old || found == new,
            "{task} {fault} at {at}: a mixture ({status})"
        );
        if found == old {
            kept += 1;
        } else {
            replaced += 1;
        }
        whole(&place.join("out"));
        let beside: Vec<String> = std::fs::read_dir(&place)
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|n| n != "out")
            .collect();
        if fault == "FAULT_KILL" {
            // A killed process cannot clean up; what it leaves is hidden and says what it is.
            assert!(beside.iter().all(|n| n.starts_with(".out.part-")), "{beside:?}");
            if status.signal().is_none() {
                assert_eq!((status.code(), found == new), (Some(0), true));
                println!("{task} {fault}: {} faults, old {kept}, new {replaced}", at - 1);
                return at - 1;
            }
            continue;
        }
        match status.code() {
            Some(0) => {
                assert!(
                    found == new,
                    "{task} at {at}: reported as done, but the old folder is there"
                );
                // A fault while removing the old folder, which has its new name by then, is no failure.
                if beside.is_empty() {
                    println!("{task} {fault}: {} faults, old {kept}, new {replaced}", at - 1);
                    return at - 1;
                }
            }
            Some(9) => assert!(
                beside.is_empty() || beside.iter().all(|n| n.starts_with(".out.part-")),
                "{task} at {at}: {beside:?}"
            ),
            _ => panic!("{task} at {at}: {status}"),
        }
    }
    0
}

fn bundles() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    export_to(&root.path().join("old"), "dense_untied_f32").expect("exports");
    export_to(&root.path().join("new"), "hybrid_ratio1_untied_f32").expect("exports");
    root
}

fn whole_bundle(dir: &Path) {
    let bundle = Bundle::open(dir).expect("opens");
    verify_deep(&bundle).expect("whole");
}

fn engines() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let bundle = root.path().join("bundle");
    export_to(&bundle, "hybrid_ratio1_untied_f32").expect("exports");
    // Built at the final place, so that both refer to the bundle in the same way.
    let out = root.path().join("place/out");
    for (name, plan) in [("old", b"old"), ("new", b"new")] {
        build_to(&out, &bundle, plan).expect("builds");
        copy(&out, &root.path().join(name));
    }
    root
}

fn whole_engine(dir: &Path) {
    engine::read(dir).expect("reads");
}

#[test]
fn a_full_disk_at_every_call_of_an_export() {
    let root = bundles();
    assert!(faults(root.path(), "export", "", &whole_bundle) > 20);
}

#[test]
fn a_disk_that_fills_up_inside_of_a_write_of_an_export() {
    let root = bundles();
    assert!(faults(root.path(), "export", "FAULT_SHORT", &whole_bundle) > 20);
}

#[test]
fn the_end_of_the_process_at_every_call_of_an_export() {
    let root = bundles();
    assert!(faults(root.path(), "export", "FAULT_KILL", &whole_bundle) > 20);
}

#[test]
fn a_full_disk_at_every_call_of_a_build() {
    let root = engines();
    assert!(faults(root.path(), "build", "", &whole_engine) > 20);
}

#[test]
fn the_end_of_the_process_at_every_call_of_a_build() {
    let root = engines();
    assert!(faults(root.path(), "build", "FAULT_KILL", &whole_engine) > 20);
}
