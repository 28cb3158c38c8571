//! What does not go together is refused by name, and another drafter of the same shape is taken.

use crate::device::Sim;
use crate::engine::EngineDir;
use forkcast_engines::backend::{Backend, Candidates, RowBatch};
use forkcast_engines::engine::WeightMode;
use forkcast_engines::gpu::{self, GpuError, GpuOptions};
use forkcast_tests::bundles::{Bundle, prefill};
use forkcast_tests::paths;

fn dir() -> EngineDir {
    EngineDir::trained("tiny-qwen3.5", "tiny-qwen3.5-dflash")
}

#[test]
fn an_engine_that_does_not_fit_its_parts_is_refused_by_name() {
    let dir = dir();
    let idle = || {
        let mut device = Sim::default();
        device.idle = true;
        device
    };
    let open = |options: &GpuOptions| dir.try_open(idle(), options).expect_err("refused");
    // Another model.
    let other = Bundle::trained("tiny-qwen3", "tiny-qwen3-dflash");
    let error = open(&GpuOptions {
        bundle: Some(other.path()),
        ..GpuOptions::default()
    });
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(error.hint().is_some());
    // A drafter of another shape: eight modes instead of one.
    let other = Bundle::trained("tiny-qwen3.5", "tiny-qwen3.5-mfd");
    let error = open(&GpuOptions {
        drafter: Some(other.path()),
        ..GpuOptions::default()
    });
    assert!(error.to_string().contains("modes"), "{error}");
    let error = open(&GpuOptions {
        max_context: Some(513),
        ..GpuOptions::default()
    });
    assert_eq!(
        (error.exit_code(), error.to_string().contains("2..=512")),
        (2, true),
        "{error}"
    );
    // A plan that was changed.
    let plan = dir.path().join("target.plan");
    let mut bytes = std::fs::read(&plan).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&plan, bytes).expect("written");
    let error = open(&GpuOptions::default());
    assert!(
        matches!(&error, GpuError::Corrupt { path, .. } if path.ends_with("target.plan")),
        "{error}"
    );
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn without_a_gpu_engine_or_a_fitting_gpu_the_real_device_is_refused() {
    let dir = dir();
    let opened = gpu::open(&dir.path(), &GpuOptions::default(), &mut |_| ());
    let error = opened.err().expect("these plans are no TensorRT plans");
    // 5 only where there is a GPU of the recipe's kind, and TensorRT reads the file.
    assert!([3, 5].contains(&error.exit_code()), "{error}");
    assert!(error.hint().is_some_and(|h| !h.is_empty()), "{error}");
    println!("{error}\nhint: {}", error.hint().unwrap_or_default());
    let missing = gpu::open(&paths::model("tiny-qwen3"), &GpuOptions::default(), &mut |_| ());
    let error = missing.err().expect("no engine");
    assert!(
        error.exit_code() == 2 && error.to_string().contains("engine.json"),
        "{error}"
    );
}

#[test]
fn a_drafter_of_the_same_shape_takes_the_place_of_another() {
    let dir = EngineDir::trained("tiny-qwen3", "tiny-qwen3-dflash");
    let tokens: Vec<u32> = (0..40).map(|i| i * 31 % 2000).collect();
    let answer = |engine: &mut dyn Backend| {
        let mut found = Candidates::default();
        engine.set_drafting(true);
        prefill(engine, &tokens, 64);
        engine.draft(9).expect("draft");
        engine.candidates(0..1, 1, &mut found).expect("candidates");
        found.ids
    };
    let own = answer(&mut dir.open());
    // The second is stored as float32, so its projections lie one by one instead of in stacks.
    for name in ["tiny-qwen3-dflash-long", "tiny-qwen3-mdraft"] {
        let other = Bundle::trained("tiny-qwen3", name);
        let options = GpuOptions {
            drafter: Some(other.path()),
            ..GpuOptions::default()
        };
        let mut gpu = dir
            .try_open(Sim::default(), &options)
            .unwrap_or_else(|e| panic!("{e}"));
        let found = answer(&mut gpu);
        assert_ne!(own, found, "{name}: the drafters differ");
        assert_eq!(
            found,
            answer(&mut other.open()),
            "{name}: and the other one is the other one"
        );
    }
}

#[test]
fn a_drafter_that_computes_something_else_is_refused() {
    // The same checkpoint, but its sliding window is another one.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = paths::model("tiny-qwen3-dflash");
    let config = std::fs::read_to_string(source.join("config.json")).expect("config");
    let other = config.replace("\"sliding_window\": 128", "\"sliding_window\": 64");
    assert_ne!(config, other);
    std::fs::write(folder.path().join("config.json"), other).expect("written");
    std::fs::copy(
        source.join("model.safetensors"),
        folder.path().join("model.safetensors"),
    )
    .expect("weights");
    let window = Bundle::export(&paths::model("tiny-qwen3"), Some(folder.path()), None);
    let options = GpuOptions {
        drafter: Some(window.path()),
        ..GpuOptions::default()
    };
    for (weights, needle) in [
        (WeightMode::Inputs, "computes something else"),
        (WeightMode::Embedded, "embedded"),
    ] {
        let dir = EngineDir::build(Bundle::trained("tiny-qwen3", "tiny-qwen3-dflash"), weights);
        let error = dir.try_open(Sim::default(), &options).expect_err("refused");
        assert!(error.to_string().contains(needle), "{error}");
        assert_eq!(error.exit_code(), 3);
    }
}

#[test]
fn what_a_backend_refuses_leaves_the_stream_as_it_was() {
    let (mut gpu, _) = dir().open_idle();
    gpu.set_drafting(true);
    prefill(&mut gpu, &[1; 10], 64);
    let mut logits = Vec::new();
    let row = |n: usize| (vec![1u32; n], vec![10i64; n]);
    let mut refuse = |n: usize, sees: &dyn Fn(usize, usize) -> bool, needle: &str| {
        let (tokens, positions) = row(n);
        let ancestors: Vec<bool> = (0..n * n).map(|i| sees(i / n, i % n)).collect();
        let batch = RowBatch {
            tokens: &tokens,
            positions: &positions,
            ancestors: &ancestors,
        };
        let error = gpu.verify(&batch).expect_err(needle).to_string();
        assert!(error.contains(needle), "{error}");
        assert!(gpu.logits(&[0], &mut logits).is_err(), "no rows after a refusal");
        assert_eq!(gpu.committed(), 10);
    };
    refuse(129, &|i, j| j <= i, "passes of 128");
    refuse(40, &|i, j| j == i || j == 0, "largest bucket");
    // A path of 17 rows beside a second leaf.
    refuse(18, &|i, j| j == i || (j < i && i < 17) || j == 0, "at most 16");
    refuse(2, &|i, j| i == 1 && j == 0, "see itself");
    assert!(gpu.commit(&[0]).is_err(), "nothing was verified");
    assert!(gpu.draft(1).is_ok());
    assert!(gpu.draft(5000).is_err());
}
