//! What a GPU would see: nothing allocated in a steady round, two waits a round with a draft and one without, one recording a
//! slot, everything bound. Plans do nothing here.

use crate::device::{Log, Sim};
use crate::engine::EngineDir;
use forkcast_engines::backend::{Backend, Candidates, LogitNeeds, RowBatch};
use forkcast_engines::gpu::{GpuBackend, GpuOptions, Progress};
use forkcast_tests::bundles::{prefill, verify_chain};
use std::collections::BTreeSet;

fn dir() -> EngineDir {
    EngineDir::trained("tiny-qwen3.5", "tiny-qwen3.5-dflash")
}

/// A round with a chain of `rows` rows of which `accepted` are committed.
fn round(gpu: &mut GpuBackend<Sim>, draft: bool, rows: u32, accepted: u32) {
    let mut candidates = Candidates::default();
    let mut logits = Vec::new();
    if draft {
        gpu.draft(5).expect("draft");
        gpu.candidates(0..1, 32, &mut candidates).expect("candidates");
        gpu.candidates(0..1, 64, &mut candidates).expect("candidates");
    }
    let tokens: Vec<u32> = (0..rows).collect();
    verify_chain(gpu, &tokens);
    gpu.logits(&[0], &mut logits).expect("logits");
    if rows > 1 {
        gpu.logits(&[1], &mut logits).expect("logits");
    }
    let path: Vec<u32> = (0..accepted).collect();
    gpu.commit(&path).expect("commit");
}

/// A backend that is told what is read of its logits, and the log of its device.
fn start(needs: LogitNeeds) -> (GpuBackend<Sim>, std::rc::Rc<std::cell::RefCell<Log>>) {
    let (mut gpu, log) = dir().open_idle();
    gpu.set_needs(needs);
    gpu.set_drafting(true);
    (gpu, log)
}

#[test]
fn a_steady_round_waits_twice_and_allocates_and_binds_nothing() {
    for (needs, draft, waits) in [
        (LogitNeeds::Greedy, true, 2),
        (LogitNeeds::Top(20), true, 2),
        (LogitNeeds::Greedy, false, 1),
        // Whole rows are read where they are asked for: here in two calls.
        (LogitNeeds::Full, true, 3),
    ] {
        let (mut gpu, log) = start(needs);
        prefill(&mut gpu, &[1; 20], 64);
        // Twice on each side of the states: as it is, then recorded.
        (0..4).for_each(|_| round(&mut gpu, draft, 9, 3));
        let (before, syncs) = (log.borrow().clone(), gpu.counters().syncs);
        (0..6).for_each(|_| round(&mut gpu, draft, 9, 3));
        let after = log.borrow().clone();
        assert_eq!(after.allocations, before.allocations, "{needs:?}");
        assert_eq!(after.pins, before.pins, "{needs:?}");
        assert_eq!(
            after.eager.len(),
            before.eager.len(),
            "{needs:?}: everything is launched"
        );
        assert_eq!(after.captured.len(), before.captured.len(), "{needs:?}");
        assert_eq!(gpu.counters().syncs - syncs, 6 * waits, "{needs:?}");
        assert_eq!(after.waits - before.waits, 6 * waits as usize, "{needs:?}");
        // Target and drafter have one append each; inputs come in one copy a stage.
        assert_eq!(after.appends - before.appends, 12, "{needs:?}");
        assert_eq!(
            after.uploads - before.uploads,
            if draft { 18 } else { 12 },
            "{needs:?}"
        );
    }
}

