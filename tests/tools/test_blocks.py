"""Blocks of a page that programs write."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
blocks = importlib.import_module("_blocks")
PAGE = "before\n<!-- kind one -->\nold\n<!-- end -->\nbetween\n<!-- other one -->\nkept\n<!-- end -->\n"


def test_blocks_of_the_kind_are_made_anew_and_others_kept():
    filled = blocks.fill(PAGE, "kind", {"one": lambda: "new\n"})
    assert filled == PAGE.replace("\nold\n", "\n\nnew\n\n")
    assert blocks.fill(filled, "kind", {"one": lambda: "new"}) == filled


def test_an_unknown_block():
    with pytest.raises(KeyError, match="one"):
        blocks.fill(PAGE, "kind", {})


def test_a_check_writes_nothing(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    made = {"one": lambda: "new"}
    assert blocks.refresh([page], "kind", made, check=True) == 1
    assert page.read_text() == PAGE
    assert blocks.refresh([page], "kind", made, check=False) == 0
    assert blocks.refresh([page], "kind", made, check=True) == 0
    assert capsys.readouterr().out == "out of date: page.md\nup to date\n"
