"""A transform that stores the spectrum of a graph on ``Data``, where loaders find it."""

from __future__ import annotations

from typing import Any

from fishergcn._base.checks import check_integer
from fishergcn._base.imports import require
from fishergcn.integrations.pyg._graph import AUTO, Reading
from fishergcn.integrations.pyg._stored import store_spectrum

BaseTransform: Any = require(
    "torch_geometric.transforms", extra="pyg", purpose="fishergcn.integrations.pyg"
).BaseTransform


class AddBuresSpectrum(BaseTransform):  # type: ignore[misc]
    """Store the k largest eigenpairs of L = I - Ã on ``Data``, for :class:`fishergcn.integrations.pyg.BuresAdversary`.

    ``bures_basis`` (n, k) holds a row of Ū for each node, which PyG's loaders and ``subgraph`` slice like
    features; ``bures_eigenvalues`` (1, k) holds w, ``bures_trace`` (1,) tr L (all float64), and ``bures_digest`` (1, 4)
    says of which links they are. A ``Batch`` has a row of these for each of its graphs. A graph with fewer than k
    directions (few nodes, no links) has zeros in their place.

    Parameters
    ----------
    rank : int
        k.
    self_links : {0, 1, 2}
        As in :class:`fishergcn.integrations.pyg.BuresAdversary`.
    seed : int
        Of the eigen-solver.
    normalize, weights
        As in :class:`fishergcn.integrations.pyg.BuresAdversary`.

    Examples
    --------
    >>> import fishergcn
    >>> data = fishergcn.datasets.load("cora").to_pyg()
    >>> AddBuresSpectrum(rank=10)(data).bures_basis.shape
    torch.Size([2708, 10])
    """

    def __init__(
        self, rank: int = 10, *, self_links: int = 1, seed: int = 0, normalize: bool = True, weights: str | None = AUTO
    ) -> None:
        self.rank = check_integer("rank", rank, minimum=1)
        self.self_links = check_integer("self_links", self_links, minimum=0, maximum=2)
        self.seed = check_integer("seed", seed, minimum=0)
        self.normalize, self.weights = bool(normalize), weights

    def forward(self, data: Any) -> Any:
        """Return ``data`` with the spectrum on it."""
        return store_spectrum(data, self.rank, self.seed, Reading(self.self_links, self.normalize, self.weights))

    def __repr__(self) -> str:
        return f"AddBuresSpectrum(rank={self.rank}, self_links={self.self_links})"