#[test]
fn every_slot_runs_once_as_it_is_is_recorded_once_and_then_launched() {
    let (mut gpu, log) = start(LogitNeeds::Greedy);
    // Chunks of prompts have any length: their commits are never recorded.
    for chunk in [20, 19, 18, 17] {
        prefill(&mut gpu, &vec![1; chunk], 64);
    }
    for i in 0..24 {
        round(&mut gpu, true, [1, 9, 16][i % 3], 1);
    }
    let log = log.borrow();
    let unique = |list: &[(String, _)]| list.iter().cloned().collect::<BTreeSet<_>>().len();
    assert_eq!(unique(&log.captured), log.captured.len(), "recorded once");
    let varying: Vec<_> = log.eager.iter().filter(|(_, slot)| !slot.exact).collect();
    assert_eq!(varying.len(), 8, "commit and context of four chunks: {varying:?}");
    let exact: Vec<_> = log.eager.iter().filter(|(_, slot)| slot.exact).cloned().collect();
    assert_eq!(unique(&exact), exact.len(), "one first run a slot");
    assert!(log.launched.len() > 2 * log.captured.len());
    assert!(log.launched.iter().all(|run| log.captured.contains(run)));
}

#[test]
fn a_recording_that_fails_is_an_error_and_can_be_switched_off() {
    let dir = dir();
    for capture in [true, false] {
        let mut device = Sim::default();
        (device.idle, device.refuse_capture) = (true, true);
        let log = std::rc::Rc::clone(&device.log);
        let options = GpuOptions {
            capture,
            ..GpuOptions::default()
        };
        let mut gpu = dir.try_open(device, &options).expect("opens");
        let mut verify = || {
            let batch = RowBatch {
                tokens: &[1],
                positions: &[0],
                ancestors: &[true],
            };
            gpu.verify(&batch)
        };
        verify().expect("the first run is not recorded");
        let second = verify();
        if capture {
            let text = second.expect_err("the recording fails").to_string();
            assert!(
                text.contains("capture failed") && text.contains("plan target"),
                "{text}"
            );
        } else {
            second.expect("no recording");
            assert!(log.borrow().captured.is_empty());
        }
    }
}

#[test]
fn weights_lie_on_the_device_once() {
    let dir = dir();
    let mut device = Sim::default();
    device.idle = true;
    let log = std::rc::Rc::clone(&device.log);
    let (mut plans, mut last) = (Vec::new(), (0, 0));
    let gpu = GpuBackend::open(device, &dir.path(), &GpuOptions::default(), &mut |p| match p {
        Progress::Plan { stage, .. } => plans.push((*stage).to_owned()),
        Progress::Weights { done, total } => last = (*done, *total),
    })
    .expect("opens");
    assert_eq!(plans.len(), 8, "{plans:?}");
    assert!(last.0 == last.1 && last.0 > 0, "{last:?}");
    let engine = forkcast_engines::engine::read(&dir.path()).expect("engine.json");
    let mut places = BTreeSet::new();
    let (mut once, mut bound) = (0, 0);
    for weight in engine.plans.values().flat_map(|p| &p.weights) {
        bound += weight.data.length;
        if places.insert((weight.data.file.clone(), weight.data.offset)) {
            once += weight.data.length;
        }
    }
    assert!(bound > 2 * once, "{bound} bytes are bound, {once} stored");
    let uploaded = log.borrow().uploaded as u64;
    assert!(
        uploaded <= once + (1 << 20),
        "{uploaded} bytes uploaded for {once} stored"
    );
    assert!(gpu.device().used() as u64 >= once / 2);
}

#[test]
fn caches_that_cannot_grow_stay_in_use() {
    let (mut gpu, log) = start(LogitNeeds::Greedy);
    prefill(&mut gpu, &[1; 100], 64);
    let used = gpu.device().used();
    let allocations = log.borrow().allocations;
    gpu.device_mut().room = Some(used + 300_000);
    let error = gpu.reserve(200).expect_err("no room").to_string();
    assert!(error.contains("cannot be had"), "{error}");
    assert!(log.borrow().allocations > allocations, "some were had");
    assert_eq!(gpu.device().used(), used, "and went back");
    round(&mut gpu, true, 9, 2);
    gpu.device_mut().room = None;
    gpu.reserve(200).expect("room");
    round(&mut gpu, true, 9, 2);
    assert_eq!(gpu.committed(), 104);
}
