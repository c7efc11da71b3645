"""Node weights for models of PyTorch Geometric: a perturbation without a spectrum, the same in batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fishergcn._settings.choices import Noise
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._attached import LayerAdversary
from fishergcn.integrations.pyg._comparison import check_rows
from fishergcn.integrations.pyg._entry import InForce
from fishergcn.integrations.pyg._graph import AUTO, Reading, as_batch, device_of, propagation_of, read_links
from fishergcn.integrations.pyg._layers import Layer
from fishergcn.integrations.pyg._pass import note_pass
from fishergcn.integrations.pyg._stored import node_numbers
from fishergcn.perturbation import CongruenceNeighborhood


class NodeAdversary(LayerAdversary):
    """An adversary that decides how loud each node speaks and how well it hears.

    Every product of an attached layer with its normalized graph, out = Ã x, becomes

        x - s m ∘ (I - Ã)(m ∘ x) = (1 - s m²) ∘ x + s m ∘ Ã(m ∘ x),   m = 1 + ϕ ∘ u ∘ √12 e

    with s such that the trace of L = I - Ã stays; see :class:`fishergcn.perturbation.CongruenceNeighborhood`. A node
    needs its own weight and one number of the whole graph: no eigenvector is computed, and a mini-batch is perturbed as
    the whole graph is.

    Parameters
    ----------
    data : torch_geometric.data.Data, Batch, or a list of Data
        The whole graph; several count as one that is not connected.
    radius : float
        ε, the root mean square of the Bures distance.
    samples, seed, noise, adversarial, weights
        As for :class:`BuresAdversary`.

    Notes
    -----
    For layers that multiply with the symmetrically normalized graph with self-links of weight 1, as GCNConv, SGConv,
    APPNP and GCN2Conv do by default; others are refused. For the rest it is like :class:`BuresAdversary`.

    Examples
    --------
    >>> import fishergcn, torch
    >>> from torch_geometric.nn import GCNConv
    >>> data = fishergcn.datasets.load("cora").to_pyg()
    >>> model = GCNConv(1433, 7)
    >>> adversary = NodeAdversary(data, radius=0.1, samples=2).attach(model)
    >>> optimizer = torch.optim.Adam([{"params": model.parameters()}, adversary.parameter_group()], lr=0.01)
    >>> adversary.average(lambda: model(data.x, data.edge_index).square().mean()).backward()
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
        weights: str | None = AUTO,
    ) -> None:
        data, reading = as_batch(data), Reading(1, True, weights)
        links = read_links(data, reading)
        matrix = propagation_of(links, reading)
        neighborhood = CongruenceNeighborhood(matrix, "nodes", radius, noise, seed=seed)
        super().__init__(neighborhood, samples, seed, adversarial, matrix=matrix, reading=reading, source=links.source)
        self.to(device_of(data))

    def _check_layer(self, layer: Layer) -> None:
        if layer.self_links != 1:
            raise InputError(
                "node weights need layers that multiply with the normalized graph with self-links of weight 1, "
                f"got {layer.name}."
            )

    def _index_of(self, batch: Any) -> Tensor | None:
        """Return the numbers of the nodes of a batch, or None where it is the whole graph."""
        index = node_numbers(batch, self.neighborhood.rank)
        if index is None and batch is not None:
            raise InputError(
                "a batch must hold n_id, the numbers of its nodes in the whole graph; before graphs are batched, "
                "number their nodes one after the other: graph.n_id = torch.arange(first, first + graph.num_nodes)."
            )
        return index

    def _passes(self, batch: Any) -> tuple[Tensor, Callable[[Tensor], NodePass]]:
        index = self._index_of(batch)
        return self.draw(), lambda x: NodePass(self, x, index, only_training=True)

    @contextmanager
    def perturbed(self, x: Tensor, batch: Any = None) -> Iterator[None]:
        """Run the attached layers on the graph of node weights 1 + x, in training and in evaluation mode.

        Parameters
        ----------
        x : Tensor of shape (n,)
            One row of :meth:`draw`.
        batch : Data, Batch or Tensor, optional
            A mini-batch with ``n_id``, or the numbers of its nodes in the whole graph, in their order. Of several
            graphs, each must hold ``n_id``, its numbers among the nodes of all of them, before they are batched.
        """
        if tuple(x.shape) != (self.neighborhood.rank,):
            raise InputError(f"x must have shape ({self.neighborhood.rank},), got {tuple(x.shape)}.")
        perturbation = NodePass(self, x, self._index_of(batch), only_training=False)
        with self._in_force(perturbation):
            yield
        check_rows(perturbation, batch)


class NodePass(InForce):
    """x - s m ∘ (I - Ã)(m ∘ x) with m = 1 + x of all nodes, or of those that ``index`` names."""

    def __init__(self, owner: NodeAdversary, x: Tensor, index: Tensor | None, only_training: bool) -> None:
        super().__init__(owner, only_training, index is not None, index)
        weights = 1.0 + x
        self.weights = weights if index is None else weights[index.to(weights.device)]
        self.scale = owner.neighborhood.scale_of(x)

    def before(self, layer: Layer, module: Any, given: dict[str, Any]) -> dict[str, Any]:
        """Weigh what goes into ``propagate``."""
        if self.only_training and not module.training:
            return given
        x = layer.propagated(module, given)
        if not isinstance(x, Tensor):
            raise InputError(f"{layer.name} propagates from one set of nodes to another, which has no node weights.")
        moved, nodes = x.movedim(module.node_dim, 0), len(self.weights)
        if not (len(moved) <= nodes if self.part else len(moved) == nodes):
            raise InputError(
                f"{layer.name} propagates {len(moved)} nodes, and the pass has {nodes}; give mini-batches to "
                "average(…, batch)."
            )
        return given | {layer.argument: (self._wide(moved) * moved).movedim(0, module.node_dim)}

    def __call__(self, layer: Layer, module: Any, edge_index: Any, given: dict[str, Any], out: Tensor) -> Tensor:
        """Weigh what came out, and add what a node keeps of itself."""
        self.seen[layer.name] = True
        if self.only_training and not module.training:
            return out
        if not torch.compiler.is_compiling():
            note_pass(layer)
            self.most = max(self.most, given[layer.argument].shape[module.node_dim])
            self.owner._note(self, layer, module, edge_index, given)
        x, result = given[layer.argument].movedim(module.node_dim, 0), out.movedim(module.node_dim, 0)
        weights, scale = self._wide(result), self.scale.to(result)
        kept = (1.0 - scale * weights.square()) * x[: len(result)]  # samplers put the targets of a layer first
        perturbed: Tensor = kept + scale * weights * result
        return perturbed.movedim(0, module.node_dim)

    def _wide(self, values: Tensor) -> Tensor:
        """Return m of the first nodes, in the form of some values of them."""
        return self.weights[: len(values)].to(values).view(-1, *[1] * (values.ndim - 1))
