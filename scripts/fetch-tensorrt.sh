#!/usr/bin/env bash
# Puts the TensorRT-RTX library and its ONNX parser into lib/ and beside the release binary. Does nothing when both are
# there. They are taken from the wheel that scripts/tensorrt-rtx.txt pins by version and hash.
set -euo pipefail

cd "$(dirname "$0")/.."
version=1.7.1
stamp=lib/.tensorrt-rtx-$version
target=${CARGO_TARGET_DIR:-target}/release
names=(libtensorrt_rtx.so libtensorrt_onnxparser_rtx.so)

die() {
    echo "error: $1" >&2
    echo "hint: $2" >&2
    exit 3
}

fetch() {
    local work python
    [[ "$(uname -s)-$(uname -m)" == Linux-x86_64 ]] ||
        die "no TensorRT-RTX wheel is pinned for $(uname -s) $(uname -m)" \
            "install TensorRT-RTX $version and set FORKCAST_TENSORRT_RTX and FORKCAST_TENSORRT_RTX_PARSER"
    python=${PYTHON:-python3}
    command -v "$python" >/dev/null || die "$python is missing" "apt-get install python3 python3-pip"
    "$python" -m pip --version >/dev/null 2>&1 ||
        die "pip is missing, and the TensorRT-RTX library is fetched through it" "apt-get install python3-pip"

    mkdir -p lib
    work=$(mktemp -d lib/.fetch.XXXXXX)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    echo "fetching TensorRT-RTX $version" >&2
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
        --only-binary=:all: --python-version 311 --implementation cp --abi none \
        --platform manylinux_2_28_x86_64 --dest "$work" --requirement scripts/tensorrt-rtx.txt >&2 ||
        die "the wheel that holds TensorRT-RTX $version could not be downloaded, or its hash differs" \
            "check the package index that pip uses (pip config list)"
    "$python" - "$work" "$version" "${names[@]}" <<'PYTHON'
import pathlib, shutil, sys, zipfile

work, version, names = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    for name in names:
        with archive.open(f"onnxruntime_ep_nv_tensorrt_rtx/{name}.{version}") as source:
            with open(work / name, "wb") as out:
                shutil.copyfileobj(source, out)
PYTHON
    for name in "${names[@]}"; do
        chmod 755 "$work/$name"
        mv -f "$work/$name" "lib/$name.1"
    done
    rm -f lib/.tensorrt-rtx-*
    touch "$stamp"
}

# A link where the file system has one: the library has 234 MB.
place() {
    mkdir -p "$target"
    for name in "${names[@]}"; do
        if ! cmp -s "lib/$name.1" "$target/$name.1"; then
            ln -f "lib/$name.1" "$target/$name.1" 2>/dev/null || cp -f "lib/$name.1" "$target/$name.1"
        fi
    done
}

complete=yes
for name in "${names[@]}"; do
    [[ -f lib/$name.1 ]] || complete=
done
if [[ -z $complete || ! -f $stamp ]]; then
    fetch
fi
place
