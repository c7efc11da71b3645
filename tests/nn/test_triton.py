"""The CUDA kernels against the plain torch reference: on a GPU where there is one, else in Triton's interpreter.

The interpreter must be chosen before Triton is imported, so these tests run in a process of their own.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CHECKS = Path(__file__).parent / "triton_checks.py"
NAMES = ["words", "features", "csr", "relu", "weight", "layer", "moments", "half", "first"]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_kernel_equals_reference(name):
    environment = dict(os.environ)
    if not torch.cuda.is_available():
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(
        [sys.executable, str(CHECKS), name], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{name} agrees"
