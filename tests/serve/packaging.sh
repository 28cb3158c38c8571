#!/bin/sh
# Checks of the files in packaging/ with the tools that read them. Each tool that is not installed is named.
set -eu
cd "$(dirname "$0")/../../packaging"
failed=0

if command -v haproxy >/dev/null; then
    FORKCAST_BIND=127.0.0.1:18080 FORKCAST_ADMIN="$PWD/admin.sock" FORKCAST_A=127.0.0.1:1 FORKCAST_B=127.0.0.1:2 \
        FORKCAST_C=127.0.0.1:3 haproxy -c -f haproxy/haproxy.cfg || failed=1
else
    echo "not run: haproxy (Debian package haproxy)"
fi

# PyPI package kubernetes-validate carries the published schemas.
if command -v kubernetes-validate >/dev/null; then
    kubernetes-validate --strict kubernetes/*.yaml || failed=1
else
    echo "not run: kubernetes-validate (PyPI package kubernetes-validate)"
fi

if command -v systemd-analyze >/dev/null; then
    # The program and its man page need not be installed for this.
    systemd-analyze verify systemd/forkcast.service 2>&1 | grep -v -e 'is not executable' -e "Command 'man " && failed=1 || true
else
    echo "not run: systemd-analyze"
fi
exit $failed
