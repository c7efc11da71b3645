"""benchmarks/table.py knows how to fill every mark of the pages."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["benchmarks.md", "cost.md"])
def test_every_mark_has_a_table(page, monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    marks = re.findall(r"<!-- table (\w+) -->", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert marks
    assert set(marks) <= set(importlib.import_module("table").TABLES)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_what_benchmarks_import_is_there(path) -> None:
    imports = [
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)
    ]
    for node in imports:
        if node.module and node.module.startswith("fishergcn") and "integrations" not in node.module:
            found = importlib.import_module(node.module)
            for each in node.names:
                assert hasattr(found, each.name) or importlib.import_module(f"{node.module}.{each.name}")
