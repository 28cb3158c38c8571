#!/usr/bin/env bash
# The tiny pair through engines on the GPU of this host: every method must give plain decoding's text. Without a GPU that
# TensorRT-RTX compiles for it names what was not run; with FORKCAST_REQUIRE_GPU=1 that is a failure.
set -euo pipefail

cd "$(dirname "$0")/.."
binary=$1

not_run() {
    echo "NOT run: generate on the tiny pair with plain, chain, ddtree and mfd on a GPU ($1)"
    [[ ${FORKCAST_REQUIRE_GPU:-} == 1 ]] && exit 3
    exit 0
}

sm=$("$binary" doctor --json | python3 -c '
import json, sys
gpus = json.load(sys.stdin)["driver"]["gpus"]
print(gpus[0]["sm"] if gpus else "")')
case $sm in
80) recipe=a100 ;;
86) recipe=rtx-3090 ;;
89) recipe=rtx-4090 ;;
120) recipe=rtx-5090 ;;
"") not_run "no GPU" ;;
*) not_run "SM $sm is not one of TensorRT-RTX's" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$binary" export --target tests/models/tiny-qwen3.5 --drafter tests/models/tiny-qwen3.5-mfd --dtype bf16 --out "$work/bundle"
"$binary" build "$work/bundle" --recipe "$recipe" --out "$work/engine"
"$binary" verify "$work/engine"
for method in plain chain ddtree mfd; do
    "$binary" generate "$work/engine" --prompt 'The sea is' --max-tokens 128 --method "$method" --json >"$work/$method.json"
done
python3 - "$work" <<'PYTHON'
import json, pathlib, sys

work = pathlib.Path(sys.argv[1])
answers = {m: json.loads((work / f"{m}.json").read_text()) for m in ("plain", "chain", "ddtree", "mfd")}
for method, answer in answers.items():
    print(f"{method}: tau {answer['tau']:.2f}, {answer['tokens_per_second']:.0f} tokens/s")
    if answer["token_ids"] != answers["plain"]["token_ids"]:
        sys.exit(f"error: {method} gives another text than plain")
PYTHON
