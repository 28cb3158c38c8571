//! Makes a checkpoint with the shapes of a published model, all zeros, that takes no room on disk:
//! `cargo run -p forkcast-exporter --example sparse_checkpoint -- NAME DIR`

#[allow(dead_code, reason = "the tests use more of these modules")]
#[path = "../tests/export/checkpoints.rs"]
mod checkpoints;
#[allow(dead_code, reason = "the tests use more of these modules")]
#[path = "../tests/export/configs.rs"]
mod configs;
#[path = "../tests/export/sparse.rs"]
mod sparse;

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [name, dir] if sparse::NAMES.contains(&name.as_str()) => {
            sparse::write(std::path::Path::new(dir), name);
            std::process::ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "usage: sparse_checkpoint NAME DIR, NAME one of {:?}",
                sparse::NAMES
            );
            std::process::ExitCode::from(2)
        }
    }
}
