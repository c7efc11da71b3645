"""The adversary for models of PyTorch Geometric: keep the model and the loop, add a few lines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from fishergcn._base.averaging import MeanLoss
from fishergcn._base.checks import check_integer
from fishergcn._base.choices import Noise
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._ascent import Ascent
from fishergcn.integrations.pyg._compare import difference
from fishergcn.integrations.pyg._eagerly import eagerly
from fishergcn.integrations.pyg._entry import enter, in_force, leave
from fishergcn.integrations.pyg._graph import (
    AUTO,
    Reading,
    as_batch,
    blocks_of,
    graph_of_nodes,
    learned_propagation,
    propagation_of,
    read_links,
)
from fishergcn.integrations.pyg._layers import Layer, find_layers
from fishergcn.integrations.pyg._pass import Pass, Rows
from fishergcn.integrations.pyg._rows import rows_of_batch
from fishergcn.integrations.pyg._statistics import RunningStatistics
from fishergcn.integrations.pyg._stored import digest_of, stored_spectra
from fishergcn.perturbation import BlockNeighborhood, Neighborhood, PerturbationWarning, SpectralAdversary

if TYPE_CHECKING:
    from typing_extensions import Self

RANK = 10


class BuresAdversary(SpectralAdversary):
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
        super().__init__(neighborhood, samples=samples, seed=seed, adversarial=adversarial)
        self.self_links = self_links
        self._reading, self._source = reading, links.source
        self._digest = digest_of(links, reading, None if graph is None else graph.cpu(), len(self._graphs()))
        self._layers: list[Layer] = []
        self._roots: list[nn.Module] = []
        self._kept_rows: dict[Any, Rows] = {}
        self._refreshed = self._started = False
        self._group: Any = None
        self._ascent = Ascent()
        index = getattr(data, "edge_index", None)
        self.to((data.adj_t if index is None else index).device)

    def attach(self, *modules: nn.Module, also: Mapping[type[Any], str] | None = None) -> Self:
        """Let the adversary into all message passing layers of a model, or into the layers given.

        Parameters
        ----------
        *modules : nn.Module
            A model, compiled or not, or single layers of it. Batch normalization in them moves its running statistics
            once in each :meth:`average`, by the mean over the passes.
        also : mapping from layer class to str, optional
            Layers of your own whose messages are a_ij x_j, with the keyword of ``propagate`` that holds x.

        Returns
        -------
        BuresAdversary
            Itself; as a context manager it detaches at the end.

        Raises
        ------
        InputError
            If a layer does not sum or average such messages (the error names it), or is attached already.
        """
        layers = find_layers(modules, also or {})
        attached = {id(layer.module) for layer in self._layers}
        for layer in layers:
            if id(layer.module) in attached:
                raise InputError(f"{layer.name} is attached already; detach() first.")
            if layer.self_links not in (None, self.self_links) and self._reading.normalize:
                layer.compared = True
                warnings.warn(
                    f"{layer.name} normalizes the graph with self-links of weight {layer.self_links}, the "
                    f"adversary with {self.self_links}: its perturbed graph is in general no density matrix. "
                    f"Use self_links={layer.self_links}.",
                    PerturbationWarning,
                    stacklevel=2,
                )
        for layer in layers:
            enter(layer.module, self, layer)
        self._layers += layers
        self._roots += modules
        for root in modules:
            for module in root.modules():
                if isinstance(module, DistributedDataParallel):
                    self._join(module.process_group)
        return self

    def detach(self) -> None:
        """Leave the model: it is what it was before :meth:`attach`."""
        for layer in self._layers:
            leave(layer.module, self)
        self._layers, self._roots = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def average(self, closure: Callable[[], Tensor], batch: Any = None, *, keep: bool = False) -> Tensor:
        """Return the mean of a loss over M perturbed passes, each with its own φ and dropout masks.

        The backward pass of each is run at once, so that M passes need the memory of one; ``backward()`` of the result
        hands the gradients on. In evaluation mode it is the loss of one unperturbed pass.

        Parameters
        ----------
        closure : callable
            Runs the model and returns the loss, a tensor of any shape. Passes whose loss is no scalar are kept.
        batch : Data or Tensor, optional
            What the model sees, if not the graph that the adversary was built from: see :meth:`perturbed`.
        keep : bool
            Keep all M passes for your ``backward()``, in M times the memory: for second derivatives, and for compiled
            float16 models with a gradient scaler.
        """
        if not self._layers:
            raise InputError("the adversary must be attached to a model first: adversary.attach(model).")
        if not callable(closure):
            raise InputError(f"closure must be a function that returns the loss, got {type(closure).__name__}.")
        if not any(layer.module.training for layer in self._layers):
            return _tensor(closure())
        if self._group is None:  # a process of several knows only a part of the gradient
            self._ascent.judge(self.xi)
        rows = self._rows(batch)
        around = self._around(rows)
        coefficients = around.coefficients(around.phi(around.noise(self.samples, self._generator) * self.shape, 1.0))
        mean, statistics = MeanLoss(self.samples, keep), RunningStatistics(self._roots)
        gradients: list[Tensor | None] = []
        for c in coefficients:
            with self._in_force(Pass(self, c, rows, only_training=True)):
                gradients.append(mean.add(_tensor(closure()), also=c if c.requires_grad else None))
            statistics.end_of_pass()
        statistics.end_of_step()
        if not mean.keep:
            for layer in self._layers:
                layer.waiting = False
        if any(each is not None for each in gradients):
            known = torch.stack([torch.zeros_like(coefficients[0]) if each is None else each for each in gradients])
            (gradient,) = torch.autograd.grad(coefficients, self.xi, known, retain_graph=mean.keep)
            mean.deposit(self.xi, gradient)
            self._ascent.remember(self.xi, gradient)
        return mean.result()

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
        coefficients = around.coefficients(self._for_each_graph(phi, around))
        if coefficients.ndim != 1 + (rows.graph is not None):
            raise InputError(f"phi must have shape {tuple(coefficients.shape[1:])}, got {tuple(phi.shape)}.")
        with self._in_force(Pass(self, coefficients, rows, only_training=False)):
            yield

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
        if isinstance(old, BlockNeighborhood):
            raise InputError(
                "refresh takes the learned graph of one Data; this adversary was built from several graphs."
            )
        nodes = old.propagation.shape[0]
        propagation = learned_propagation(edge_index, edge_weight, nodes, self.self_links)
        new = Neighborhood(propagation, rank=old.rank, radius=old.radius, noise=old.noise_kind)
        self.neighborhood = new.to(old.device, old.dtype)
        self._refreshed, self._kept_rows = True, {}

    def _graphs(self) -> Tensor:
        """Return w with a row for each graph."""
        around = self.neighborhood
        return around.eigenvalues if isinstance(around, BlockNeighborhood) else around.projected_spectrum.unsqueeze(0)

    def _around(self, rows: Rows) -> Neighborhood:
        """Return the neighborhood of the graphs of a batch, or of the adversary's own."""
        around = self.neighborhood
        if rows.eigenvalues is None:
            return around
        if not isinstance(around, BlockNeighborhood):
            raise InputError(
                "the batch holds other graphs than the one that the adversary was built from; build it from all of "
                "them: a Batch, a list of Data or a data set."
            )
        return around.like(rows.eigenvalues)

    def _for_each_graph(self, phi: Tensor, around: Neighborhood) -> Tensor:
        if isinstance(around, BlockNeighborhood) and phi.ndim == 1:
            return phi.expand(len(around.eigenvalues), -1)
        return phi

    def _rows(self, batch: Any) -> Rows:
        """Return the rows of Ū for a batch, or all of them, on the adversary's device."""
        dtype = self._dtype()
        whole = self._kept_rows.get(key := (self.xi.device, dtype))
        if whole is None:
            around = self.neighborhood
            if isinstance(around, BlockNeighborhood):
                whole = Rows(around.rows.to(self.xi.device, dtype), around.graph.to(self.xi.device))
            else:
                whole = Rows(torch.tensor(around.spectrum.eigenvectors, device=self.xi.device, dtype=dtype))
            self._kept_rows = {key: whole}
        if batch is None:
            return whole
        return rows_of_batch(batch, whole, self._digest, self._reading, self._refreshed)

    def _dtype(self) -> torch.dtype:
        """Return the precision in which rows are kept: that of the layers, so that it is not changed in each pass."""
        for layer in self._layers:
            for parameter in layer.module.parameters():
                if parameter.dtype == torch.float32:
                    return torch.float32
        return torch.float64

    @contextmanager
    def _in_force(self, perturbation: Pass) -> Iterator[None]:
        # Compiled layers run as they are written in the first pass, so that their matrices can be compared.
        with nullcontext() if self._started else eagerly(), in_force(perturbation):
            yield
        if not perturbation.seen:
            raise InputError(
                "no attached layer multiplied with its graph during the pass: the model that ran may be a copy of the "
                "attached one, or another one."
            )
        if not self._started:
            left = [layer.name for layer in self._layers if layer.name not in perturbation.seen]
            if left:
                warn(f"{', '.join(left)} did not run in the first perturbed pass: only layers that run are perturbed.")
            self._started = True

    def _note(self, perturbation: Pass, layer: Layer, module: Any, edge_index: Any, given: dict[str, Any]) -> None:
        """See, in a layer's first pass, with which matrix it multiplies and whether it is one of several processes."""
        if self._group is None and distributed.is_available() and distributed.is_initialized():
            wrapper = getattr(DistributedDataParallel, "_active_ddp_module", None)
            if wrapper is not None:
                self._join(wrapper.process_group)
        if layer.compared or perturbation.part or self._refreshed:
            return
        layer.compared = True
        matrix = self.neighborhood.propagation.scipy
        said = difference(layer, module, edge_index, given, matrix, self._reading, self._source)
        if said is not None:
            warn(said, PerturbationWarning)

    def _join(self, group: Any) -> None:
        """Keep ξ equal in the processes of a group from now on."""
        if self._group is not None or distributed.get_world_size(group) == 1:
            return
        self._group = group
        first = distributed.get_global_rank(group, 0) if group is not None else 0
        distributed.broadcast(self.xi.data, first, group=group)
        # After each backward(): the mean of what has been added up, of which all earlier parts are equal already.
        self.xi.register_post_accumulate_grad_hook(self._synchronize)  # type: ignore[no-untyped-call]

    def _synchronize(self, xi: Tensor) -> None:
        if xi.grad is not None:
            distributed.all_reduce(xi.grad, group=self._group)
            xi.grad /= distributed.get_world_size(self._group)

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the adversary by itself, since copies of the layers are plain layers."""
        alone: dict[str, Any] = {"_layers": [], "_roots": [], "_kept_rows": {}, "_group": None, "_started": False}
        return self.__dict__ | alone

    def extra_repr(self) -> str:
        """What ``print(adversary)`` shows."""
        return f"{super().extra_repr()}, layers={[layer.name for layer in self._layers]}"


def _tensor(loss: Any) -> Tensor:
    """Return what a closure did if it can be averaged and differentiated."""
    if not isinstance(loss, Tensor):
        raise InputError(f"closure must return the loss as a tensor (without .item()), got {type(loss).__name__}.")
    return loss
