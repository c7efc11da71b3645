"""What ``import fishergcn`` gives: names, modules at their first use, and nothing that takes long."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import fishergcn

MODULES = [
    "attacks", "certificates", "datasets", "drawing", "errors", "execution", "geometry", "graph", "integrations",
    "large", "models", "nn", "operators", "perturbation", "propagation", "report", "spectrum", "splits", "streams",
    "studies", "training",
]  # fmt: skip


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process."""
    command = [sys.executable, "-c", code]
    environment = os.environ | variables
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


def test_modules_come_at_their_first_use() -> None:
    code = f"""
import sys, fishergcn
heavy = {{"torch", "numpy", "scipy", "numba", "matplotlib", "sklearn", "networkx", "torch_geometric", "pandas"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
for name in {MODULES}:
    assert getattr(fishergcn, name) is sys.modules[f"fishergcn.{{name}}"]
assert fishergcn.geometry.intrinsic.bures_distance
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


COMMANDS = [["--version"], ["--help"], ["train", "--help"], ["geometry", "fisher", "--help"], ["runs", "--help"]]


@pytest.mark.parametrize("arguments", [*COMMANDS, []], ids=" ".join)
def test_help_and_completion_do_not_wait_for_torch(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["fishergcn", *{arguments}]
from fishergcn.cli import app
try:
    app()
except SystemExit:
    pass
heavy = {{"torch", "numpy", "scipy", "numba"}} & set(sys.modules)
print(file=sys.stderr, *heavy)
"""
    completion = {} if arguments else {
        "_FISHERGCN_COMPLETE": "complete_bash", "COMP_WORDS": "fishergcn train --", "COMP_CWORD": "2"
    }  # fmt: skip
    done = run(code, **completion)
    assert done.returncode == 0
    assert done.stderr.split() == []
    assert done.stdout if arguments else "--dataset" in done.stdout


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import fishergcn
graph = fishergcn.datasets.load("cora")
config = fishergcn.TrainConfig(max_epochs=3)
records = fishergcn.train(graph, ["gcn", "fishergcn", "gcn-t"], ["public"], config=config, progress=False)
print(*(value for record in records for value in record.curves["train_loss"]))
"""


def test_without_numba_all_is_trained_to_the_same_numbers() -> None:
    found = []
    for code in (WITHOUT_NUMBA, WITHOUT_NUMBA.replace('sys.modules["numba"] = None', "")):
        done = run(code)
        assert done.returncode == 0, done.stderr
        found.append([float(each) for each in done.stdout.split()])
    assert len(found[0]) == 9
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_what_is_listed_is_there_and_public() -> None:
    assert dir(fishergcn) == sorted({*fishergcn.__all__, *MODULES})
    assert all(getattr(fishergcn, name) is not None for name in dir(fishergcn))


def test_modules_for_other_libraries_come_at_their_first_use() -> None:
    pytest.importorskip("sklearn")
    assert fishergcn.integrations.sklearn.FisherGCNClassifier
    assert fishergcn.execution._ray.RayExecutor


@pytest.mark.parametrize("module", [fishergcn, fishergcn.integrations])
def test_other_names_are_refused(module) -> None:
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'"):
        module.nothing
