#!/usr/bin/env bash
# The long run: libFuzzer on every target, one after another, FUZZ_SECONDS each (all of them take half an hour without).
# FUZZ_TARGETS names some of them. Findings lie in build/fuzz/findings; the committed corpus is only read.
# Coverage needs flags that a stable compiler takes with RUSTC_BOOTSTRAP only; nothing of this build is ever shipped.
set -euo pipefail

cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
out=$root/build/fuzz
targets=(${FUZZ_TARGETS:-$(ls corpus)})
seconds=${FUZZ_SECONDS:-$((1800 / ${#targets[@]} + 1))}

export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
host=$(rustc -vV | sed -n 's/^host: //p')
# An explicit target keeps the flags away from build scripts.
"${CARGO:-cargo}" build --quiet --locked --release --target "$host" --target-dir "$out/target" \
    --manifest-path libfuzzer/Cargo.toml

mkdir -p "$out/findings"
failed=0
for target in "${targets[@]}"; do
    mkdir -p "$out/corpus/$target"
    log=$out/$target.log
    if FUZZ_TARGET=$target "$out/target/$host/release/fuzz" -max_total_time="$seconds" -max_len=16384 -timeout=10 \
        -rss_limit_mb=3072 -print_final_stats=1 -artifact_prefix="$out/findings/$target-" \
        "$out/corpus/$target" "corpus/$target" >"$log" 2>&1; then
        verdict=nothing
    else
        verdict=FOUND
        failed=1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    peak=$(sed -n 's/^stat::peak_rss_mb: //p' "$log")
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
    echo "$target: $verdict in ${runs:-?} runs of ${seconds} s, ${coverage:-cov: ?}, peak ${peak:-?} MB"
done
exit $failed
