"""The table of docs/guide_pyg.md: every row of it is tried here, and the page says what comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")
sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import pyg_table
from _pyg_uses import USES, verdict

ROOT = Path(__file__).resolve().parents[2]
PAGE = pyg_table.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
@pytest.mark.filterwarnings("ignore")
def test_a_use_is_exact_trains_or_is_refused(use) -> None:
    found, deviation = verdict(use)
    assert found == use.verdict
    assert (deviation is None) == (use.verdict != "exact")


def test_the_page_says_what_comes_out() -> None:
    stated = pyg_table.rows(PAGE)
    assert [(name, result) for name, result, _ in stated] == [(use.name, use.verdict) for use in USES]
    for (name, _, deviation), use in zip(stated, USES, strict=True):
        assert (deviation != "") == (use.verdict == "exact"), name
        if deviation:
            assert float(deviation.replace("−", "-")) <= 10 * use.limit, name
    assert len(stated) >= 25


def test_the_costs_are_those_of_the_benchmark() -> None:
    block = PAGE.partition("<!-- pyg costs -->")[2].partition("<!-- end -->")[0]
    assert block.strip() == pyg_table.costs()
    assert "(at most 1.3 is required)" in block


def test_what_is_not_so_is_not_written() -> None:
    def wrong() -> float:
        return 2 * USES[0].limit

    assert verdict(USES[0]._replace(find=wrong))[0].startswith("off by")
    assert pyg_table.bound(2e-14) == "1e−13"
    assert pyg_table.bound(0.0) == "1e−16"


def test_the_recorded_peak_memory_is_that_of_one_pass() -> None:
    record = json.loads(pyg_table.COSTS.read_text(encoding="utf-8"))
    assert record["memory_ratio"] <= record["required_memory_ratio"] == 1.3
    assert (record["nodes"], record["features"]) == (34_000, 8_400)
    assert all(found["last_loss"] < found["first_loss"] for found in record["memory"].values())


@pytest.mark.slow
def test_five_passes_need_the_memory_of_one(tmp_path) -> None:
    script = ROOT / "benchmarks" / "pyg_adversary.py"
    out = tmp_path / "costs.json"
    subprocess.run([sys.executable, script, "--steps", "1", "--out", out], check=True, capture_output=True)
    assert json.loads(out.read_text())["memory_ratio"] <= 1.3
