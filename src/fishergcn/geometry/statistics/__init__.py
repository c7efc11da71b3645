"""Statistics of graphs in the Bures geometry: distances, means, clusters, tests and changes of many graphs.

Every function takes a :class:`GraphCollection`, or graphs as its constructor takes them. A graph stands for a density
matrix: that of its Laplacian, L / tr L (``geometry="laplacian"``), or that of the pseudo-inverse of it, L† / tr L†
(``geometry="pseudoinverse"``).
"""

from __future__ import annotations

from fishergcn.geometry.statistics._attribution import ChangeExplanation, explain_change
from fishergcn.geometry.statistics._changes import Change, ChangePoints, change_points
from fishergcn.geometry.statistics._clusters import Clusters, cluster
from fishergcn.geometry.statistics._collection import GraphCollection
from fishergcn.geometry.statistics._folder import check_distances
from fishergcn.geometry.statistics._mean import GraphMean, mean, variance
from fishergcn.geometry.statistics._monitor import ChangeMonitor, MonitorStep
from fishergcn.geometry.statistics._pairwise import Distances, pairwise
from fishergcn.geometry.statistics._regression import GraphLine, geodesic_regression
from fishergcn.geometry.statistics._results import (
    GraphResults,
    change_facts,
    facts_of_test,
    keep_results,
    line_facts,
    load_results,
    mean_facts,
    pca_facts,
    words_of_test,
)
from fishergcn.geometry.statistics._scaling import Embedding, embed
from fishergcn.geometry.statistics._spectra import spectral_distance
from fishergcn.geometry.statistics._tangent import TangentPCA, tangent_pca
from fishergcn.geometry.statistics._tests import IndependenceTest, TwoSampleTest, independence, two_sample_test

__all__ = [
    "ChangeMonitor", "GraphCollection", "change_points", "cluster", "embed", "explain_change", "geodesic_regression",
    "independence", "mean", "pairwise", "spectral_distance", "tangent_pca", "two_sample_test", "variance",
]  # fmt: skip

# What the functions return, and what the command line and pages use.
SHARED = (
    "Change", "ChangeExplanation", "ChangePoints", "Clusters", "Distances", "Embedding", "GraphLine", "GraphMean",
    "GraphResults", "IndependenceTest", "MonitorStep", "TangentPCA", "TwoSampleTest", "change_facts", "check_distances",
    "facts_of_test",
    "keep_results", "line_facts", "load_results", "mean_facts", "pca_facts", "words_of_test",
)  # fmt: skip
