//! `cargo run -p forkcast-exporter --example export -- OUT DTYPE TARGET [DRAFTER] [--copy] [--from BUNDLE]`

use forkcast_engines::manifest::Dtype;
use forkcast_exporter::{ExportOptions, export};

fn main() -> std::process::ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let copy_weights = args
        .iter()
        .position(|a| a == "--copy")
        .map(|i| args.remove(i))
        .is_some();
    let weights_from = args.iter().position(|a| a == "--from").map(|i| {
        args.remove(i);
        args.remove(i).into()
    });
    let dtype = match args[1].as_str() {
        "f32" => Dtype::F32,
        "f16" => Dtype::F16,
        _ => Dtype::Bf16,
    };
    let options = ExportOptions {
        target: args[2].clone(),
        drafter: args.get(3).cloned(),
        out: args[0].clone().into(),
        dtype,
        copy_weights,
        hash_weights: false,
        taps: None,
        weights_from,
    };
    let start = std::time::Instant::now();
    let result = export(&options, &mut |_| {});
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .unwrap_or_default();
    match result {
        Ok(s) => {
            println!(
                "{} owned {} referenced {} linked {:?} notes {:?} {:.2} s {peak}",
                s.out.display(),
                s.owned_bytes,
                s.referenced_bytes,
                s.linked,
                s.notes,
                start.elapsed().as_secs_f64()
            );
            std::process::ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            if let Some(hint) = e.hint() {
                eprintln!("hint: {hint}");
            }
            std::process::ExitCode::from(e.exit_code())
        }
    }
}
