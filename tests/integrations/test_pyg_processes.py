"""DistributedDataParallel: ξ is the same in all processes, and as in one process that sees all nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch_geometric")
from pyg_processes import train

HERE = Path(__file__).parent


@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.slow) for how in ("inside", "around")])
def test_xi_is_equal_in_all_processes(tmp_path, how) -> None:
    """Attached before the model is wrapped, with passes one by one; attached to the wrapper, with passes kept."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    limits = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run(
        [*command, str(HERE / "pyg_processes.py"), str(tmp_path), how],
        env=os.environ | limits, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    one, other = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert one == other
    alone = train(0, 1, how)
    for name in ("xi", "weights"):
        np.testing.assert_allclose(one[name], alone[name], rtol=0, atol=1e-12)
    assert np.abs(np.array(alone["xi"]) - np.array(train(0, 1, how, steps=0)["xi"])).max() > 0.1
