"""How much work a training is: a count that depends on sizes alone, and not on the machine or on how busy it is."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from fishergcn.training._methods import samples_of

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.training._methods import Method
    from fishergcn.training._sizes import Sizes

# About how many seconds a usual core takes: for a multiplication with a feature, along a link, in a dense product; for
# a number that comes out of a layer (norm, ReLU, dropout and their derivatives); for a weight that Adam moves; for an
# epoch of the smallest graph; for an entry of a matrix that is computed from walks.
_FEATURE, _LINK, _DENSE, _OUTPUT, _WEIGHT, _EPOCH, _WALKED = 2.5e-11, 5e-11, 3e-11, 7e-9, 4e-9, 1.5e-3, 1e-6
_BACKWARD = 3.0  # multiplications of a step, beside those of its forward pass
_SOLVING = 400.0  # forward passes, in float32: some sixty steps forward and back, in float64
_USUAL_EPOCHS = 0.7  # the share of the epochs after which most runs have stopped


def work_of(sizes: Sizes, method: Method, config: TrainConfig, epochs: int | None = None) -> float:
    """Return the seconds that a run might take on a usual core: a run of ``epochs``, or else of a usual number."""
    if not method.trained:
        return 100.0 * _LINK * sizes.entries * sizes.classes
    network = method.network
    widths, own = network.widths(sizes.classes, config), 1 + network.sees_itself(config)
    everything = [(float(sizes.nodes), sizes.entries)] * (len(widths) + 1)

    def forward(nodes: int, *, whole: bool) -> tuple[float, float]:
        """Return seconds of multiplications, and of the rest."""
        reached, products, outputs, before = everything if whole else sizes.reached(nodes, len(widths)), 0.0, 0.0, 0
        for ((columns, _), (rows, entries)), width in zip(pairwise(reached), widths, strict=True):
            entering = _DENSE * columns * before if before else _FEATURE * sizes.stored * columns / sizes.nodes
            products += width * (own * entering + _LINK * entries * method.uses_graph)
            outputs += _OUTPUT * own * rows * width
            before = width
        return products, outputs

    if method.solved:
        return _SOLVING * sum(forward(sizes.train, whole=False))
    step, check = (forward(sizes.train, whole=method.steps_on_all(config)), forward(sizes.val, whole=False))
    weights = sum(math.prod(each.shape) for each in network.tensors(sizes.features, sizes.classes, config).values())
    epoch = samples_of(method, config) * (_BACKWARD * step[0] + step[1]) + check[0] + check[1] / 3
    epoch += _WEIGHT * weights + _EPOCH
    count = _USUAL_EPOCHS * config.max_epochs if epochs is None else epochs
    return count * epoch + _WALKED * sizes.entries * method.matrix.clustered
