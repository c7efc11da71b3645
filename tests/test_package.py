"""What ``import fishergcn`` gives: names, modules at their first use, and nothing that takes long."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fishergcn

MODULES = ["attacks", "errors", "geometry", "integrations", "report", "studies"]


def test_modules_come_at_their_first_use() -> None:
    code = f"""
import sys, fishergcn
heavy = {{"matplotlib", "sklearn", "networkx", "torch_geometric", "pandas", "fishergcn.geometry", "fishergcn.report"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
for name in {MODULES}:
    assert getattr(fishergcn, name) is sys.modules[f"fishergcn.{{name}}"]
assert fishergcn.geometry.intrinsic.bures_distance
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_listed_is_there_and_public() -> None:
    assert dir(fishergcn) == sorted([*fishergcn.__all__, *MODULES])
    assert all(getattr(fishergcn, name) is not None for name in dir(fishergcn))


def test_modules_for_other_libraries_come_at_their_first_use() -> None:
    pytest.importorskip("sklearn")
    assert fishergcn.integrations.sklearn.FisherGCNClassifier
    assert fishergcn.execution._ray.RayExecutor


@pytest.mark.parametrize("module", [fishergcn, fishergcn.integrations])
def test_other_names_are_refused(module) -> None:
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'"):
        module.nothing
