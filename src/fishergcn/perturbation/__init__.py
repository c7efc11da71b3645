"""The neighborhood of a graph, graphs drawn from it, and an adversary that learns where to draw."""

from __future__ import annotations

from fishergcn.perturbation.adversary import SpectralAdversary
from fishergcn.perturbation.neighborhood import Neighborhood, PerturbationWarning
from fishergcn.perturbation.operator import SparsePlusLowRank

__all__ = ["Neighborhood", "PerturbationWarning", "SparsePlusLowRank", "SpectralAdversary"]
