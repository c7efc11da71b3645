"""Doctests are collected from the package: leave out what cannot be imported here."""

import importlib.util

collect_ignore = (
    [] if importlib.util.find_spec("triton") else ["src/fishergcn/nn/_triton.py", "tests/nn/triton_checks.py"]
)
