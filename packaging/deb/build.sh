#!/usr/bin/env bash
# Makes the Debian package: build/deb/forkcast_VERSION_ARCH.deb, with program, library, manual, completions and unit.
#
#     packaging/deb/build.sh           needs cargo-deb (cargo install cargo-deb) and dpkg-dev
#
# The list of files is in runtime/Cargo.toml under package.metadata.deb.
set -euo pipefail

cd "$(dirname "$0")/../.."
command -v cargo-deb >/dev/null || {
    echo "error: cargo-deb is missing" >&2
    echo "hint: cargo install cargo-deb --locked" >&2
    exit 3
}
make build
program=${CARGO_TARGET_DIR:-target}/release/forkcast
out=build/deb
rm -rf "$out"
mkdir -p "$out/man" "$out/completions"

"$program" man | gzip -9n >"$out/man/forkcast.1.gz"
for command in $("$program" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    [[ $command == help ]] || "$program" man "$command" | gzip -9n >"$out/man/forkcast-$command.1.gz"
done
"$program" completions bash >"$out/completions/forkcast"
"$program" completions zsh >"$out/completions/_forkcast"
"$program" completions fish >"$out/completions/forkcast.fish"

cargo deb --no-build --strip --package forkcast --output "$out/"
