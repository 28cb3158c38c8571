//! Every instruction set of this machine against the portable one.

use super::{Isa, Task, dispatch_at, supported};
use crate::kernels::{math, parallel::Serial};
use std::sync::Mutex;

/// exp of every number in a list.
struct Exp {
    x: Vec<f32>,
    y: Mutex<Vec<f32>>,
}

impl Task for Exp {
    fn scratch(&self, lanes: usize) -> usize {
        2 * lanes
    }

    fn work(&self) -> usize {
        0
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, _index: usize, scratch: &mut [f32]) {
        let mut y = self.y.lock().expect("no panic");
        for x in self.x.chunks(I::LANES) {
            scratch[..x.len()].copy_from_slice(x);
            let e = math::exp(isa, isa.load(scratch));
            isa.store(scratch, e);
            y.extend_from_slice(&scratch[..x.len()]);
        }
    }
}

#[test]
fn exp_is_within_two_ulp_of_float64() {
    let mut x: Vec<f32> = (0..200_000)
        .map(|i| -87.0 + 175.0 * i as f32 / 200_000.0)
        .collect();
    x.extend([0.0, -0.0, -1e-20, 1e-7, 88.0, -87.0]);
    for level in supported() {
        let task = Exp {
            x: x.clone(),
            y: Mutex::default(),
        };
        dispatch_at(level, &Serial, 1, &task);
        let y = task.y.into_inner().expect("no panic");
        for (x, y) in x.iter().zip(y) {
            let truth = f64::from(*x).exp();
            let error = (f64::from(y) - truth).abs() / truth;
            assert!(
                error < 2.5e-7,
                "{level:?}: exp({x}) = {y}, relative error {error:.1e}"
            );
        }
    }
}

#[test]
fn exp_saturates() {
    for level in supported() {
        let task = Exp {
            x: vec![-87.4, -1e30, f32::MIN, f32::NEG_INFINITY, 1e30],
            y: Mutex::default(),
        };
        dispatch_at(level, &Serial, 1, &task);
        let y = task.y.into_inner().expect("no panic");
        assert_eq!(y[..4], [0.0; 4], "{level:?}");
        assert!(y[4].is_finite() && y[4] > 1e38, "{level:?}");
    }
}

/// C = A B or A^T B of random sizes, odd ones included.
struct Product {
    size: math::Size,
    trans: bool,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Mutex<Vec<f32>>,
}

impl Task for Product {
    fn scratch(&self, _lanes: usize) -> usize {
        self.size.depth * 64
    }

    fn work(&self) -> usize {
        0
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, _index: usize, scratch: &mut [f32]) {
        let math::Size { rows, columns, depth } = self.size;
        let a = math::Mat {
            data: &self.a,
            stride: if self.trans { rows } else { depth },
        };
        let b = math::Mat {
            data: &self.b,
            stride: columns,
        };
        let mut c = self.c.lock().expect("no panic");
        if self.trans {
            math::gemm_transposed(isa, self.size, a, b, &mut c, columns, scratch);
        } else {
            math::gemm(isa, self.size, a, b, &mut c, columns);
        }
    }
}

#[test]
fn matrix_products_agree_with_float64() {
    let value = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0;
    for rows in [1, 2, 3, 4, 7, 16, 33] {
        for columns in [1, 7, 8, 15, 16, 24, 40, 64, 100] {
            for depth in [1, 5, 64] {
                for trans in [false, true] {
                    let a: Vec<f32> = (0..rows * depth).map(value).collect();
                    let b: Vec<f32> = (0..depth * columns).map(|i| value(i + 31)).collect();
                    for level in supported() {
                        let task = Product {
                            size: math::Size { rows, columns, depth },
                            trans,
                            a: a.clone(),
                            b: b.clone(),
                            c: Mutex::new(vec![1.0; rows * columns]),
                        };
                        dispatch_at(level, &Serial, 1, &task);
                        let c = task.c.into_inner().expect("no panic");
                        for (at, c) in c.iter().enumerate() {
                            let (row, column) = (at / columns, at % columns);
                            let product = |p: usize| {
                                let a = if trans {
                                    a[p * rows + row]
                                } else {
                                    a[row * depth + p]
                                };
                                f64::from(a) * f64::from(b[p * columns + column])
                            };
                            let truth = 1.0 + (0..depth).map(product).sum::<f64>();
                            assert!(
                                (f64::from(*c) - truth).abs() < 2e-5,
                                "{level:?} {rows}x{columns}x{depth} trans {trans}: {c} {truth}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// What 64 stored bytes stand for, as signed bytes and as pairs of four bits; and sums of vectors.
struct Stored {
    bytes: Vec<u8>,
    scale: f32,
    found: Mutex<[Vec<f32>; 3]>,
}

impl Task for Stored {
    fn scratch(&self, lanes: usize) -> usize {
        lanes
    }

    fn work(&self) -> usize {
        0
    }

    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, _index: usize, scratch: &mut [f32]) {
        let mut found = self.found.lock().expect("no panic");
        for bytes in self.bytes.chunks(I::LANES) {
            isa.store(scratch, isa.bytes(bytes));
            found[0].extend_from_slice(scratch);
        }
        for pairs in self.bytes.chunks(I::LANES / 2) {
            isa.store(scratch, isa.nibbles(pairs, isa.table(self.scale)));
            found[1].extend_from_slice(scratch);
        }
        let mut four = [isa.splat(0.0); 4];
        for (i, vector) in four.iter_mut().enumerate() {
            for (lane, x) in scratch.iter_mut().enumerate() {
                *x = (1 + i * 100 + lane) as f32;
            }
            *vector = isa.load(scratch);
        }
        found[2].extend(isa.sums(four));
    }
}

#[test]
fn stored_numbers_are_read_alike() {
    let bytes: Vec<u8> = (0..64u32).map(|i| (i * 167 + 90) as u8).collect();
    let (scale, lanes) = (-0.37f32, |lanes: usize| (lanes * (lanes + 1) / 2) as f32);
    for level in supported() {
        let task = Stored {
            bytes: bytes.clone(),
            scale,
            found: Mutex::default(),
        };
        dispatch_at(level, &Serial, 1, &task);
        let [whole, halves, sums] = task.found.into_inner().expect("no panic");
        let expected: Vec<f32> = bytes.iter().map(|b| f32::from(b.cast_signed())).collect();
        assert_eq!(whole, expected, "{level:?}");
        let number = |q: u8| scale * (f32::from(q) - 8.0);
        let expected: Vec<f32> = bytes
            .iter()
            .flat_map(|b| [number(b & 15), number(b >> 4)])
            .collect();
        assert_eq!(halves, expected, "{level:?}");
        let count = if level.name() == "avx512" { 16 } else { 8 };
        let expected: Vec<f32> = (0..4).map(|i| lanes(count) + (100 * i * count) as f32).collect();
        assert_eq!(sums, expected, "{level:?}");
    }
}
