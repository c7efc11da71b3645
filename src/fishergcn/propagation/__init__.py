"""Propagation matrices: what a graph convolution multiplies with."""

from __future__ import annotations

from fishergcn.propagation._propagation import MAX_ORDER, high_order, renormalized

__all__ = ["MAX_ORDER", "high_order", "renormalized"]
