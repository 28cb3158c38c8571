//! `BlockMatMul`: kernel, kernel inside ONNX Runtime, and body (ONNX Runtime's `MatMulNBits`) against the float64 reference.

mod common;

use common::{
    assert_close, rng,
    session::{Data, Take, one_node, run, session},
    uniform,
};
use forkcast_plugins::args::{BLOCK, BlockMatMulArgs};
use forkcast_plugins::kernels::{Parallel, Serial, block_matmul};
use forkcast_plugins::onnx::{attr_i, proto::AttributeProto};
use forkcast_plugins::{bodies, ops::fused, reference::fused as reference};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

/// Relative to the largest result; sums are of up to 3,072 products.
const BOUND: f64 = 2e-6;

/// Inputs of a call.
struct Call {
    rows: usize,
    depth: usize,
    columns: usize,
    bits: usize,
    x: Vec<f32>,
    w: Vec<u8>,
    scales: Vec<f32>,
}

impl Call {
    fn random(rng: &mut ChaCha8Rng, [rows, depth, columns, bits]: [usize; 4]) -> Self {
        let blocks = columns * depth / BLOCK;
        let mut w = vec![0; blocks * BLOCK * bits / 8];
        rng.fill_bytes(&mut w);
        Self {
            rows,
            depth,
            columns,
            bits,
            x: uniform(rng, rows * depth),
            w,
            // Both signs, as four bits have them.
            scales: uniform(rng, blocks).iter().map(|s| s / 64.0).collect(),
        }
    }

    fn args(&self) -> BlockMatMulArgs<'_> {
        BlockMatMulArgs {
            rows: self.rows,
            depth: self.depth,
            columns: self.columns,
            bits: self.bits,
            x: &self.x,
            w: &self.w,
            scales: &self.scales,
        }
    }

    fn product(&self) -> Vec<f32> {
        let mut y = vec![f32::NAN; self.rows * self.columns];
        block_matmul(&self.args(), &mut y, &Serial).expect("a fit");
        y
    }

    fn feeds(&self) -> [(&'static str, Data); 3] {
        let blocks = self.depth / BLOCK;
        let w = vec![self.columns, blocks, BLOCK * self.bits / 8];
        [
            ("x", Data::F32(vec![self.rows, self.depth], self.x.clone())),
            ("w", Data::U8(w, self.w.clone())),
            (
                "scales",
                Data::F32(vec![self.columns, blocks], self.scales.clone()),
            ),
        ]
    }

    fn attributes(&self) -> Vec<AttributeProto> {
        let sizes = [("K", self.depth), ("N", self.columns), ("bits", self.bits)];
        sizes.map(|(name, size)| attr_i(name, size as i64)).to_vec()
    }
}

const SIZES: [[usize; 3]; 9] = [
    [0, 32, 4],
    [1, 32, 1],
    [1, 1024, 257],
    [2, 96, 7],
    [3, 2080, 18],
    [4, 256, 64],
    [5, 64, 300],
    [13, 3072, 33],
    [131, 1056, 21],
];

#[test]
fn kernel_and_body_agree_with_the_reference() {
    let mut rng = rng(111);
    for size in SIZES {
        for bits in [4, 8] {
            let call = Call::random(&mut rng, [size[0], size[1], size[2], bits]);
            let expected = reference::block_matmul(&call.args());
            assert_close(
                &format!("{size:?}, {bits} bits"),
                &call.product(),
                &expected,
                BOUND,
            );
            if call.rows == 0 {
                continue;
            }
            for take in [Take::Kernel, Take::Body] {
                let functions = bodies::fused::functions();
                let model = one_node(
                    fused::BLOCK_MAT_MUL,
                    &call.feeds(),
                    &[("y", 2)],
                    call.attributes(),
                    functions,
                );
                let mut session = session(&model, take).expect("the model loads");
                let found = run(&mut session, &call.feeds()).expect("a run");
                let label = format!("{size:?}, {bits} bits by {take:?}");
                assert_close(&label, &found[0], &expected, BOUND);
            }
        }
    }
}

/// Pieces in another order, so that one that leans on another shows.
struct Backwards;

impl Parallel for Backwards {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).rev().for_each(task);
    }
}

#[test]
fn a_row_gives_the_same_bits_in_any_company() {
    let mut rng = rng(112);
    for bits in [4, 8] {
        let call = Call::random(&mut rng, [70, 2080, 261, bits]);
        let mut together = vec![f32::NAN; call.rows * call.columns];
        block_matmul(&call.args(), &mut together, &Backwards).expect("a fit");
        for rows in [1, 2, 3, 4, 5, 6, 9, 13] {
            for first in (0..call.rows - rows).step_by(11) {
                let part = BlockMatMulArgs {
                    rows,
                    x: &call.x[first * call.depth..][..rows * call.depth],
                    ..call.args()
                };
                let mut y = vec![f32::NAN; rows * call.columns];
                block_matmul(&part, &mut y, &Serial).expect("a fit");
                assert_eq!(
                    y,
                    together[first * call.columns..][..y.len()],
                    "{rows} rows from {first}"
                );
            }
        }
    }
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let mut rng = rng(113);
    let good = Call::random(&mut rng, [2, 64, 8, 4]);
    let refused = |args: BlockMatMulArgs<'_>, part: &str| {
        let error = block_matmul(&args, &mut [0.0; 16], &Serial).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(
        BlockMatMulArgs {
            bits: 5,
            ..good.args()
        },
        "bits is neither",
    );
    refused(
        BlockMatMulArgs {
            depth: 48,
            ..good.args()
        },
        "no multiple of 32",
    );
    refused(
        BlockMatMulArgs {
            rows: 3,
            ..good.args()
        },
        "x has 128 elements",
    );
    refused(
        BlockMatMulArgs {
            bits: 8,
            ..good.args()
        },
        "w has 256 elements",
    );
    refused(
        BlockMatMulArgs {
            scales: &[],
            ..good.args()
        },
        "scales has 0 elements",
    );
    let model = one_node(
        fused::BLOCK_MAT_MUL,
        &Call::random(&mut rng, [2, 64, 8, 8]).feeds(),
        &[("y", 2)],
        good.attributes(),
        vec![],
    );
    let mut session = session(&model, Take::Kernel).expect("the model loads");
    let feeds = Call::random(&mut rng, [2, 64, 8, 8]).feeds();
    let said = run(&mut session, &feeds)
        .expect_err("4 bits in bytes")
        .to_string();
    assert!(said.contains("input w has shape [8, 2, 32]"), "{said}");
}
