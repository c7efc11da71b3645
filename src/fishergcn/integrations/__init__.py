"""Shells around the library for other ones: PyTorch Geometric, scikit-learn, Ray. Each needs its extra."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__: list[str] = []

if TYPE_CHECKING:
    from fishergcn.integrations import pyg as pyg
    from fishergcn.integrations import sklearn as sklearn
else:

    def __getattr__(name: str) -> object:
        """Import a module at its first use: each needs a package of its own."""
        if name in ("pyg", "sklearn"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
