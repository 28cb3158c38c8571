#!/usr/bin/env bash
# Puts the JavaScript packages of the tests into build/node, pinned by version and hash in tests/serve/node.
# Does nothing when they are up to date.
set -euo pipefail

cd "$(dirname "$0")/.."
lock=tests/serve/node/package-lock.json
folder=build/node

die() {
    echo "error: $1" >&2
    echo "hint: $2" >&2
    exit 3
}

command -v node >/dev/null ||
    die "node is missing, and the tests run the official JavaScript client" "apt-get install nodejs npm"
if cmp -s "$lock" "$folder/.lock" && NODE_PATH=$folder/node_modules node -e 'require("openai")' 2>/dev/null; then
    exit 0
fi
command -v npm >/dev/null || die "npm is missing" "apt-get install npm"

echo "fetching the JavaScript packages of the tests" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp tests/serve/node/package.json "$lock" "$folder"
npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
    die "the packages of $lock could not be installed" "check the registry that npm uses (npm config get registry)"
NODE_PATH=$folder/node_modules node -e 'require("openai")' ||
    die "the package openai cannot be loaded by $(node --version)" "a Node.js of version 18 or later is needed"
cp "$lock" "$folder/.lock"
