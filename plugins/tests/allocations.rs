//! In a steady state the kernels allocate nothing.

mod common;

use common::{
    Tree,
    cases::{AttentionCase, ConvCase, DeltaCase, Regime, UpdateCase},
    rng,
};
use forkcast_plugins::kernels::{self, DeltaOutputs, Serial, Workspace};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe by nature")]
// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(mut call: impl FnMut()) -> usize {
    call();
    let before = COUNT.get();
    call();
    COUNT.get() - before
}

#[test]
fn a_second_call_allocates_nothing() {
    let mut rng = rng(60);
    let mut workspace = Workspace::default();
    for tree in [Tree::chain(1), Tree::random(&mut rng, 90, 12), Tree::chain(150)] {
        let case = AttentionCase::new(&mut rng, &tree, (4, 2), 32, (70, 70), 0);
        let mut o = vec![0.0; case.q.len()];
        let mut run =
            || kernels::tree_attention(&case.args(), &mut o, &mut workspace, &Serial).expect("a fit");
        assert_eq!(allocations(&mut run), 0, "TreeAttention");

        let case = ConvCase::new(&mut rng, &tree, 40, 4);
        let mut y = vec![0.0; case.x.len()];
        let mut run =
            || kernels::tree_causal_conv(&case.args(), &mut y, &mut workspace, &Serial).expect("a fit");
        assert_eq!(allocations(&mut run), 0, "TreeCausalConv");

        let case = DeltaCase::new(&mut rng, &tree, (1, 2), (16, 16), Regime::Random);
        let mut found = case.kernel();
        let run = || {
            let out = DeltaOutputs {
                o: &mut found.o,
                u: &mut found.u,
                gates: &mut found.gates,
            };
            kernels::tree_delta_rule(&case.args(), out, &mut workspace, &Serial).expect("a fit");
        };
        assert_eq!(allocations(run), 0, "TreeDeltaRule");

        let update = UpdateCase::new(&case, &found, &tree.path(tree.rows() - 1));
        let mut state = vec![0.0; case.state.len()];
        let run = || kernels::delta_branch_update(&update.args(), &mut state, &Serial).expect("a fit");
        assert_eq!(allocations(run), 0, "DeltaBranchUpdate");
    }
}
