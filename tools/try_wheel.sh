#!/usr/bin/env bash
# Install a wheel in a clean environment, away from the repository, and run the demo's commands from it.
set -euo pipefail
wheel=$(realpath "$1")
constraints=$(realpath "$(dirname "$0")/../constraints.txt")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint "$constraints" "$wheel[report]"
venv/bin/fishergcn --version
venv/bin/fishergcn data list
venv/bin/fishergcn spectrum cora
venv/bin/fishergcn reproduce table2 --dataset cora --method gcn --method fishergcn --splits 1 --seeds 1 --device cpu --out demo
venv/bin/fishergcn report demo
test -s demo/report.html
echo "the wheel works on its own"
