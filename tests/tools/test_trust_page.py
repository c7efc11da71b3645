"""The table of promises names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_promise_names_a_test():
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    section = page.partition("### Each promise and the test that keeps it")[2].partition("\n### ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 12
    for threat, _, test in rows:
        names = re.findall(r"`([^`]+)`", test)
        assert names, threat
        assert all("def test_" in (ROOT / name).read_text(encoding="utf-8") for name in names), threat


def test_every_test_named_on_the_page_exists():
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(tests/[\w/.]+\.py)`", page))
    assert len(names) > 10
    assert [name for name in sorted(names) if not (ROOT / name).is_file()] == []
