#!/usr/bin/env bash
# Checks of the files in packaging/ with the tools that read them; a missing tool is a failure.
# FORKCAST_PYTHON is a Python with kubernetes-validate and hadolint beside it (scripts/requirements-test.txt).
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(realpath -s "${FORKCAST_PYTHON:-.venv/bin/python}")
cd packaging

FORKCAST_BIND=127.0.0.1:18080 FORKCAST_ADMIN="$PWD/admin.sock" FORKCAST_A=127.0.0.1:1 FORKCAST_B=127.0.0.1:2 \
    FORKCAST_C=127.0.0.1:3 haproxy -c -f haproxy/haproxy.cfg

# The published schemas come with the package.
"$python" -m kubernetes_validate --strict kubernetes/*.yaml

"$(dirname "$python")/hadolint" --no-color container/Containerfile
echo "hadolint: nothing to say"

# The program and its man page need not be installed for this.
said=$(systemd-analyze verify systemd/forkcast.service 2>&1 |
    grep -v -e 'is not executable' -e "Command 'man " || true)
if [[ -n $said ]]; then
    echo "$said" >&2
    exit 1
fi
echo "systemd-analyze: nothing to say"
