#!/usr/bin/env bash
# Runs every check of this folder, shortened, against the tiny pair. A tool that is missing is a failure with a hint.
#
#     tests/serve/run.sh [FORKCAST]
#
# FORKCAST_PYTHON is a Python with the packages of scripts/requirements-test.txt, NODE_PATH where npm packages are.
set -euo pipefail

cd "$(dirname "$0")/../.."
program=${1:-${CARGO_TARGET_DIR:-target}/release/forkcast}
python=${FORKCAST_PYTHON:-.venv/bin/python}
export NODE_PATH=${NODE_PATH:-$PWD/build/node/node_modules}

need() {
    command -v "$1" >/dev/null || {
        echo "error: $1 is missing, and a check of the server needs it" >&2
        echo "hint: $2" >&2
        exit 3
    }
}

need "$program" "make build"
need "$python" "make venv"
need node "apt-get install nodejs npm, then scripts/test-node.sh"
need chromium "apt-get install chromium"
need chromedriver "apt-get install chromium-driver"
need haproxy "apt-get install haproxy"
need systemd-analyze "apt-get install systemd"

work=$(mktemp -d)
server=
finish() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

step() {
    local begin=$SECONDS
    echo "== $1"
    shift
    "$@"
    echo "   $((SECONDS - begin)) s"
}

bundle=$work/tiny
"$program" export --target tests/models/tiny-qwen3.5 --drafter tests/models/tiny-qwen3.5-mfd --out "$bundle" 2>"$work/export" ||
    { cat "$work/export" >&2; exit 1; }

# One server for the checks that take a running one; it takes any free port and says which.
"$program" serve "$bundle" --port 0 --log-format json 2>"$work/log" &
server=$!
url=
for _ in $(seq 200); do
    url=$(sed -n 's/.*"address":"\([^"]*\)".*"message":"ready".*/\1/p; s/.*"message":"ready".*"address":"\([^"]*\)".*/\1/p' "$work/log")
    [[ -z $url ]] || break
    kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
done
[[ -n $url ]] || { echo "error: the server did not say that it is ready" >&2; cat "$work/log" >&2; exit 1; }
url=http://$url

step "files of packaging/ in the tools that read them" tests/serve/packaging.sh
step "official Python client, tiny pair" "$python" tests/serve/openai_client.py "$url"
step "official JavaScript client, tiny pair" node tests/serve/openai_client.mjs "$url"
step "page in headless Chromium" "$python" tests/serve/page.py "$url"
kill "$server" && wait "$server"
server=
step "systemd and signals" "$python" tests/serve/signals.py "$program" "$bundle"
step "second turn" "$python" tests/serve/turns.py "$program" "$bundle"
step "overload, disconnects, shutdown" "$python" tests/serve/soak.py "$program" "$bundle" 12
step "replicas behind HAProxy" "$python" tests/serve/haproxy.py "$program" "$bundle" 9
echo "all checks of the server held, in $SECONDS s"
