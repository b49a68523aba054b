#!/usr/bin/env bash
# Make or refresh the Python environment in $1: rebuilt only when the project's dependencies change.
set -euo pipefail
venv=$1
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$(cat "$root/pyproject.toml" "$root/constraints.txt" <(echo "$root") | sha256sum | cut -d' ' -f1)
[ -f "$venv/.stamp" ] && [ "$(cat "$venv/.stamp")" = "$wanted" ] && exit 0

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  [ "$(id -u)" = 0 ] || { echo "python3-venv is missing: install it" >&2; exit 1; }
  apt-get -qq update && apt-get -qq install -y python3-venv >/dev/null
fi
echo "Python environment: $venv (a few minutes when nothing is cached)"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check -c "$root/constraints.txt" setuptools wheel
"$venv/bin/pip" install -q --disable-pip-version-check -c "$root/constraints.txt" -e "$root[operator,gateway,cli,test,lint]"
echo "$wanted" >"$venv/.stamp"
