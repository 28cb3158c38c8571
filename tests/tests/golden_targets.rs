//! Targets against the `transformers` implementation: logits, hidden states, taps and states.

use forkcast_engines::backend::Backend;
use forkcast_tests::bundles::{Bundle, prefill, verify_chain};
use forkcast_tests::paths;
use forkcast_tests::tensors::{Golden, assert_close};

/// (checkpoint, bound of logits, bound of hidden states and taps). `qwen.md` 7 asks for 1e-4 untied and 1e-3 tied
/// logits, and 1e-4 for hidden states. The tied hybrids amplify rounding (their gated norm divides by an RMS of down to
/// 6e-6): float32 `transformers` itself is up to 3.5e-4 away from the float64 goldens there, forkcast 1.6e-4 row by row
/// and 3.1e-4 in one pass of 300 rows, so 1e-4 cannot be asked of float32 arithmetic on these two.
const RANDOM: [(&str, f32, f32); 6] = [
    ("hybrid_ratio1_untied_f32", 1e-4, 1e-4),
    ("hybrid_ratio2_tied_mixed", 1e-3, 4e-4),
    ("hybrid_ratio3_untied_bf16", 1e-4, 1e-4),
    ("hybrid_composite_mixed", 1e-3, 4e-4),
    ("dense_untied_f32", 1e-4, 1e-4),
    ("dense_tied_bf16_flat", 1e-3, 1e-4),
];
const HIDDEN: f32 = 1e-4;
const STATE: f32 = 1e-4;

/// Feeds `ids` in chunks; returns logits of `rows`, hidden states and taps of all rows.
fn run(
    engine: &mut dyn Backend,
    ids: &[u32],
    chunk: usize,
    rows: &[usize],
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let (mut logits, mut hidden, mut taps) = (Vec::new(), Vec::new(), Vec::new());
    let (mut part, mut h, mut t) = (Vec::new(), Vec::new(), Vec::new());
    for (i, tokens) in ids.chunks(chunk).enumerate() {
        verify_chain(engine, tokens);
        let start = i * chunk;
        let inside: Vec<u32> = rows
            .iter()
            .filter(|r| (start..start + tokens.len()).contains(r))
            .map(|r| (r - start) as u32)
            .collect();
        if !inside.is_empty() {
            engine.logits(&inside, &mut part).expect("logits");
            logits.extend_from_slice(&part);
        }
        engine.features(&mut h, &mut t).expect("features");
        hidden.extend_from_slice(&h);
        taps.extend_from_slice(&t);
        let path: Vec<u32> = (0..tokens.len() as u32).collect();
        engine.commit(&path).expect("commit");
    }
    (logits, hidden, taps)
}

#[test]
fn random_checkpoints_of_every_shape_and_chunking() {
    for (name, bound, inner) in RANDOM {
        let folder = paths::golden(name);
        let golden = Golden::read(&folder.join("golden.safetensors"));
        let bundle = Bundle::export(&folder, None, Some(golden.indices("tap_layers")));
        let mut engine = bundle.open();
        let ids = golden.ids("input_ids");
        let rows = golden.indices("logit_rows");
        for chunk in [1, 7, 64, 300] {
            engine.reset().expect("reset");
            let (logits, hidden, taps) = run(&mut engine, &ids, chunk, &rows);
            let what = |part: &str| format!("{name}, chunks of {chunk}, {part}");
            let worst = assert_close(&what("logits"), &logits, &golden.f32("logits"), bound);
            assert_close(&what("hidden"), &hidden, &golden.f32("hidden"), inner);
            let width = taps.len() / ids.len();
            let picked: Vec<f32> = rows
                .iter()
                .flat_map(|r| taps[r * width..(r + 1) * width].to_vec())
                .collect();
            assert_close(&what("taps"), &picked, &golden.f32("taps"), inner);
            check_states(&mut engine, &golden, &what("states"));
            println!("{name} chunk {chunk}: logits differ by {worst:.1e}");
        }
    }
}

