"""Numbers and tables in markdown."""

from __future__ import annotations

from functools import partial
from typing import Any

from fishergcn._base.text import markdown_table

Record = dict[str, Any]


markdown = partial(markdown_table, escape=False)


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def against(value: float, required: float | None, at_least: bool = True) -> str:
    """Return a value with what is required of it."""
    if required is None:
        return number(value)
    return f"{number(value)} ({'≥' if at_least else '≤'} {required:g})"


def machine_line(record: Record) -> str:
    facts = record["machine"]
    names = ("torch", "torch_geometric", "numpy", "scipy", "numba", "cuda")
    versions = ", ".join(f"{name} {facts[name]}" for name in names if facts.get(name))
    gpu = f"{facts['gpu']}; " if facts.get("gpu") else ""
    cores = f"{facts['cores']} core{'s' * (facts['cores'] != 1)}"
    return f"{gpu}{facts['cpu']}, {cores}; Python {facts['python']}, {versions}."
