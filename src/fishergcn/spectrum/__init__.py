"""Eigenpairs of the graph Laplacian, and traces of functions of a matrix."""

from __future__ import annotations

from fishergcn.spectrum._quadrature import gauss_rules, trace_samples
from fishergcn.spectrum._spectrum import Spectrum, bottom_spectrum, top_spectrum

__all__ = ["Spectrum", "bottom_spectrum", "top_spectrum"]

SHARED = ("gauss_rules", "trace_samples")