/// Conv and recurrent states after all tokens, in layer order (conv, then recurrent, per layer).
fn check_states(engine: &mut dyn Backend, golden: &Golden, what: &str) {
    if !golden.has("recurrent_state") {
        return;
    }
    let states = engine.snapshot().expect("snapshot").states;
    let conv: Vec<f32> = states.iter().step_by(2).flatten().copied().collect();
    let recurrent: Vec<f32> = states.iter().skip(1).step_by(2).flatten().copied().collect();
    assert_close(
        &format!("{what}: recurrent"),
        &recurrent,
        &golden.f32("recurrent_state"),
        STATE,
    );
    assert_close(&format!("{what}: conv"), &conv, &golden.f32("conv_state"), STATE);
}

#[test]
fn published_goldens() {
    for name in ["qwen3_5_text_fp32", "qwen3_dense_fp32"] {
        let folder = paths::golden(name);
        let golden = Golden::read(&folder.join("golden.safetensors"));
        let mut engine = Bundle::export(&folder, None, None).open();
        for (ids, logits) in [("input_ids", "logits"), ("long_input_ids", "long_logits")] {
            let ids = golden.ids(ids);
            let rows: Vec<usize> = (0..ids.len()).collect();
            for chunk in [1, 16, 150] {
                engine.reset().expect("reset");
                let (found, _, _) = run(&mut engine, &ids, chunk, &rows);
                assert_close(
                    &format!("{name} {logits} chunk {chunk}"),
                    &found,
                    &golden.f32(logits),
                    1e-4,
                );
            }
        }
    }
}

#[test]
fn trained_checkpoints() {
    for name in ["tiny-qwen3.5", "tiny-qwen3"] {
        let golden = Golden::read(&paths::repository().join(format!("tests/golden/{name}.safetensors")));
        let bundle = Bundle::export(&paths::model(name), None, Some(golden.indices("tap_layers")));
        let mut engine = bundle.open();
        for prompt in ["a", "c", "e"] {
            let key = |part: &str| format!("{prompt}.{part}");
            let ids = golden.ids(&key("ids"));
            let rows = golden.indices(&key("logit_rows"));
            for chunk in [5, 64] {
                engine.reset().expect("reset");
                let (logits, hidden, taps) = run(&mut engine, &ids, chunk, &rows);
                let what = format!("{name} {prompt} chunk {chunk}");
                assert_close(
                    &format!("{what} logits"),
                    &logits,
                    &golden.f32(&key("logits")),
                    1e-3,
                );
                let pick = |all: &[f32], rows: &[usize]| -> Vec<f32> {
                    let width = all.len() / ids.len();
                    rows.iter()
                        .flat_map(|r| all[r * width..(r + 1) * width].to_vec())
                        .collect()
                };
                assert_close(
                    &format!("{what} hidden"),
                    &pick(&hidden, &rows),
                    &golden.f32(&key("hidden")),
                    1e-3,
                );
                let tap_rows = golden.indices(&key("tap_rows"));
                assert_close(
                    &format!("{what} taps"),
                    &pick(&taps, &tap_rows),
                    &golden.f32(&key("taps")),
                    1e-3,
                );
            }
        }
    }
}

#[test]
fn prompts_of_every_length_up_to_three_hundred() {
    let folder = paths::golden("hybrid_ratio3_untied_bf16");
    let golden = Golden::read(&folder.join("golden.safetensors"));
    let mut engine = Bundle::export(&folder, None, None).open();
    let ids = golden.ids("input_ids");
    let hidden = golden.f32("hidden");
    let width = hidden.len() / ids.len();
    let (mut h, mut t) = (Vec::new(), Vec::new());
    for n in 1..=300 {
        engine.reset().expect("reset");
        prefill(&mut engine, &ids[..n - 1], 64);
        verify_chain(&mut engine, &ids[n - 1..n]);
        engine.features(&mut h, &mut t).expect("features");
        assert_close(
            &format!("prompt of {n}"),
            &h,
            &hidden[(n - 1) * width..n * width],
            HIDDEN,
        );
    }
}
