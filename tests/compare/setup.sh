#!/usr/bin/env bash
# Makes the Python environment of the comparisons: FORKCAST_COMPARE_PYTHON names its interpreter, default target/compare/env/bin/python.
# What is there already is kept. llama-cpp-python is built from its source archive for this CPU, which takes about 30 minutes.
# A package that does not install is reported and left out; run.sh then says which comparison that costs.
set -uo pipefail

cd "$(dirname "$0")/../.."
python=${FORKCAST_COMPARE_PYTHON:-target/compare/env/bin/python}

if [[ ! -x $python ]]; then
    base=${PYTHON:-python3.11}
    command -v "$base" >/dev/null || base=python3
    "$base" -m venv "$(dirname "$(dirname "$python")")" || {
        echo "error: $base cannot make a virtual environment" >&2
        exit 3
    }
fi

install() {
    echo "installing $*" >&2
    "$python" -m pip install --quiet --disable-pip-version-check "$@" >&2 || echo "could not install: $*" >&2
}

# The versions of the reference; torch is used on the CPU only.
install --requirement tests/reference/requirements.txt
install gguf==0.19.0
install onnxruntime-genai==0.18.0 onnx-ir
install openvino-genai==2026.4.1.0
if ! "$python" -c 'import llama_cpp' 2>/dev/null; then
    install --no-binary llama-cpp-python llama-cpp-python==0.3.36
fi
exit 0
