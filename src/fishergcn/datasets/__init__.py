"""Three graphs that ship with the package."""

from __future__ import annotations

from fishergcn.datasets._embedded import available, load

__all__ = ["available", "load"]
