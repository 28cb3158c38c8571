//! Acceptance lengths of the trained pairs by the protocol of `tests/models/README.md`:
//! `cargo run --release -p forkcast-tests --example tau [-- PROMPTS]`.

use forkcast::decode::Method;
use forkcast_tests::bundles::Bundle;
use forkcast_tests::protocol::{Way, mean, tau};

const HYBRID: &str = "tiny-qwen3.5";
const DENSE: &str = "tiny-qwen3";

fn main() {
    let prompts = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10);
    let way = |method, budget| Way { method, budget };
    let rows = [
        (HYBRID, "tiny-qwen3.5-dflash", way(Method::Chain, 15)),
        (HYBRID, "tiny-qwen3.5-dflash", way(Method::Ddtree, 64)),
        (HYBRID, "tiny-qwen3.5-dflash", way(Method::Ddtree, 256)),
        (HYBRID, "tiny-qwen3.5-mfd", way(Method::Mfd, 64)),
        (HYBRID, "tiny-qwen3.5-mfd", way(Method::Mfd, 256)),
        (HYBRID, "tiny-qwen3.5-mfd", way(Method::Ddtree, 256)),
        (DENSE, "tiny-qwen3-dflash", way(Method::Chain, 15)),
        (DENSE, "tiny-qwen3-dflash-long", way(Method::Chain, 15)),
        (DENSE, "tiny-qwen3-mdraft", way(Method::Chain, 15)),
        (DENSE, "tiny-qwen3-dflash-long", way(Method::Ddtree, 256)),
        (DENSE, "tiny-qwen3-mdraft", way(Method::Ddtree, 256)),
    ];
    for temperature in [0.0, 1.0] {
        println!("\nT = {temperature}, {prompts} prompts a domain\n");
        println!(
            "| drafter | method | budget | a | b | c | d | e | mean |\n|---|---|---|---|---|---|---|---|---|"
        );
        for (target, drafter, way) in rows {
            let bundle = Bundle::trained(target, drafter);
            let mut engine = bundle.open();
            let row = tau(&mut engine, way, temperature, prompts);
            let cells: Vec<String> = row
                .iter()
                .chain([&mean(&row)])
                .map(|t| format!("{t:.2}"))
                .collect();
            println!(
                "| {drafter} | {} | {} | {} |",
                way.method,
                way.budget,
                cells.join(" | ")
            );
        }
    }
}
