#!/usr/bin/env bash
# Makes or updates the Python environment of the export scripts.
#   models/make_venv.sh [DIR]     (default: .venv-oracle in the repository)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/../.venv-oracle}
if [ ! -x "$dir/bin/python" ] && ! python3 -m venv "$dir"; then
  echo "error: no Python environment; on Debian: apt-get install python3-venv" >&2
  exit 4
fi
echo "installing $(grep -vc '^#' "$here/requirements.txt") packages into $dir (a few minutes)"
"$dir/bin/pip" install -q -r "$here/requirements.txt"
