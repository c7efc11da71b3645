"""How much work a training is: a count that depends on sizes alone, and not on the machine or on how busy it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fishergcn.training._methods import samples_of

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.training._methods import Method
    from fishergcn.training._sizes import Sizes

_DENSE = 0.1  # of a multiplication in a dense product, beside one along a link
_BACKWARD = 3.0  # a step, beside its forward pass
_USUAL_EPOCHS = 0.7  # the share of the epochs after which most runs have stopped
_MAKING = 100.0  # of an entry of a matrix that has to be computed from walks


def work_of(sizes: Sizes, method: Method, config: TrainConfig) -> float:
    """Return about how many multiplications along links and features a run takes, dense ones counted as a tenth.

    A core does about 10⁹ of them in a second.
    """
    if not method.trained:
        return 50.0 * sizes.entries * sizes.classes
    network = method.network
    wide, own = network.widths(sizes.classes, config), 1 + network.sees_itself(config)
    whole = method.consistent or method.perturbed
    everything = [(float(sizes.nodes), sizes.entries)] * (len(wide) + 1)

    def forward(nodes: int, *, every: bool) -> float:
        reached = everything if every else sizes.reached(nodes, len(wide))
        total, before = 0.0, 0
        for (columns, _), (rows, entries), width in zip(reached, reached[1:], wide, strict=False):
            total += width * (entries if method.uses_graph else rows)
            entering = _DENSE * columns * before if before else sizes.stored * columns / sizes.nodes
            total += own * width * entering * (_DENSE if sizes.dense and not before else 1.0)
            before = width
        return total

    epoch = _BACKWARD * samples_of(method, config) * forward(sizes.train, every=whole) + forward(sizes.val, every=False)
    made = _MAKING * sizes.entries if method.matrix.clustered else 0.0
    return _USUAL_EPOCHS * config.max_epochs * epoch + made
