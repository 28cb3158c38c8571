#!/bin/sh
# Installs the CUDA compiler wheels of requirements.txt (with `sanitizer` also those of requirements-sanitizer.txt)
# into BUILD_DIR/toolchain, versions and hashes pinned, and prints the toolkit root.
# Usage: scripts/toolchain.sh BUILD_DIR [sanitizer]
set -eu

build=${1:?usage: toolchain.sh BUILD_DIR [sanitizer]}
here=$(cd "$(dirname "$0")/.." && pwd)
venv=$build/toolchain

# install REQUIREMENTS STAMP: once for every content of the requirements file.
install() {
    want=$(sha256sum "$1" | cut -d' ' -f1)
    if [ ! -f "$2" ] || [ "$(cat "$2")" != "$want" ]; then
        [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$1" >&2
        echo "$want" >"$2"
    fi
}

install "$here/requirements.txt" "$venv/.installed"
tool=nvcc
if [ "${2:-}" = sanitizer ]; then
    install "$here/requirements-sanitizer.txt" "$venv/.installed-sanitizer"
    tool=compute-sanitizer
fi

root=$("$venv/bin/python" -c 'import nvidia.cu13, sys; sys.stdout.write(list(nvidia.cu13.__path__)[0])')
[ -x "$root/bin/$tool" ] || { echo "toolchain.sh: no $tool under $root" >&2; exit 1; }
echo "$root"
