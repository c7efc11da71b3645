"""Doctests are collected from the package: leave out what cannot be imported here.

Examples of Hypothesis are the same everywhere, and may take their time on a busy machine.
"""

import importlib.util

collect_ignore = (
    [] if importlib.util.find_spec("triton") else ["src/fishergcn/nn/_triton.py", "tests/nn/triton_checks.py"]
)

if importlib.util.find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("same")
