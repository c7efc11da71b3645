"""The adversary for models of PyTorch Geometric: keep the model and the loop, add a few lines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from fishergcn._base.checks import check_integer
from fishergcn._base.choices import Noise
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._graph import BASIS, data_propagation, learned_propagation, stored_spectrum
from fishergcn.integrations.pyg._layers import Layer, find_layers
from fishergcn.perturbation import Neighborhood, PerturbationWarning, SpectralAdversary

if TYPE_CHECKING:
    from typing_extensions import Self


class _Pass(NamedTuple):
    """One perturbed pass: c, the rows of the basis, and whether layers may see only the first of them."""

    coefficients: Tensor
    basis: Tensor
    sampled: bool


class BuresAdversary(SpectralAdversary):
    """An adversary on the graph of any model that sums or averages over neighbors.

    Every product of an attached layer with its graph, out_i = Σ_j a_ij x_j, becomes

        out - Ū (c ∘ (Ūᵀ x)),   c = Σw (q - λ̄),   q = softmax(θ̄ + φ)

    with (w, Ū) the k largest eigenpairs of L = I - Ã on the largest connected component, and Ã the
    symmetrically normalized graph. For a layer that multiplies with Ã (GCNConv, SGConv, APPNP, GCN2Conv,
    TAGConv, …) the result is Ã(φ) x. A layer with other weights (the means of SAGEConv, the sums of
    GraphConv and GINConv, the attention of GATConv, head by head) gets the same correction, from the
    parameter-free graph.

    Parameters
    ----------
    data : torch_geometric.data.Data
        The whole graph: ``edge_index`` with both arcs of each link and, if there, ``edge_weight``. A spectrum
        that :class:`AddBuresSpectrum` put on it is used.
    rank : int
        k, where the spectrum has to be computed.
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

    Notes
    -----
    The correction enters through ``register_propagate_forward_hook``; it applies inside :meth:`average` and
    :meth:`perturbed`, to layers in training mode. PyG leaves its hooks out of compiled models
    (``torch.compile``): they are refused in the first pass.

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
        rank: int = 10,
        radius: float = 0.1,
        samples: int = 5,
        *,
        seed: int = 0,
        noise: Noise = "uniform",
        adversarial: bool = True,
        self_links: int = 1,
    ) -> None:
        self_links = check_integer("self_links", self_links, minimum=0, maximum=2)
        neighborhood = Neighborhood(
            data_propagation(data, self_links),
            rank=rank,
            radius=radius,
            noise=noise,
            seed=seed,
            spectrum=stored_spectrum(data),
        )
        super().__init__(neighborhood, samples=samples, seed=seed, adversarial=adversarial)
        self.self_links = self_links
        self._layers: list[Layer] = []
        self._handles: list[Any] = []
        self._current: _Pass | None = None
        self._products = 0
        self._rows: Tensor | None = None
        self._refreshed = False
        self.to(data.edge_index.device)

    def attach(self, *modules: nn.Module, also: Mapping[type[Any], str] | None = None) -> Self:
        """Let the adversary into all message passing layers of a model, or into the layers given.

        Parameters
        ----------
        *modules : nn.Module
            A model, or single layers of it.
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
            if layer.self_links not in (None, self.self_links):
                warnings.warn(
                    f"{layer.name} normalizes the graph with self-links of weight {layer.self_links}, the "
                    f"adversary with {self.self_links}: its perturbed graph is in general no density matrix. "
                    f"Use self_links={layer.self_links}.",
                    PerturbationWarning,
                    stacklevel=2,
                )
        for layer in layers:
            self._handles.append(layer.module.register_propagate_forward_hook(partial(self._correct, layer)))
        self._layers += layers
        return self

    def detach(self) -> None:
        """Leave the model: it is what it was before :meth:`attach`."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._layers = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def average(self, closure: Callable[[], Tensor], batch: Any = None) -> Tensor:
        """Return the mean of a loss over M perturbed passes, each with its own φ and dropout masks.

        In evaluation mode it is the loss of one unperturbed pass.

        Parameters
        ----------
        closure : callable
            Runs the model and returns the loss, a tensor of any shape.
        batch : Data or Tensor, optional
            The sub-graph that the model sees, if not the whole graph: see :meth:`perturbed`.
        """
        if not self._layers:
            raise InputError("the adversary must be attached to a model first: adversary.attach(model).")
        if not callable(closure):
            raise InputError(f"closure must be a function that returns the loss, got {type(closure).__name__}.")
        if not any(layer.module.training for layer in self._layers):
            return _tensor(closure())
        losses = []
        for phi in self.draw():
            with self.perturbed(phi, batch):
                losses.append(_tensor(closure()))
        # Around the first loss, so that equal ones average to exactly themselves.
        center = losses[0].detach()
        return center + torch.stack([loss - center for loss in losses]).mean(dim=0)

    @contextmanager
    def perturbed(self, phi: Tensor, batch: Any = None) -> Iterator[None]:
        """Run the attached layers, those in training mode, on Ã(φ).

        Parameters
        ----------
        phi : Tensor of shape (k,)
            φ, one row of :meth:`draw`.
        batch : Data or Tensor, optional
            A mini-batch of any loader: its ``n_id`` (or the index tensor itself, in the order of the nodes of
            the batch) picks rows of the global basis, so that the correction is Ū_B diag(c) Ū_Bᵀ. A batch
            without ``n_id`` must hold its rows, from :class:`AddBuresSpectrum`.
        """
        coefficients = self.neighborhood.coefficients(phi)
        if coefficients.ndim != 1:
            raise InputError(f"phi must have shape ({self.neighborhood.rank},), got {tuple(phi.shape)}.")
        self._current = _Pass(coefficients, self._basis_of(batch), batch is not None)
        self._products = 0
        try:
            yield
        finally:
            self._current = None
        if self._products == 0:
            raise InputError(
                "no attached layer multiplied with its graph during the pass: the model may be compiled "
                "(torch.compile leaves PyG's hooks out), or another one than the attached."
            )

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
        nodes = old.propagation.shape[0]
        propagation = learned_propagation(edge_index, edge_weight, nodes, self.self_links)
        new = Neighborhood(propagation, rank=old.rank, radius=old.radius, noise=old.noise_kind)
        self.neighborhood = new.to(old.device, old.dtype)
        self._rows, self._refreshed = None, True

    def _basis_of(self, batch: Any) -> Tensor:
        """Return the rows of Ū for the nodes of a batch, or all of them, on the adversary's device."""
        if self._rows is None or self._rows.device != self.xi.device:
            self._rows = torch.tensor(self.neighborhood.spectrum.eigenvectors, device=self.xi.device)
        if batch is None:
            return self._rows
        index = batch if isinstance(batch, Tensor) else getattr(batch, "n_id", None)
        if index is not None:
            return self._rows[index.to(self._rows.device)]
        if BASIS in batch and not self._refreshed:
            rows: Tensor = batch[BASIS]
            return rows
        raise InputError(
            "a batch must hold n_id, the numbers of its nodes in the whole graph"
            + (", since refresh() made its stored rows old." if self._refreshed else f", or {BASIS}.")
        )

    def _correct(self, layer: Layer, module: Any, inputs: tuple[Any, Any, dict[str, Any]], out: Tensor) -> Any:
        """Subtract Ū diag(c) Ūᵀ x from what ``propagate`` returned; None leaves it as it is."""
        current = self._current
        if current is None:
            return None
        self._products += 1
        if not module.training:
            return None
        given = inputs[2][layer.argument]
        x: Tensor = given[0] if isinstance(given, tuple | list) else given
        x, result = x.movedim(module.node_dim, 0), out.movedim(module.node_dim, 0)
        if x.shape[1:] != result.shape[1:]:
            raise InputError(
                f"{layer.name} turns features of shape {tuple(x.shape[1:])} into {tuple(result.shape[1:])} "
                "while it propagates them: its messages are not of the form a_ij x_j."
            )
        rows = len(current.basis)
        if not (len(result) <= len(x) <= rows if current.sampled else len(result) == len(x) == rows):
            raise InputError(
                f"{layer.name} propagates from {len(x)} to {len(result)} nodes, but the basis has {rows} "
                "rows; give mini-batches to average(…, batch)."
            )
        # Samplers put the targets of a layer first among its sources.
        basis = current.basis[: len(x)].to(x)
        weighted = current.coefficients.to(x).unsqueeze(-1) * (basis.T @ x.flatten(1))
        correction = basis[: len(result)] @ weighted
        return (result - correction.view_as(result)).movedim(0, module.node_dim)

    def extra_repr(self) -> str:
        """What ``print(adversary)`` shows."""
        return f"{super().extra_repr()}, layers={[layer.name for layer in self._layers]}"


def _tensor(loss: Any) -> Tensor:
    """Return what a closure did if it can be averaged and differentiated."""
    if not isinstance(loss, Tensor):
        raise InputError(f"closure must return the loss as a tensor (without .item()), got {type(loss).__name__}.")
    return loss
