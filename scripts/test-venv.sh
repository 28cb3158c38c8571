#!/usr/bin/env bash
# Makes .venv with the Python packages of the tests, pinned by hash. Does nothing when it is up to date.
set -euo pipefail

cd "$(dirname "$0")/.."
requirements=scripts/requirements-test.txt
stamp=.venv/.requirements

if cmp -s "$requirements" "$stamp" && .venv/bin/python -c 'import onnx, onnxruntime, openai, kubernetes_validate' 2>/dev/null && [[ -x .venv/bin/hadolint ]]; then
    exit 0
fi

# The wheels are pinned for CPython 3.11.
python=${PYTHON:-}
if [[ -z $python ]]; then
    for candidate in python3.11 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            python=$candidate
            break
        fi
    done
fi
if [[ -z $python ]]; then
    echo "error: the tests need Python 3.11, and neither python3.11 nor python3 is one" >&2
    echo "hint: apt-get install python3.11-venv, or set PYTHON to a Python 3.11" >&2
    exit 3
fi

echo "making .venv for the tests" >&2
rm -rf .venv
if ! "$python" -m venv .venv; then
    echo "error: $python cannot make a virtual environment" >&2
    echo "hint: apt-get install python3-venv" >&2
    exit 3
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
    --only-binary=:all: --requirement "$requirements" >&2
cp "$requirements" "$stamp"
