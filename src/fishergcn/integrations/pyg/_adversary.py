"""The adversary for models of PyTorch Geometric: keep the model and the loop, add a few lines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fishergcn._base.checks import check_integer
from fishergcn._settings.choices import Noise
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._attached import LayerAdversary
from fishergcn.integrations.pyg._comparison import check_rows
from fishergcn.integrations.pyg._entry import outside_transforms
from fishergcn.integrations.pyg._graph import (
    AUTO,
    Reading,
    as_batch,
    blocks_of,
    device_of,
    graph_of_nodes,
    learned_propagation,
    propagation_of,
    read_links,
)
from fishergcn.integrations.pyg._layers import Layer
from fishergcn.integrations.pyg._pass import Pass
from fishergcn.integrations.pyg._stored import Rows, digest_of, rows_of_batch, stored_spectra
from fishergcn.perturbation import BlockNeighborhood, Neighborhood, PerturbationWarning

RANK = 10


class BuresAdversary(LayerAdversary):
    """An adversary on the graph of any model that sums or averages over neighbors.

    Every product of an attached layer with its graph, out_i = Σ_j a_ij x_j, becomes

        out - Ū (c ∘ (Ūᵀ x)),   c = Σw (q - λ̄),   q = softmax(θ̄ + φ)

    with (w, Ū) the k largest eigenpairs of L = I - Ã on the largest connected component, and Ã the
    symmetrically normalized graph. For a layer that multiplies with Ã (GCNConv, SGConv, APPNP, GCN2Conv,
    TAGConv, …) the result is Ã(φ) x. A layer with other weights (the means of SAGEConv, the sums of
    GraphConv and GINConv, the attention of GATConv, head by head) gets the same correction, from the
    parameter-free graph. Of several graphs each has its own spectrum and its own φ; they share ξ.

    Parameters
    ----------
    data : torch_geometric.data.Data, Batch, or a list or data set of Data
        The whole graph, or all graphs: ``edge_index`` with both arcs of each link (or ``adj_t``). A spectrum
        that :class:`AddBuresSpectrum` put on it is used, and refused if the links have changed since.
    rank : int, optional
        k; that of the stored spectrum, or 10.
    radius : float
        ε; 0 leaves the model as it is.
    samples : int
        M, the perturbed passes of one step.
    seed : int
        Of the eigen-solver, the first ξ and the draws.
    noise : {"uniform", "gaussian"}
        As in :class:`fishergcn.Neighborhood`.
    adversarial : bool
        False draws isotropic noise, ϕ = ε·1.
    self_links : {0, 1, 2}
        Weight of the self-link that the normalization gives to nodes without one: 1 for most layers, 0 for
        TAGConv, LGConv and ``add_self_loops=False``, 2 for GCNConv with ``improved=True``.
    normalize : bool
        False takes the weights as Ã itself, as ``T.GCNNorm()`` leaves them for layers with ``normalize=False``.
    weights : str, optional
        The attribute of ``data`` with the weights of the links; None leaves weights out. By default ("auto")
        ``edge_weight`` or else, if it is a single column of numbers, ``edge_attr``.

    Notes
    -----
    The perturbation applies inside :meth:`average` and :meth:`perturbed`, in the thread (or asyncio task) that
    called them. Attached layers change their class for a subclass of the same name; copies and pickles of the model
    are plain models. Compiled models (``torch.compile``) are perturbed like others, without graph breaks.

    In the first pass on the whole graph each layer's matrix is compared with Ã; a :class:`fishergcn.perturbation.
    PerturbationWarning` names a layer that multiplies with another one.

    In models wrapped by ``DistributedDataParallel`` ξ starts from that of the first process, and its gradient is
    averaged over processes like that of the weights.

    Examples
    --------
    >>> import fishergcn, torch
    >>> from torch_geometric.nn import GCNConv
    >>> data = fishergcn.datasets.load("cora").to_pyg()
    >>> model = GCNConv(1433, 7)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    >>> adversary = BuresAdversary(data, rank=10, radius=0.1, samples=5).attach(model)
    >>> optimizer.add_param_group(adversary.parameter_group())
    >>> loss = adversary.average(
    ...     lambda: torch.nn.functional.cross_entropy(
    ...         model(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]
    ...     )
    ... )
    >>> loss.backward()
    >>> optimizer.step()
    """

    neighborhood: Neighborhood

    def __init__(
        self,
        data: Any,
        rank: int | None = None,
        radius: float = 0.1,
        samples: int = 5,
        *,
        seed: int = 0,
        noise: Noise = "uniform",
        adversarial: bool = True,
        self_links: int = 1,
        normalize: bool = True,
        weights: str | None = AUTO,
    ) -> None:
        self_links = check_integer("self_links", self_links, minimum=0, maximum=2)
        reading = Reading(self_links, bool(normalize), weights)
        data = as_batch(data)
        links = read_links(data, reading)
        matrix = propagation_of(links, reading)
        spectra = stored_spectra(data, links, reading, rank)
        rank = (RANK if spectra is None else data.bures_eigenvalues.shape[1]) if rank is None else rank
        options: dict[str, Any] = {"rank": rank, "radius": radius, "noise": noise, "seed": seed}
        graph = graph_of_nodes(data)
        neighborhood: Neighborhood
        if graph is None:
            if spectra is not None and spectra[0].rank == 0:
                raise InputError("data must have links to perturb, got none.")
            neighborhood = Neighborhood(matrix, spectrum=None if spectra is None else spectra[0], **options)
        else:
            blocks = blocks_of(matrix, graph, int(data.num_graphs))
            neighborhood = BlockNeighborhood(blocks, spectra=spectra, **options)
        super().__init__(neighborhood, samples, seed, adversarial, matrix=matrix, reading=reading, source=links.source)
        self.self_links, self._reading = self_links, reading
        self._digest = digest_of(links, reading, None if graph is None else graph.cpu(), neighborhood.graphs)
        self._kept_rows: dict[Any, Rows] = {}
        self.to(device_of(data))

    def _check_layer(self, layer: Layer) -> None:
        if layer.self_links not in (None, self.self_links) and self._reading.normalize:
            layer.settled = True
            warnings.warn(
                f"{layer.name} normalizes the graph with self-links of weight {layer.self_links}, the "
                f"adversary with {self.self_links}: its perturbed graph is in general no density matrix. "
                f"Use self_links={layer.self_links}.",
                PerturbationWarning,
                stacklevel=3,
            )

    def _passes(self, batch: Any) -> tuple[Tensor, Callable[[Tensor], Pass]]:
        rows = self._rows(batch)
        around = self._around(rows)
        noise = around.noise(self.samples, self._generator) * self.shape
        return around.coefficients(around.phi(noise, 1.0)), lambda c: Pass(self, c, rows, only_training=True)

    @contextmanager
    def perturbed(self, phi: Tensor, batch: Any = None) -> Iterator[None]:
        """Run the attached layers on Ã(φ), in training and in evaluation mode.

        With checkpoints, ``backward()`` belongs inside too. Blocks may be nested: the innermost counts.

        Parameters
        ----------
        phi : Tensor of shape (k,), or (G, k) for several graphs
            φ, one row of :meth:`draw`; a single one is that of all graphs.
        batch : Data, Batch or Tensor, optional
            A mini-batch of any loader. Of nodes: its ``n_id`` (or the index tensor itself, in the order of the nodes of
            the batch) picks rows of the global basis, so that the correction is Ū_B diag(c) Ū_Bᵀ; a batch
            without ``n_id`` must hold its rows, from :class:`AddBuresSpectrum`. Of graphs: each must hold its
            spectrum, from :class:`AddBuresSpectrum`.
        """
        rows = self._rows(batch)
        around = self._around(rows)
        shared = around.graph is not None and phi.ndim == 1
        coefficients = around.coefficients(phi.expand(around.graphs, -1) if shared else phi)
        if coefficients.ndim != 1 + (rows.graph is not None):
            raise InputError(f"phi must have shape {tuple(coefficients.shape[1:])}, got {tuple(phi.shape)}.")
        perturbation = Pass(self, coefficients, rows, only_training=False)
        with self._in_force(perturbation):
            yield
        check_rows(perturbation, batch)

    def refresh(self, edge_index: Tensor, edge_weight: Tensor | None = None) -> None:
        """Take the basis from a learned graph; ξ, the radius and the state of the draws stay.

        Parameters
        ----------
        edge_index : Tensor of shape (2, arcs)
            The current graph, for instance from GATConv with ``return_attention_weights=True``.
        edge_weight : Tensor of shape (arcs,) or (arcs, heads), optional
            Its non-negative weights, averaged over heads. The spectrum is that of (A + Aᵀ)/2, normalized.
        """
        old = self.neighborhood
        if old.graph is not None:
            raise InputError(
                "refresh takes the learned graph of one Data; this adversary was built from several graphs."
            )
        nodes = old.propagation.shape[0]
        propagation = learned_propagation(edge_index, edge_weight, nodes, self.self_links)
        new = Neighborhood(propagation, rank=old.rank, radius=old.radius, noise=old.noise_kind)
        self.neighborhood = new.to(old.device, old.dtype)
        self._comparison, self._kept_rows = None, {}

    def _around(self, rows: Rows) -> Neighborhood:
        """Return the neighborhood of the graphs of a batch, or of the adversary's own."""
        if rows.eigenvalues is None:
            return self.neighborhood
        if self.neighborhood.graph is None:
            raise InputError(
                "the batch holds other graphs than the one that the adversary was built from; build it from all of "
                "them: a Batch, a list of Data or a data set."
            )
        return self.neighborhood.like(rows.eigenvalues)

    def _rows(self, batch: Any) -> Rows:
        """Return the rows of Ū for a batch, or all of them, on the adversary's device."""
        dtype = self._dtype()
        whole = self._kept_rows.get(key := (self.xi.device, dtype))
        if whole is None:
            around = self.neighborhood
            with outside_transforms():  # they are used in other passes too
                graph = None if around.graph is None else around.graph.to(self.xi.device)
                whole = Rows(around.rows.to(self.xi.device, dtype), graph)
            self._kept_rows = {key: whole}
        if batch is None:
            return whole
        return rows_of_batch(batch, whole, self._digest, self._reading, self._comparison is None)

    def _dtype(self) -> torch.dtype:
        """Return the precision in which rows are kept: that of the layers, so that it is not changed in each pass."""
        used = {parameter.dtype for layer in self._layers for parameter in layer.module.parameters()}
        return torch.float32 if torch.float32 in used and torch.float64 not in used else torch.float64

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the adversary without what it can compute again."""
        return super().__getstate__() | {"_kept_rows": {}}
