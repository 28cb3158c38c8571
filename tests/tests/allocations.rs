//! A steady round allocates nothing in forkcast's own code. Allocations inside calls to ONNX Runtime's binding
//! are counted apart: they must stay the same from round to round.

#![expect(unsafe_code, reason = "a counting global allocator")]

use forkcast::decode::{Decoder, Drawing, Method, Plan};
use forkcast::sample::Sampling;
use forkcast_engines::backend::Backend;
use forkcast_engines::ort::LibraryScope;
use forkcast_tests::bundles::Bundle;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
    static LIBRARY: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    let counter = if LibraryScope::active() { &LIBRARY } else { &OWN };
    // Fails only while the thread ends, when nothing is measured any more.
    let _ = counter.try_with(|c| c.set(c.get() + 1));
}

// SAFETY: every call is handed to the system allocator unchanged; counting touches thread-local cells only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is the same as the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn counts() -> (u64, u64) {
    (OWN.with(Cell::get), LIBRARY.with(Cell::get))
}

#[test]
fn steady_rounds_allocate_nothing_of_ours() {
    for (drafter, method, budget) in [
        ("tiny-qwen3.5-dflash", Method::Plain, 0),
        ("tiny-qwen3.5-dflash", Method::Chain, 15),
        ("tiny-qwen3.5-dflash", Method::Ddtree, 32),
        ("tiny-qwen3.5-mfd", Method::Mfd, 32),
    ] {
        let bundle = Bundle::trained("tiny-qwen3.5", drafter);
        let mut engine = bundle.open();
        engine.set_drafting(method != Method::Plain);
        let drawing = Drawing {
            sampling: Sampling {
                temperature: 1.0,
                top_k: 20,
                ..Sampling::default()
            },
            seed: 3,
            stop_ids: Vec::new(),
            logprobs: None,
        };
        let mut decoder = Decoder::new(drawing, engine.shape().vocab).expect("valid settings");
        decoder
            .start(&mut engine, &[2043, 464, 262, 198, 44, 13])
            .expect("prefill");
        engine.reserve(1500).expect("room");
        let mut rounds = Vec::new();
        for _ in 0..70 {
            let before = counts();
            decoder
                .round(
                    &mut engine,
                    Plan {
                        method,
                        budget,
                        mode: 0,
                    },
                )
                .expect("round");
            let all = decoder.drawn().len();
            decoder.commit(&mut engine, all).expect("commit");
            let after = counts();
            rounds.push((after.0 - before.0, after.1 - before.1));
        }
        let steady = &rounds[40..];
        let own: Vec<u64> = steady.iter().map(|r| r.0).collect();
        assert!(
            own.iter().all(|n| *n == 0),
            "{method}: own allocations by round {own:?}"
        );
        let library: Vec<u64> = steady.iter().map(|r| r.1).collect();
        let (least, most) = (library.iter().min(), library.iter().max());
        println!("{method}: the library's binding allocates {least:?}..{most:?} times a round");
    }
}
