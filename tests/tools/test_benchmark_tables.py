"""benchmarks/table.py knows how to fill every mark of the pages."""

from __future__ import annotations

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
