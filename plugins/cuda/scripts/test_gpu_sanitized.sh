#!/bin/sh
# Runs the kernel tests, on 40 trees each, under compute-sanitizer. Without a GPU it names what was not run and exits 0, or 3 when
# FORKCAST_REQUIRE_GPU=1.
# Usage: scripts/test_gpu_sanitized.sh BUILD_DIR DEVICE_TEST [FILTER]
set -eu

build=${1:?usage: test_gpu_sanitized.sh BUILD_DIR DEVICE_TEST [FILTER]}
test=${2:?usage: test_gpu_sanitized.sh BUILD_DIR DEVICE_TEST [FILTER]}
filter=${3:-}
tools="memcheck racecheck synccheck"

if ! "$test" --gpu; then
    echo "skipped: $tools of the kernel tests were NOT run"
    [ "${FORKCAST_REQUIRE_GPU:-}" != 1 ] || exit 3
    exit 0
fi
sanitizer=${COMPUTE_SANITIZER:-$("$(dirname "$0")/toolchain.sh" "$build" sanitizer)/bin/compute-sanitizer}
export FORKCAST_TREES="${FORKCAST_TREES:-40}"
for tool in $tools; do
    echo "$tool"
    "$sanitizer" --tool "$tool" --error-exitcode 1 "$test" "$filter"
done
