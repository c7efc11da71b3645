"""Shells around the library for other ones: PyTorch Geometric, scikit-learn, Ray. Each needs its extra."""

from __future__ import annotations

__all__: list[str] = []
