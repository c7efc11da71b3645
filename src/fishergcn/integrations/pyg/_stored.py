"""A spectrum stored on ``Data``, how it is known to belong to the links that are there now, and its rows for a batch.

A row per graph, so that PyG's batches put graphs on top of each other: ``bures_eigenvalues`` (1, k), ``bures_trace``
(1,) and ``bures_digest`` (1, 4); ``bures_basis`` has a row per node, which loaders slice like features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.checks import check_integer
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._graph import (
    AUTO,
    STORED,
    BaseTransform,
    Links,
    Reading,
    blocks_of,
    device_of,
    graph_of_nodes,
    propagation_of,
    read_links,
    slices_of,
)
from fishergcn.perturbation import graph_spectrum
from fishergcn.spectrum import Spectrum

BASIS, EIGENVALUES, TRACE, DIGEST = STORED
AGAIN = "apply AddBuresSpectrum again"
# Odd constants of a 64-bit mixing function (SplitMix64), as signed numbers.
_MIX = (-4658895280553007687, -7723592293110705685)
_STEP = -7046029254386353131
# The columns of a digest that hold the links, however nodes are numbered, and the number of nodes.
LINKS, NODES = 1, 2


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
    seed : int
        Of the eigen-solver.
    self_links, normalize, weights
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
        """Return ``data`` with the spectrum on it, of each graph of a batch; zeros where there are fewer than k."""
        rank, reading = self.rank, Reading(self.self_links, self.normalize, self.weights)
        links = read_links(data, reading)
        matrix = propagation_of(links, reading)
        graph = graph_of_nodes(data)
        blocks = [matrix] if graph is None else blocks_of(matrix, graph, int(data.num_graphs))
        spectra = [graph_spectrum(block, rank, self.seed) for block in blocks]
        device = device_of(data)
        basis = np.concatenate([np.pad(each.eigenvectors, ((0, 0), (0, rank - each.rank))) for each in spectra])
        eigenvalues = np.stack([np.pad(each.eigenvalues, (0, rank - each.rank)) for each in spectra])
        data[BASIS] = torch.tensor(basis, device=device)
        data[EIGENVALUES] = torch.tensor(eigenvalues, device=device)
        data[TRACE] = torch.tensor([each.trace for each in spectra], dtype=torch.float64, device=device)
        data[DIGEST] = digest_of(links, reading, graph, len(blocks)).to(device)
        return data

    def __repr__(self) -> str:
        return f"AddBuresSpectrum(rank={self.rank}, self_links={self.self_links})"


class Rows(NamedTuple):
    """The rows of Ū (n, k) for the nodes of a pass."""

    basis: Tensor
    graph: Tensor | None = None  # which graph each node belongs to; None: one graph
    eigenvalues: Tensor | None = None  # (G, k), of graphs that a batch brought along
    part: bool = False  # layers may see only the first rows
    numbers: Tensor | None = None  # of the nodes in the adversary's graph


def digest_of(links: Links, reading: Reading, graph: Tensor | None = None, graphs: int = 1) -> Tensor:
    """Return, for each graph, two sums of hashes of its weighted arcs, its number of nodes and how it was read.

    The first sum depends on the numbers of the nodes, the second on their degrees instead: loaders may number nodes
    anew. The order of the arcs does not matter. Shape (graphs, 4).
    """
    arcs = links.arcs
    graph = torch.zeros(links.nodes, dtype=torch.long) if graph is None else graph.to(arcs.device)
    sizes = torch.bincount(graph, minlength=graphs)
    first = sizes.cumsum(0) - sizes
    weight = torch.ones(arcs.shape[1], dtype=torch.float64) if links.weight is None else links.weight.double()
    bits = (weight + 0.0).view(torch.int64)
    owner = graph[arcs[0]]
    degree = torch.bincount(arcs[0], minlength=links.nodes)
    numbers, degrees = arcs - first[owner], degree[arcs]
    words = torch.stack([_mixed(_mixed(_mixed(ends[0]) + ends[1]) + bits) for ends in (numbers, degrees)], dim=1)
    sums = torch.zeros(graphs, 2, dtype=torch.int64).index_add(0, owner, words)
    how = torch.full((graphs,), reading.self_links if reading.normalize else 3, dtype=torch.int64)
    return torch.cat([sums, sizes.unsqueeze(1), how.unsqueeze(1)], dim=1)


def _mixed(word: Tensor) -> Tensor:
    word = word + _STEP
    word = (word ^ ((word >> 30) & 0x3FFFFFFFF)) * _MIX[0]
    word = (word ^ ((word >> 27) & 0x1FFFFFFFFF)) * _MIX[1]
    return word ^ ((word >> 31) & 0x1FFFFFFFF)


def stored_spectra(data: Any, links: Links, reading: Reading, rank: int | None) -> list[Spectrum] | None:
    """Return the spectra on ``data``, one for each graph, None if there are none, or raise if they do not fit."""
    if BASIS not in data:
        return None
    check_stored(data)
    graph = graph_of_nodes(data)
    graphs = len(data[EIGENVALUES])
    now = digest_of(links, reading, graph, graphs) if graph is None or graphs == data.num_graphs else None
    found = data[EIGENVALUES].shape[1]
    if rank is not None and rank != found:
        raise InputError(
            f"rank must be that of the spectrum stored on data, {found}, got {rank}; leave it out or {AGAIN}."
        )
    stored = data[DIGEST].cpu()
    if now is None or now.shape != stored.shape or not torch.equal(now, stored):
        _refuse(now, stored, reading)
    numbers = [data[key].detach().cpu().double().numpy() for key in (BASIS, EIGENVALUES, TRACE)]
    rows = [slice(None)] if graph is None else slices_of(graph, graphs)
    spectra = []
    for index, part in enumerate(rows):
        kept = int((numbers[1][index] > 0).sum())
        spectra.append(
            Spectrum(numbers[1][index][:kept], numbers[0][part][:, :kept], float(numbers[2][index]), residual=0.0)
        )
    return spectra


def check_stored(data: Any) -> None:
    """Raise if the attributes of a stored spectrum are not all there."""
    missing = [key for key in STORED if key not in data]
    if missing:
        raise InputError(f"data holds a spectrum without {missing[0]}: whether it fits the links is unknown; {AGAIN}.")
    if data[EIGENVALUES].ndim != 2 or data[DIGEST].shape != (len(data[EIGENVALUES]), 4):
        raise InputError(f"data holds a spectrum that was not stored by AddBuresSpectrum; {AGAIN}.")


def _refuse(now: Tensor | None, stored: Tensor, reading: Reading) -> None:
    if now is not None and now.shape == stored.shape and torch.equal(now[:, :3], stored[:, :3]):
        names = {0: "self_links=0", 1: "self_links=1", 2: "self_links=2", 3: "normalize=False"}
        raise InputError(
            f"the spectrum stored on data was computed with {names[int(stored[0, 3])]}, the adversary has "
            f"{names[int(now[0, 3])]}; give the same to both."
        )
    raise InputError(f"the spectrum stored on data is that of other links than data has now; {AGAIN}.")


def node_numbers(batch: Any, nodes: int) -> Tensor | None:
    """Return the numbers of the nodes of a batch in the whole graph, None if it does not hold them."""
    index: Tensor | None = batch if isinstance(batch, Tensor) else getattr(batch, "n_id", None)
    if index is None:
        return None
    what = "the node numbers of a batch" if index is batch else "n_id of a batch"
    if index.ndim != 1 or index.is_floating_point() or index.dtype == torch.bool:
        raise InputError(f"{what} must be a vector of whole numbers, got {index.dtype} of shape {tuple(index.shape)}.")
    if index is not batch and batch.num_nodes not in (None, len(index)):
        raise InputError(f"{what} must hold a number for each of its {batch.num_nodes} nodes, got {len(index)}.")
    outside = index[(index < 0) | (index >= nodes)]
    if outside.numel():
        raise InputError(f"{what} must be from 0 to {nodes - 1}, got {int(outside[0])}.")
    ordered = index.sort().values
    repeated = int((ordered[1:] == ordered[:-1]).sum())
    if repeated:
        raise InputError(f"{what} must name each node once, got {len(index)} numbers of {len(index) - repeated} nodes.")
    return index


def rows_of_batch(batch: Any, whole: Rows, digest: Tensor, reading: Reading, refreshed: bool) -> Rows:
    """Return the rows for a batch of nodes of the adversary's graph, or for a batch of graphs.

    ``refreshed`` says that the adversary's basis is that of a learned graph, so that stored rows are old.
    """
    index = node_numbers(batch, len(whole.basis))
    if index is not None:
        index = index.to(whole.basis.device)
        graph = None if whole.graph is None else whole.graph[index]
        return Rows(whole.basis[index], graph, None, part=True, numbers=index)
    if refreshed or BASIS not in batch:
        raise InputError(
            "a batch must hold n_id, the numbers of its nodes in the whole graph"
            + (", since refresh() made its stored rows old." if refreshed else f", or {BASIS}.")
        )
    check_stored(batch)
    basis, own = batch[BASIS], batch[DIGEST].cpu()
    if whole.graph is None and torch.equal(own, digest):
        basis = basis[:, : whole.basis.shape[1]]  # without the zeros of a graph that has fewer directions
    if basis.shape[1] != whole.basis.shape[1]:
        raise InputError(
            f"the batch must hold a spectrum of rank {whole.basis.shape[1]}, as the adversary has, got "
            f"{basis.shape[1]}."
        )
    if torch.any(own[:, -1] != digest[0, -1]):
        raise InputError(f"the spectra of the batch were computed with other self-links than the adversary's; {AGAIN}.")
    graph = graph_of_nodes(batch)
    if graph is None:
        graph = torch.zeros(len(basis), dtype=torch.long, device=basis.device)
    _check_links(batch, own, graph.cpu(), reading)
    if torch.equal(own, digest):
        return Rows(basis, None if whole.graph is None else graph, None, part=True)
    return Rows(basis, graph, batch[EIGENVALUES], part=True)


def _check_links(batch: Any, own: Tensor, graph: Tensor, reading: Reading) -> None:
    """Raise if whole graphs of a batch have other links than when their spectra were stored."""
    sizes = torch.bincount(graph, minlength=len(own))
    complete = sizes == own[:, NODES]
    if not bool(complete.any()):
        return
    now = digest_of(read_links(batch, reading), reading, graph, len(own))
    changed = complete & (now[:, LINKS] != own[:, LINKS])
    if bool(changed.any()):
        number = int(changed.nonzero()[0])
        raise InputError(
            f"the spectrum stored on graph {number} of the batch is that of other links than it has now; {AGAIN}."
        )
