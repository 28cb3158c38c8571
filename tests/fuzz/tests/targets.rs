//! Every target over its corpus and a fixed number of seeded mutations of it, under bounds of memory and time.

#![expect(unsafe_code, reason = "a counting global allocator")]

use forkcast_fuzz::mutate::{Random, mutation};
use forkcast_fuzz::targets::{ALL, Target};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn add(bytes: isize) {
    // Fails only while the thread ends, when nothing is measured any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is handed to the system allocator unchanged; counting touches thread-local cells only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's contract is the same as the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as above; `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a run may hold for each byte of its input: a JSON value takes 72 bytes at least, and two of input; lists double while they grow.
const BYTES_PER_BYTE: isize = 256;
/// Most time of one run; far above what any takes, so that a busy machine does not matter.
const TIME: Duration = Duration::from_secs(5);

/// Mutations in a run of the tests; the long run is `make fuzz`.
fn mutations() -> usize {
    std::env::var("FUZZ_MUTATIONS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(2000)
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut list: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|e| e.expect("an entry").path())
        .collect();
    list.sort();
    assert!(!list.is_empty(), "{} is empty", dir.display());
    list.into_iter()
        .map(|p| {
            let bytes = std::fs::read(&p).expect("a file");
            (p, bytes)
        })
        .collect()
}

/// Runs a target once; an input that breaks a bound or panics is kept and named.
fn run(target: Target, input: &[u8]) -> (isize, Duration) {
    let before = LIVE.get();
    PEAK.set(before);
    let begin = Instant::now();
    let result = std::panic::catch_unwind(|| (target.run)(input));
    let (time, bytes) = (begin.elapsed(), PEAK.get() - before);
    let bound = target.bytes as isize + BYTES_PER_BYTE * input.len() as isize;
    if result.is_err() || bytes > bound || time > TIME {
        let path = std::env::temp_dir().join(format!("forkcast-fuzz-{}.input", target.name));
        std::fs::write(&path, input).expect("written");
        panic!(
            "{}: panic {}, {bytes} bytes (bound {bound}), {time:?} on {}",
            target.name,
            result.is_err(),
            path.display()
        );
    }
    (bytes, time)
}

fn fuzz(name: &str) {
    let target = ALL.into_iter().find(|t| t.name == name).expect("a target");
    let corpus = corpus(name);
    // What a target makes once is not what an input takes.
    (target.run)(&corpus[0].1);
    let (mut most, mut longest) = (0, Duration::ZERO);
    let mut note = |(bytes, time): (isize, Duration)| {
        most = most.max(bytes);
        longest = longest.max(time);
    };
    corpus.iter().for_each(|(_, input)| note(run(target, input)));
    let mut random = Random::new(name.len() as u64);
    let begin = Instant::now();
    for _ in 0..mutations() {
        let entry = &corpus[random.below(corpus.len())].1;
        let other = &corpus[random.below(corpus.len())].1;
        note(run(target, &mutation(entry, other, &mut random)));
    }
    println!(
        "{name}: {} entries and {} mutations in {:.1?}, at most {most} bytes and {longest:.1?} each",
        corpus.len(),
        mutations(),
        begin.elapsed()
    );
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { fuzz(stringify!($name)); })*

        #[test]
        fn every_target_is_tested() {
            assert_eq!(ALL.map(|t| t.name).as_slice(), [$(stringify!($name)),*]);
        }
    };
}

targets!(
    safetensors index config manifest engine recipe tokenizer template conversation chat_request
    completion_request tree answer rounds
);
