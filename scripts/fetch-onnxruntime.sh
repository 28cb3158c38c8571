#!/usr/bin/env bash
# Puts the ONNX Runtime library into lib/ and beside the release binary. Does nothing when both are there.
# The library is taken from the wheel that scripts/onnxruntime.txt pins by version and hash.
set -euo pipefail

cd "$(dirname "$0")/.."
version=1.32.0
library=lib/libonnxruntime.so
stamp=lib/.onnxruntime-$version
target=${CARGO_TARGET_DIR:-target}/release

die() {
    echo "error: $1" >&2
    echo "hint: $2" >&2
    exit 3
}

fetch() {
    local arch work python
    case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) arch=x86_64 ;;
    Linux-aarch64) arch=aarch64 ;;
    *) die "no ONNX Runtime wheel is pinned for $(uname -s) $(uname -m)" \
        "set ORT_DYLIB_PATH to a libonnxruntime of version $version" ;;
    esac
    python=${PYTHON:-python3}
    command -v "$python" >/dev/null || die "$python is missing" "apt-get install python3 python3-pip"
    "$python" -m pip --version >/dev/null 2>&1 ||
        die "pip is missing, and the ONNX Runtime library is fetched through it" \
            "apt-get install python3-pip, or set ORT_DYLIB_PATH to a libonnxruntime of version $version"

    mkdir -p lib
    work=$(mktemp -d lib/.fetch.XXXXXX)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    echo "fetching ONNX Runtime $version ($arch)" >&2
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
        --only-binary=:all: --python-version 311 --implementation cp --abi cp311 \
        --platform "manylinux_2_28_$arch" --dest "$work" --requirement scripts/onnxruntime.txt >&2 ||
        die "the wheel onnxruntime==$version could not be downloaded, or its hash differs" \
            "check the package index that pip uses (pip config list)"
    "$python" - "$work" "$version" <<'PYTHON'
import pathlib, shutil, sys, zipfile

work, version = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    with archive.open(f"onnxruntime/capi/libonnxruntime.so.{version}") as source:
        with open(work / "library", "wb") as out:
            shutil.copyfileobj(source, out)
PYTHON
    chmod 755 "$work/library"
    mv -f "$work/library" "$library"
    rm -f lib/.onnxruntime-*
    touch "$stamp"
}

# Keeps a library of the same content, so that its time stamp does not change.
place() {
    if ! cmp -s "$library" "$target/libonnxruntime.so"; then
        mkdir -p "$target"
        cp -f "$library" "$target/.libonnxruntime.so.part"
        mv -f "$target/.libonnxruntime.so.part" "$target/libonnxruntime.so"
    fi
}

if [[ ! -f $library || ! -f $stamp ]]; then
    fetch
fi
place
