#!/usr/bin/env bash
# Exports the hybrid tiny pair and runs the soak on it: run.sh FORKCAST [REQUESTS]
set -euo pipefail

program=$(realpath "$1")
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" export --target ../models/tiny-qwen3.5 --drafter ../models/tiny-qwen3.5-mfd --out "$folder/bundle"
python3 soak.py "$program" "$folder/bundle" "${2:-2000}"
