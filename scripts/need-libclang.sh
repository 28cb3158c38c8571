#!/usr/bin/env bash
# libclang, which the TensorRT binding needs while it is compiled; installed where that is possible.
set -euo pipefail

found() {
    [[ -n ${LIBCLANG_PATH:-} ]] && return 0
    ldconfig -p 2>/dev/null | grep -q 'libclang\(-[0-9]*\)\?\.so' && return 0
    compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' | grep -qv 'libclang-cpp'
}

found && exit 0
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "installing libclang" >&2
    apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends libclang-dev >&2
    exit 0
fi
echo "error: libclang is missing; compiling the TensorRT binding needs it" >&2
echo "hint: apt-get install libclang-dev, or set LIBCLANG_PATH to a folder that holds libclang.so (before version 22)" >&2
exit 3
