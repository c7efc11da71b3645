"""Node weights for models of PyTorch Geometric: a perturbation without a spectrum, the same in batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from fishergcn._base.choices import Noise
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.integrations.pyg._layers import Layer, find_layers
from fishergcn.perturbation import CongruenceNeighborhood, SpectralAdversary
from fishergcn.propagation import renormalized

if TYPE_CHECKING:
    from typing_extensions import Self


class _Pass(NamedTuple):
    """One perturbed pass: m of the nodes that the model sees, and s."""

    weights: Tensor
    scale: Tensor


class NodeAdversary(SpectralAdversary):
    """An adversary that decides how loud each node speaks and how well it hears.

    Every product of an attached layer with its normalized graph, out = Ã x, becomes

        x - s m ∘ (I - Ã)(m ∘ x) = (1 - s m²) ∘ x + s m ∘ Ã(m ∘ x),   m = 1 + ϕ ∘ u ∘ √12 e

    with s such that the trace of L = I - Ã stays; see :class:`fishergcn.perturbation.CongruenceNeighborhood`. A node
    needs its own weight and one number of the whole graph: no eigenvector is computed, and a mini-batch is perturbed as
    the whole graph is.

    Parameters
    ----------
    data : torch_geometric.data.Data
        The whole graph.
    radius : float
        ε, the root mean square of the Bures distance.
    samples : int
        M, the perturbed passes of one step.
    seed : int
        Of the first ξ and of the draws.
    noise : {"uniform", "gaussian"}
        As in :class:`fishergcn.Neighborhood`.
    adversarial : bool
        False draws isotropic noise, ϕ = ε·1.

    Notes
    -----
    For layers that multiply with the symmetrically normalized graph with self-links of weight 1, as GCNConv, SGConv,
    APPNP and GCN2Conv do by default; others are refused. It works through the hooks of ``propagate``, which compiled
    models leave out.

    Examples
    --------
    >>> import fishergcn, torch
    >>> from torch_geometric.nn import GCNConv
    >>> data = fishergcn.datasets.load("cora").to_pyg()
    >>> model = GCNConv(1433, 7)
    >>> adversary = NodeAdversary(data, radius=0.1, samples=2).attach(model)
    >>> optimizer = torch.optim.Adam([{"params": model.parameters()}, adversary.parameter_group()], lr=0.01)
    >>> loss = adversary.average(
    ...     lambda: torch.nn.functional.cross_entropy(
    ...         model(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]
    ...     )
    ... )
    >>> loss.backward()
    >>> optimizer.step()
    """

    neighborhood: CongruenceNeighborhood

    def __init__(
        self,
        data: Any,
        radius: float = 0.1,
        samples: int = 5,
        *,
        seed: int = 0,
        noise: Noise = "uniform",
        adversarial: bool = True,
    ) -> None:
        matrix = renormalized(Graph.from_pyg(data).adjacency)
        neighborhood = CongruenceNeighborhood(matrix, "nodes", radius, noise, seed=seed)
        super().__init__(neighborhood, samples=samples, seed=seed, adversarial=adversarial)
        self._layers: list[Layer] = []
        self._handles: list[Any] = []
        self._current: _Pass | None = None
        self._inputs: dict[int, Tensor] = {}
        self._products = 0
        self.to(data.edge_index.device)

    def attach(self, *modules: nn.Module) -> Self:
        """Let the adversary into all message passing layers of a model, or into the layers given; return itself."""
        layers = find_layers(modules, {})
        attached = {id(layer.module) for layer in self._layers}
        for layer in layers:
            if layer.self_links != 1:
                raise InputError(
                    "node weights need layers that multiply with the normalized graph with self-links of weight 1, "
                    f"got {layer.name}."
                )
            if id(layer.module) in attached:
                raise InputError(f"{layer.name} is attached already; detach() first.")
        for layer in layers:
            before = layer.module.register_propagate_forward_pre_hook(partial(self._speak, layer))
            after = layer.module.register_propagate_forward_hook(self._hear)
            self._handles += [before, after]
        self._layers += layers
        return self

    def detach(self) -> None:
        """Leave the model: it is what it was before :meth:`attach`."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._layers = [], []

    def average(self, closure: Callable[[], Tensor], batch: Any = None) -> Tensor:
        """Return the mean of a loss over M perturbed passes; in evaluation mode that of one unperturbed pass.

        Parameters
        ----------
        closure : callable
            Runs the model and returns the loss, a tensor.
        batch : Data or Tensor, optional
            A mini-batch with ``n_id``, or the numbers of its nodes in the whole graph, in their order.
        """
        if not self._layers:
            raise InputError("the adversary must be attached to a model first: adversary.attach(model).")
        if not any(layer.module.training for layer in self._layers):
            return _loss(closure())
        losses = []
        for x in self.draw():
            with self.perturbed(x, batch):
                losses.append(_loss(closure()))
        return torch.stack(losses).mean(dim=0)

    @contextmanager
    def perturbed(self, x: Tensor, batch: Any = None) -> Iterator[None]:
        """Run the attached layers, those in training mode, on the graph of node weights 1 + x, x of shape (n,)."""
        if tuple(x.shape) != (self.neighborhood.rank,):
            raise InputError(f"x must have shape ({self.neighborhood.rank},), got {tuple(x.shape)}.")
        weights = 1.0 + x
        if batch is not None:
            index = batch if isinstance(batch, Tensor) else getattr(batch, "n_id", None)
            if index is None:
                raise InputError("a batch must hold n_id, the numbers of its nodes in the whole graph.")
            weights = weights[index.to(weights.device)]
        self._current, self._products = _Pass(weights, self.neighborhood.scale_of(x)), 0
        try:
            yield
        finally:
            self._current, self._inputs = None, {}
        if self._products == 0:
            raise InputError(
                "no attached layer multiplied with its graph during the pass: the model may be compiled "
                "(torch.compile leaves PyG's hooks out), or another one than the attached."
            )

    def _speak(self, layer: Layer, module: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> Any:
        """Weigh what goes into ``propagate``."""
        if self._current is None or not module.training:
            self._products += self._current is not None
            return None
        arcs, size, arguments = inputs
        x = arguments[layer.argument]
        if not isinstance(x, Tensor):
            raise InputError(f"{layer.name} propagates from one set of nodes to another, which has no node weights.")
        moved = x.movedim(module.node_dim, 0)
        if len(moved) > len(self._current.weights):
            raise InputError(
                f"{layer.name} propagates {len(moved)} nodes, and the pass has {len(self._current.weights)}; give "
                "mini-batches to average(…, batch)."
            )
        self._products += 1
        self._inputs[id(module)] = moved
        return arcs, size, arguments | {layer.argument: (self._wide(moved) * moved).movedim(0, module.node_dim)}

    def _hear(self, module: Any, inputs: tuple[Any, Any, dict[str, Any]], out: Tensor) -> Any:
        """Weigh what came out, and add what a node keeps of itself."""
        if self._current is None or id(module) not in self._inputs:
            return None
        x, result = self._inputs.pop(id(module)), out.movedim(module.node_dim, 0)
        weights, scale = self._wide(result), self._current.scale.to(result)
        kept = (1.0 - scale * weights.square()) * x[: len(result)]  # samplers put the targets of a layer first
        return (kept + scale * weights * result).movedim(0, module.node_dim)

    def _wide(self, values: Tensor) -> Tensor:
        """Return m of the first nodes, in the form of some values of them."""
        if self._current is None:
            raise AssertionError("called within a pass")
        return self._current.weights[: len(values)].to(values).view(-1, *[1] * (values.ndim - 1))

    def extra_repr(self) -> str:
        """What ``print(adversary)`` shows."""
        return f"{super().extra_repr()}, layers={[layer.name for layer in self._layers]}"


def _loss(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor):
        raise InputError(f"closure must return the loss as a tensor (without .item()), got {type(loss).__name__}.")
    return loss
