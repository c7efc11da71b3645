"""Hostile inputs for every reader and the command line: seeded, guided by coverage, and found by hypothesis."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs limits on memory and /proc")]

TOOLS = Path(__file__).parents[2] / "tools"
READERS = (
    "npz",
    "csv",
    "tables",
    "planetoid",
    "preset",
    "model",
    "ensemble",
    "labels",
    "numbers",
    "sequence",
    "search",
    "geometry",
    "database",
    "archive",
    "command",
)


def fuzz(report, *options):
    """Run the driver, untraced, since its readers have limits on time and memory."""
    command = [sys.executable, str(TOOLS / "fuzz.py"), "--report", str(report), *options]
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, env=untraced)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(report.read_text())


@pytest.mark.parametrize("reader", READERS)
def test_seeded(tmp_path, reader):
    found = fuzz(tmp_path / "report.json", "--reader", reader, "--inputs", "500", "--first-seed", "100000")
    counts = found["seeds"][reader]
    assert counts["inputs"] == (50 if reader == "command" else 500)
    assert counts["accepted"] + counts["refused"] == counts["inputs"]
    assert counts["refused"] > 0
    assert counts["failures"] == []


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="pip install atheris")
@pytest.mark.parametrize("reader", [each for each in READERS if each != "command"])
def test_guided_by_coverage(tmp_path, reader):
    options = ["--reader", reader, "--engine", "atheris", "--inputs", "1000", "--first-seed", "7"]
    assert fuzz(tmp_path / "report.json", *options)["atheris"][reader]["failures"] == []


@pytest.fixture(scope="module")
def driver():
    sys.path.insert(0, str(TOOLS))
    try:
        yield importlib.import_module("fuzz")
    finally:
        sys.path.remove(str(TOOLS))


@pytest.mark.parametrize("reader", [each for each in READERS if each != "command"])
def test_any_bytes_in_place_of_any_file(driver, reader):
    """Hypothesis chooses the bytes, whole or put into a good file; the outcome is one of the two that are allowed."""
    good = driver.READERS[reader].good()
    names = sorted(good)

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(names) - 1), st.binary(max_size=300), st.floats(0, 1), st.booleans(), st.integers(0, 50))
    def check(file, data, place, whole, dropped):
        content = good[names[file]]
        at = int(place * len(content))
        mixed = data if whole else content[:at] + data + content[at + dropped :]
        assert driver.attempt(reader, 0, bytes([file]) + mixed) in ("accepted", "refused")

    check()
