"""The CUDA kernels against the plain torch reference: on a GPU where there is one, else in Triton's interpreter.

The interpreter must be chosen before Triton is imported, so these checks run in a process of their own.
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


@pytest.fixture(scope="module")
def said():
    """What the checks print, a line each."""
    environment = dict(os.environ)
    if not torch.cuda.is_available():
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(
        [sys.executable, str(CHECKS), *NAMES], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_kernel_equals_reference(name, said):
    assert [line for line in said if line.startswith(f"{name} ")] == [f"{name} agrees"]


class Kernel:
    """Notes down what is asked of it, as a kernel of Triton would do it."""

    def __init__(self):
        self.asked = []

    def warmup(self, *arguments, grid, **options):
        self.asked.append(("compiled", grid, arguments, options))

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.asked.append(("run", grid, arguments, options))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_kernels_can_be_compiled_without_being_run():
    from fishergcn._kernels.launch import launch, only_compiling

    kernel = Kernel()

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, values):
            launch(kernel, (1,), "forward", BLOCK=2)
            return 2 * values

        @staticmethod
        def backward(ctx, grad):
            launch(kernel, (1,), "backward", BLOCK=2)
            return 2 * grad

    def both_ways():
        Doubled.apply(torch.ones(3, requires_grad=True)).sum().backward()

    with only_compiling():
        both_ways()
    both_ways()
    asked = [(what, way) for what, _, (way,), _ in kernel.asked]
    assert asked == [("compiled", "forward"), ("compiled", "backward"), ("run", "forward"), ("run", "backward")]
    assert all(each[1] == (1,) and each[3] == {"BLOCK": 2} for each in kernel.asked)
    with pytest.raises(ValueError, match="inside"), only_compiling():
        raise ValueError("inside")
    launch(kernel, (3,))
    assert kernel.asked[-1] == ("run", (3,), (), {})
