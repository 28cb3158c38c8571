#!/bin/sh
# Installs the CUDA compiler wheels of requirements.txt into build/toolchain and prints the toolkit root.
# Usage: scripts/toolchain.sh BUILD_DIR
set -eu

build=${1:?usage: toolchain.sh BUILD_DIR}
here=$(cd "$(dirname "$0")/.." && pwd)
venv=$build/toolchain
stamp=$venv/.installed
want=$(sha256sum "$here/requirements.txt" | cut -d' ' -f1)

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$want" ]; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r "$here/requirements.txt" >&2
    echo "$want" >"$stamp"
fi

root=$("$venv/bin/python" -c 'import nvidia.cu13, sys; sys.stdout.write(list(nvidia.cu13.__path__)[0])')
[ -x "$root/bin/nvcc" ] || { echo "toolchain.sh: no nvcc under $root" >&2; exit 1; }
echo "$root"
