"""Eigenpairs of the graph Laplacian."""

from __future__ import annotations

from fishergcn.spectrum._spectrum import SYMMETRY, Spectrum, bottom_spectrum, largest_component, top_spectrum

__all__ = ["SYMMETRY", "Spectrum", "bottom_spectrum", "largest_component", "top_spectrum"]
