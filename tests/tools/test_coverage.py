"""The simulation of how often intervals hold: it runs, and its record says what the pages say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def test_a_short_simulation(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    coverage = importlib.import_module("coverage_of_intervals")
    assert 0.9 <= coverage.means(6, "normal", 200)["student"] <= 0.99
    assert coverage.crossed(6, 3, 0.2, 100)["both"] >= coverage.crossed(6, 3, 0.2, 100)["splits alone"]
    truth, found, plain = coverage.worth(np.random.default_rng(0), nodes=200, train=10, val=30)
    assert found.low <= plain.low <= plain.high <= found.high
    assert -1.0 <= truth <= 1.0


def test_the_record_holds_what_was_asked_for():
    record = json.loads((ROOT / "benchmarks" / "results" / "coverage.json").read_text(encoding="utf-8"))
    normal = [each["student"] for each in record["means"] if each["kind"] == "normal"]
    assert len(normal) == 4
    assert all(0.94 <= each <= 0.96 for each in normal)
    assert all(each["corrected"] >= 0.93 for each in record["links"])
