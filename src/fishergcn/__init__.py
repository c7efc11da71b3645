"""FisherGCN: graph convolutional networks trained in a Fisher-Bures neighborhood of their graph."""

# First of all, and without __future__, which would be looked for in the working folder too.
from fishergcn._base import first as _first  # noqa: F401

# isort: split
import importlib
from typing import TYPE_CHECKING

from fishergcn._version import __version__

__all__ = [
    "GCN", "METHODS", "Graph", "Neighborhood", "RunRecord", "SparsePlusLowRank", "SpectralAdversary", "Spectrum",
    "TrainConfig", "TrainedModel", "__version__", "backend", "best_run", "datasets", "fit", "high_order", "load_model",
    "renormalized", "save_models", "splits", "top_spectrum", "train",
]  # fmt: skip

if TYPE_CHECKING:
    from fishergcn import attacks as attacks
    from fishergcn import certificates as certificates
    from fishergcn import datasets as datasets
    from fishergcn import drawing as drawing
    from fishergcn import errors as errors
    from fishergcn import execution as execution
    from fishergcn import geometry as geometry
    from fishergcn import graph as graph
    from fishergcn import integrations as integrations
    from fishergcn import large as large
    from fishergcn import models as models
    from fishergcn import nn as nn
    from fishergcn import operators as operators
    from fishergcn import perturbation as perturbation
    from fishergcn import propagation as propagation
    from fishergcn import report as report
    from fishergcn import spectrum as spectrum
    from fishergcn import splits as splits
    from fishergcn import streams as streams
    from fishergcn import studies as studies
    from fishergcn import training as training
    from fishergcn.execution import train
    from fishergcn.graph import Graph
    from fishergcn.models import TrainedModel, best_run, load_model, save_models
    from fishergcn.nn import GCN
    from fishergcn.operators import SparsePlusLowRank
    from fishergcn.perturbation import Neighborhood, SpectralAdversary
    from fishergcn.propagation import high_order, renormalized
    from fishergcn.spectrum import Spectrum, top_spectrum
    from fishergcn.studies import fit
    from fishergcn.training import METHODS, RunRecord, TrainConfig, backend
else:
    # Hidden from type checkers, for which any misspelled name would be a module otherwise. All comes at its first
    # use, so that neither ``import fishergcn`` nor the command's help waits for torch.
    _MODULES = (
        "attacks", "certificates", "datasets", "drawing", "errors", "execution", "geometry", "graph", "integrations",
        "large", "models", "nn", "operators", "perturbation", "propagation", "report", "spectrum", "splits", "streams",
        "studies", "training",
    )  # fmt: skip
    _HOMES = {
        name: package
        for package, names in {
            "execution": ("train",),
            "graph": ("Graph",),
            "models": ("TrainedModel", "best_run", "load_model", "save_models"),
            "nn": ("GCN",),
            "operators": ("SparsePlusLowRank",),
            "perturbation": ("Neighborhood", "SpectralAdversary"),
            "propagation": ("high_order", "renormalized"),
            "spectrum": ("Spectrum", "top_spectrum"),
            "studies": ("fit",),
            "training": ("METHODS", "RunRecord", "TrainConfig", "backend"),
        }.items()
        for name in names
    }

    def __getattr__(name: str) -> object:
        """Import a package, or what stands in one, at its first use."""
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _HOMES:
            found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_MODULES})
