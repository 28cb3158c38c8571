#!/bin/sh
# Prints the folder of the TensorRT 11 headers: $TENSORRT_INCLUDE if set (an installed SDK), otherwise those that ship
# inside the crate trtx-sys, which cargo fetches and locates. Its headers are checked against trt_headers.sha256.
# Usage: scripts/trt_headers.sh BUILD_DIR
set -eu

build=${1:?usage: trt_headers.sh BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)

if [ -n "${TENSORRT_INCLUDE:-}" ]; then
    [ -f "$TENSORRT_INCLUDE/NvInfer.h" ] || { echo "trt_headers.sh: no NvInfer.h in $TENSORRT_INCLUDE" >&2; exit 1; }
    echo "$TENSORRT_INCLUDE"
    exit 0
fi

scratch=$build/trt-headers
mkdir -p "$scratch"
cat >"$scratch/Cargo.toml" <<'TOML'
[package]
name = "trt-headers"
version = "0.0.0"
edition = "2021"
publish = false
[lib]
path = "empty.rs"
[dependencies]
trtx-sys = { version = "=0.9.1", default-features = false, features = ["enterprise"] }
[workspace]
TOML
: >"$scratch/empty.rs"

manifest=$(cargo metadata --quiet --format-version 1 --manifest-path "$scratch/Cargo.toml" | python3 -c '
import json, sys
print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "trtx-sys"))')
headers=$(dirname "$manifest")/TensorRT-Headers/TRT-Enterprise-11.4
(cd "$headers" && sha256sum --quiet --check "$here/trt_headers.sha256") >&2
echo "$headers"
