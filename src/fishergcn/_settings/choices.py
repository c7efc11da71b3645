"""The words of each choice that several packages know: a type for signatures, whose words ``get_args`` lists."""

from __future__ import annotations

from typing import Literal, TypeAlias

# The neighborhood of a graph.
Noise: TypeAlias = Literal["uniform", "gaussian"]
Directions: TypeAlias = Literal["high", "low", "random"]
Congruence: TypeAlias = Literal["nodes", "polynomial", "links"]
Scale: TypeAlias = Literal["projected", "trace"]
Metric: TypeAlias = Literal["bures", "log-det", "frobenius"]

# The network.
Scaling: TypeAlias = Literal["rows", "none", "columns"]
Norm: TypeAlias = Literal["none", "layer", "batch"]

# Training.
TrainingNoise: TypeAlias = Literal["uniform", "gaussian", "mean"]
Perturbation: TypeAlias = Literal["spectral", "link-flip", "link-drop", "spatial"]
Stopping: TypeAlias = Literal["paper", "patience", "none"]
TestAt: TypeAlias = Literal["last", "best-val"]
ClassWeight: TypeAlias = Literal["none", "balanced"]
Precision: TypeAlias = Literal["float32", "float64"]
Settings: TypeAlias = Literal["general", "paper"]
