#!/usr/bin/env bash
# Runs every comparison that can run here and prints its table; says which could not and why. Arguments: scripts to run, without
# `.py` (all without). Exit 0 if every one ran or cannot run here, 5 if one failed.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=${FORKCAST_COMPARE_PYTHON:-$here/../../target/compare/env/bin/python}
limit=${FORKCAST_COMPARE_LIMIT:-900}
if [[ ! -x $python ]]; then
    echo "error: no Python of the comparisons at $python" >&2
    echo "hint: tests/compare/setup.sh makes one, or set FORKCAST_COMPARE_PYTHON" >&2
    exit 3
fi

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
failed=0
scripts=("$@")
[[ $# -gt 0 ]] || scripts=(llama transformers_loop growth host_part genai)
for script in "${scripts[@]}"; do
    printf '\n## %s\n\n' "$script"
    timeout "$limit" "$python" "$here/$script.py" 2>"$errors"
    case $? in
        0) ;;
        3) echo "Could not run here: $(tail -n 1 "$errors")" ;;
        124)
            echo "Stopped after $limit seconds."
            failed=1
            ;;
        *)
            echo "Failed: $(tail -n 1 "$errors")"
            cat "$errors" >&2
            failed=1
            ;;
    esac
done
[[ $failed -eq 0 ]] || exit 5
