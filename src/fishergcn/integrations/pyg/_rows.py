"""Which rows of which basis belong to the nodes of a mini-batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fishergcn.errors import InputError
from fishergcn.integrations.pyg._graph import Reading, graph_of_nodes, read_links
from fishergcn.integrations.pyg._pass import Rows
from fishergcn.integrations.pyg._stored import AGAIN, BASIS, DIGEST, EIGENVALUES, check_stored, digest_of

LINKS, NODES = 1, 2  # the columns of a digest that hold the links, however nodes are numbered, and the number of nodes


def rows_of_batch(batch: Any, whole: Rows, digest: Tensor, reading: Reading, refreshed: bool) -> Rows:
    """Return the rows for a batch of nodes of the adversary's graph, or for a batch of graphs.

    Parameters
    ----------
    batch : Data, Batch or Tensor
        Node numbers; a part of the adversary's graph; or whole graphs with spectra of their own.
    whole : Rows
        Those of the adversary.
    digest : Tensor
        That of the adversary's graphs.
    reading : Reading
        How the adversary reads ``Data``.
    refreshed : bool
        Whether the adversary's basis is that of a learned graph, so that stored rows are old.
    """
    index = batch if isinstance(batch, Tensor) else getattr(batch, "n_id", None)
    if index is not None:
        index = index.to(whole.basis.device)
        graph = None if whole.graph is None else whole.graph[index]
        return Rows(whole.basis[index], graph, None, part=True)
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
