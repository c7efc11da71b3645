"""The same command gives the same bytes, but for times, whoever does the work."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from fishergcn.studies import export, open_runs


def reproduce(folder, workers):
    command = [sys.executable, "-m", "fishergcn", "reproduce", "quick", "--out", str(folder), "--device", "cpu"]
    settings = ["--splits", "1", "--seeds", "2", "--epochs", "5", "--workers", str(workers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *settings], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def records(folder):
    """Every record as the bytes of an export, the time it took left out."""
    assert export(open_runs(folder), folder / "runs.json") == 6
    found = json.loads((folder / "runs.json").read_text())
    for record in found:
        assert record.pop("seconds") > 0
    return json.dumps(found).encode()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same command three times: in one process, again, and with two workers."""
    names = {"first": 1, "again": 1, "workers": 2}
    return {name: reproduce(tmp_path_factory.mktemp(name), workers) for name, workers in names.items()}


@pytest.mark.parametrize("name", ["again", "workers"])
@pytest.mark.slow
def test_the_same_command_gives_the_same_bytes(folders, name):
    found, expected = (hashlib.sha256(records(folders[each])).hexdigest() for each in (name, "first"))
    assert found == expected


@pytest.mark.slow
def test_the_plan_is_the_same(folders):
    first, again = (open_runs(folders[name]).plan for name in ("first", "again"))
    assert first == again
    assert first.preset == "quick"


HASHES = """
import hashlib
import fishergcn
from fishergcn import datasets

graph, config = datasets.load("cora"), fishergcn.TrainConfig(max_epochs=3, stopping="none")
[record] = fishergcn.train(graph, "fishergcn", config=config, device="cpu", keep_weights=True)
spectrum = fishergcn.top_spectrum(fishergcn.renormalized(graph.adjacency))
matrix = fishergcn.high_order(graph.adjacency)
for array in (*record.weights.values(), spectrum.eigenvalues, spectrum.eigenvectors, matrix.data):
    print(hashlib.sha256(array.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_compiled_and_loaded_kernels_give_the_same_bytes(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", HASHES]
    cold, warm = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert any(tmp_path.rglob("*.nbc"))
    assert len(cold) == 5
    assert warm == cold
