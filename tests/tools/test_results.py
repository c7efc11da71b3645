"""The tables of the pages are those of the archives in results/, digit for digit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_networks_is_up_to_date(tmp_path):
    pytest.importorskip("torch_geometric")
    page = ROOT / "docs" / "reproduction.md"
    (tmp_path / "page.md").write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "gnn_table.py"), "--table", str(ROOT / "results" / "gnn")]
    subprocess.run([*command, "--into", str(tmp_path / "page.md")], check=True, timeout=600)
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
