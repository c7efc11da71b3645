"""Freed memory is kept for the next step, and handed back when it is told so."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import pathlib, torch; from fishergcn._base.memory import keep_freed_memory, return_freed_memory
def resident_memory():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
return_freed_memory()  # does nothing before anything is kept
print(keep_freed_memory())
start = resident_memory()
some = [torch.ones(2**22) for _ in range(16)]  # 16 MB each
del some
kept = resident_memory()
return_freed_memory()
print((kept - start) >> 20, (resident_memory() - start) >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a matter of glibc")
def test_freed_memory_is_kept_until_it_is_handed_back():
    told, sizes = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if told != "True":
        pytest.skip("another C library")
    kept, left = map(int, sizes.split())
    assert kept > 200
    assert left < 40
