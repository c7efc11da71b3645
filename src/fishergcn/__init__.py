"""FisherGCN: graph convolutional networks trained in a Fisher-Bures neighborhood of their graph."""

# First of all, and without __future__, which would be looked for in the working folder too.
from fishergcn._base import first as _first  # noqa: F401

# isort: split
import importlib
from typing import TYPE_CHECKING

from fishergcn import datasets, splits
from fishergcn._version import __version__
from fishergcn.execution import train
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel, best_run, load_model, save_models
from fishergcn.nn import GCN
from fishergcn.operators import SparsePlusLowRank
from fishergcn.perturbation import Neighborhood, SpectralAdversary
from fishergcn.propagation import high_order, renormalized
from fishergcn.spectrum import Spectrum, top_spectrum
from fishergcn.training import METHODS, RunRecord, TrainConfig

__all__ = [
    "GCN", "METHODS", "Graph", "Neighborhood", "RunRecord", "SparsePlusLowRank", "SpectralAdversary", "Spectrum",
    "TrainConfig", "TrainedModel", "__version__", "best_run", "datasets", "fit", "high_order", "load_model",
    "renormalized", "save_models", "splits", "top_spectrum", "train",
]  # fmt: skip

if TYPE_CHECKING:
    from fishergcn import attacks as attacks
    from fishergcn import errors as errors
    from fishergcn import geometry as geometry
    from fishergcn import integrations as integrations
    from fishergcn import report as report
    from fishergcn import studies as studies
    from fishergcn.studies import fit as fit
else:
    # Hidden from type checkers, for which any misspelled name would be a module otherwise.
    _MODULES = ("attacks", "errors", "geometry", "integrations", "report", "studies")

    def __getattr__(name: str) -> object:
        """Import a package at its first use, so that ``import fishergcn`` stays quick."""
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name == "fit":
            return importlib.import_module(f"{__name__}.studies").fit
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted([*__all__, *_MODULES])
