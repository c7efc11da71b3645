"""Which nodes train, which validate, which test.

A split is three disjoint lists of node indices. The two protocols of the paper are :func:`public` (the fixed
Planetoid split) and :func:`shuffled` (the same nodes, dealt again at random); :func:`per_class` draws a
split that is balanced by class on any labeled graph; :func:`held_out` is for one's own data, where all labels
are there to learn from; :func:`masks` are several splits that came with the data.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from fishergcn._base.arrays import check_indices
from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.seeds import check_seeds
from fishergcn._base.types import FloatArray, IntArray
from fishergcn._base.warn import warn
from fishergcn.errors import InputError, suggestion

if TYPE_CHECKING:
    from fishergcn.graph import Graph

__all__ = [
    "Rule", "Split", "choose", "held_out", "masks", "named", "parse", "per_class", "public", "shuffled", "usual_rule",
]  # fmt: skip

#: How a number of splits is drawn: the public split (of which there is one), with the seeds 2019, 2020, …, or the first
#: of the masks that came with the data.
Rule = Literal["public", "shuffled", "per-class", "mask"]

_PARTS = ("train", "val", "test")
_MAX_SEED = 2**32 - 1
_FORMS = (
    "'public', 'shuffled:SEED', 'per-class:SEED', 'per-class:TRAIN+VAL:SEED', 'held-out:PERCENT%:SEED' or 'mask:NUMBER'"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Disjoint node indices for training, validation and test.

    Parameters
    ----------
    name
        How the split was made, for instance ``"public"`` or ``"shuffled:2019"``.
    train, val, test
        Node indices, each index in one list at most; the order is kept. ``train`` must not be empty.
    node_weight
        How much each of the n nodes counts where it is learned from, finite and not negative; all the same by default.
        The training loss is the mean with these weights. A network is needed, and validation and test stay unweighted.

    Examples
    --------
    >>> split = Split("mine", train=[0, 1], val=[4], test=[3, 2])
    >>> split
    Split('mine', train=2, val=1, test=2)
    >>> split.test
    array([3, 2])
    """

    name: str
    train: IntArray
    val: IntArray
    test: IntArray
    node_weight: FloatArray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"The name of a split must be a non-empty string, got {self.name!r}.")
        for part in _PARTS:
            object.__setattr__(self, part, _indices(part, getattr(self, part)))
        if self.train.size == 0:
            raise InputError("train must list at least one node, got none.")
        for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
            shared = np.intersect1d(getattr(self, first), getattr(self, second), assume_unique=True)
            if shared.size:
                raise InputError(f"{first} and {second} must be disjoint, but both list node {shared[0]}.")
        if self.node_weight is not None:
            object.__setattr__(self, "node_weight", _node_weight(self.node_weight, self.train))

    def check(self, num_nodes: int) -> Split:
        """Return the split itself if every index is below ``num_nodes``, else raise.

        Examples
        --------
        >>> Split("mine", [0], [1], [2]).check(3)
        Split('mine', train=1, val=1, test=1)
        """
        for part in _PARTS:
            nodes = getattr(self, part)
            if nodes.size and nodes.max() >= num_nodes:
                raise InputError(f"{part} of split {self.name!r} must list nodes below {num_nodes}, got {nodes.max()}.")
        if self.node_weight is not None and len(self.node_weight) != num_nodes:
            raise InputError(
                f"node_weight of split {self.name!r} must have a number for each of {num_nodes} nodes, "
                f"got {len(self.node_weight)}."
            )
        return self

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={getattr(self, part).size}" for part in _PARTS)
        return f"Split({self.name!r}, {sizes})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies sent to other processes go through the constructor, so that they are read-only too.
        return Split, (self.name, self.train, self.val, self.test, self.node_weight)

    def _key(self) -> tuple[str | bytes, ...]:
        parts = (self.train, self.val, self.test, *(() if self.node_weight is None else (self.node_weight,)))
        return self.name, *(part.tobytes() for part in parts)


def public(graph: Graph) -> Split:
    """Return the fixed split that came with the data.

    On the Planetoid graphs: train = the first 140 / 120 / 60 nodes (Cora / CiteSeer / PubMed), val = the next
    500, test = the 1000 sorted indices of the file ``test.index``.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> public(datasets.load("cora"))
    Split('public', train=140, val=500, test=1000)
    """
    parts = _standard_split(graph, "public")
    return Split("public", parts["train"], parts["val"], parts["test"]).check(graph.num_nodes)


def shuffled(graph: Graph, seed: int) -> Split:
    """Deal the nodes of the public split again at random: the paper's random splits, index for index.

    The public train, val and test indices are concatenated in this order, shuffled in place by
    ``numpy.random.RandomState(seed)``, and cut at the same sizes. The result is not balanced by class, and
    nodes outside the public split are never used. The paper takes the seeds 2019 to 2038.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> split = shuffled(datasets.load("cora"), seed=2019)
    >>> split
    Split('shuffled:2019', train=140, val=500, test=1000)
    """
    seed = check_integer("seed", seed, minimum=0, maximum=_MAX_SEED)
    parts = _standard_split(graph, "shuffled")
    nodes = np.concatenate([parts[part] for part in _PARTS])
    # The legacy generator on purpose: its stream is frozen by NumPy, and the published splits come from it.
    np.random.RandomState(seed).shuffle(nodes)
    cuts = np.cumsum([parts["train"].size, parts["val"].size])
    train, val, test = np.split(nodes, cuts)
    return Split(f"shuffled:{seed}", train, val, test).check(graph.num_nodes)


def per_class(graph: Graph, train: int = 20, val: int = 30, *, seed: int = 0) -> Split:
    """Draw ``train`` + ``val`` nodes of every class at random; all other labeled nodes are for testing.

    Parameters
    ----------
    graph
        A graph with labels; nodes with label -1 are in no part.
    train, val
        Nodes of each class for training (at least 1) and validation (at least 0).
    seed
        Seed of the draw. Each part is sorted.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> per_class(datasets.load("pubmed"), seed=1)
    Split('per-class:20+30:1', train=60, val=90, test=19567)
    """
    train = check_integer("train", train, minimum=1)
    val = check_integer("val", val, minimum=0)
    seed = check_integer("seed", seed, minimum=0, maximum=_MAX_SEED)
    if graph.labels is None or graph.num_classes == 0:
        raise InputError(f"A split per class needs labels, and graph {graph.name or 'given'!r} has none.")
    generator = np.random.default_rng(seed)
    drawn: dict[str, list[IntArray]] = {part: [] for part in _PARTS}
    for label in range(graph.num_classes):
        members = np.flatnonzero(graph.labels == label)
        if members.size < train + val:
            raise InputError(
                f"Every class must have at least train + val = {train + val} nodes, "
                f"but {_class_name(graph, label)} has {members.size}."
            )
        shares = np.split(generator.permutation(members), [train, train + val])
        for part, share in zip(_PARTS, shares, strict=True):
            drawn[part].append(share)
    parts = {part: np.sort(np.concatenate(shares)) for part, shares in drawn.items()}
    return Split(f"per-class:{train}+{val}:{seed}", parts["train"], parts["val"], parts["test"])


def held_out(graph: Graph, percent: int = 20, *, seed: int = 0) -> Split:
    """Learn from all labeled nodes but ``percent`` of every class, which validate; none are for testing.

    A class keeps at least one training node, and with two members or more gives at least one away: a class
    with a single member is learned but not validated.

    Parameters
    ----------
    graph
        A graph with labels; nodes with label -1 are in no part.
    percent
        The share of each class to hold out, 1 to 99, rounded to whole nodes.
    seed
        Seed of the draw. Each part is sorted.

    Examples
    --------
    >>> from fishergcn import Graph
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)], labels=[0, 0, 0, 1, -1])
    >>> held_out(path)
    Split('held-out:20%:0', train=3, val=1, test=0)
    """
    percent = check_integer("percent", percent, minimum=1, maximum=99)
    seed = check_integer("seed", seed, minimum=0, maximum=_MAX_SEED)
    if graph.labels is None or graph.labels.max() < 0:
        raise InputError(f"Holding out nodes needs labels, and graph {graph.name or 'given'!r} has none.")
    generator = np.random.default_rng(seed)
    train, val = [], []
    for label in range(graph.num_classes):
        members = generator.permutation(np.flatnonzero(graph.labels == label))
        wanted = (members.size * percent + 50) // 100
        count = min(max(wanted, 1), max(members.size - 1, 0))
        val.append(members[:count])
        train.append(members[count:])
    held = np.sort(np.concatenate(val))
    if held.size == 0:
        raise InputError("Holding out validation nodes needs a class with two labeled nodes or more; each has one.")
    return Split(f"held-out:{percent}%:{seed}", np.sort(np.concatenate(train)), held, np.empty(0, dtype=np.int64))


def masks(graph: Graph) -> list[Split]:
    """Return the splits that came with the data, ``mask:0``, ``mask:1``, ….

    Examples
    --------
    >>> from fishergcn import Graph
    >>> parts = {"train": [[1, 0, 0], [0, 1, 0]], "val": [[0, 1, 0], [1, 0, 0]], "test": [[0, 0, 1], [0, 0, 1]]}
    >>> arrays = {part: np.array(rows, dtype=bool) for part, rows in parts.items()}
    >>> masks(Graph.from_edges([(0, 1), (1, 2)], masks=arrays))
    [Split('mask:0', train=1, val=1, test=1), Split('mask:1', train=1, val=1, test=1)]
    """
    count = 1 if graph.masks is None else len(graph.masks["train"])  # a graph without masks is refused
    return [_mask(graph, number) for number in range(count)]


def _mask(graph: Graph, number: int) -> Split:
    count = 0 if graph.masks is None else len(graph.masks["train"])
    if graph.masks is None or number >= count:
        known = f"the masks 0 to {count - 1}" if count else "no masks"
        raise InputError(f"Split 'mask:{number}' is not there: graph {graph.name or 'given'!r} comes with {known}.")
    train, val, test = (np.flatnonzero(graph.masks[part][number]) for part in _PARTS)
    return Split(f"mask:{number}", train, val, test)


def parse(graph: Graph, text: str) -> Split:
    """Make the split that ``text`` names; the ``name`` of every split made here is such a text.

    Parameters
    ----------
    graph
        The graph to split.
    text
        ``"public"``, ``"mask:NUMBER"``, ``"shuffled:SEED"``, ``"per-class:SEED"`` (20 + 30 nodes per class),
        ``"per-class:TRAIN+VAL:SEED"``, ``"held-out:SEED"`` (20%) or ``"held-out:PERCENT%:SEED"``.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> parse(datasets.load("citeseer"), "shuffled:2019")
    Split('shuffled:2019', train=120, val=500, test=1000)
    """
    if not isinstance(text, str):
        raise InputError(f"A split must be named by a string, {_FORMS}, got {text!r}.")
    if text == "public":
        return public(graph)
    if match := re.fullmatch(r"mask:([0-9]{1,9})", text):
        return _mask(graph, int(match[1]))
    if match := re.fullmatch(r"shuffled:([0-9]{1,10})", text):
        return shuffled(graph, int(match[1]))
    if match := re.fullmatch(r"per-class:(?:([0-9]{1,9})\+([0-9]{1,9}):)?([0-9]{1,10})", text):
        sizes = {} if match[1] is None else {"train": int(match[1]), "val": int(match[2])}
        return per_class(graph, **sizes, seed=int(match[3]))
    if match := re.fullmatch(r"held-out:(?:([0-9]{1,2})%:)?([0-9]{1,10})", text):
        share = {} if match[1] is None else {"percent": int(match[1])}
        return held_out(graph, **share, seed=int(match[2]))
    if match := re.fullmatch(r"held-out:([0-9]{1,2}):([0-9]{1,10})", text):
        raise InputError(f"The share of a held-out split needs a percent sign: 'held-out:{match[1]}%:{match[2]}'.")
    form = text.partition(":")[0]
    known = ("public", "mask", "shuffled", "per-class", "held-out")
    hint = "" if form in known else suggestion(form, known)
    raise InputError(f"A split must be {_FORMS}, got {text!r}{hint}.")


def named(wanted: int | str | Iterable[int | str], rule: Rule = "shuffled") -> list[str]:
    """Return the names of splits that are asked for by name or by number.

    Parameters
    ----------
    wanted
        A name as :func:`parse` reads it, a number n of splits, or several of these; a number may be given as text.
    rule
        How n splits are drawn: ``"shuffled"`` or ``"per-class"`` (20 + 30 nodes a class), with the seeds 2019, …,
        2018 + n; ``"mask"``, numbers 0, …, n - 1; or ``"public"``, of which there is one.

    Examples
    --------
    >>> named(2), named(["public", "per-class:5+5:1"]), named("1", rule="per-class")
    (['shuffled:2019', 'shuffled:2020'], ['public', 'per-class:5+5:1'], ['per-class:20+30:2019'])
    """
    found: list[str] = []
    for each in _several(wanted):
        if isinstance(each, str) and not re.fullmatch(r"[+-]?[0-9]{1,9}", each):
            found.append(each)
        else:
            found += _drawn(check_integer("splits", int(each) if isinstance(each, str) else each, minimum=1), rule)
    return found


def usual_rule(*graphs: Graph) -> Rule:
    """Return the rule by which a number of splits is drawn that all these graphs admit.

    ``"mask"`` if all come with masks; ``"shuffled"`` if all come with a standard split; else ``"per-class"``.

    Examples
    --------
    >>> from fishergcn import Graph, datasets
    >>> usual_rule(datasets.load("cora")), usual_rule(datasets.load("cora"), Graph.from_edges([(0, 1)]))
    ('shuffled', 'per-class')
    """
    if all(graph.masks is not None for graph in graphs):
        return "mask"
    return "shuffled" if all(graph.standard_split is not None for graph in graphs) else "per-class"


def choose(
    graph: Graph, wanted: Split | int | str | Iterable[Split | int | str] | None = None, *, rule: Rule | None = None
) -> list[Split]:
    """Return the splits that are asked for, or else those that suit the graph.

    Parameters
    ----------
    graph
        The graph to split.
    wanted
        Splits, their names, or a number of them: see :func:`named`. By default the public split, or else the first
        mask; for a graph that has neither, 20% of the labeled nodes of each class are held out for validation, and a
        warning says so.
    rule
        How a number of splits is drawn; by default as :func:`usual_rule` says.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> choose(datasets.load("cora"))
    [Split('public', train=140, val=500, test=1000)]
    >>> [split.name for split in choose(datasets.load("cora"), ["public", 2])]
    ['public', 'shuffled:2019', 'shuffled:2020']
    """
    if wanted is None:
        return [_default(graph)]
    found: list[Split] = []
    rule = usual_rule(graph) if rule is None else rule
    for each in _several(wanted):
        found += [each] if isinstance(each, Split) else [parse(graph, name) for name in named([each], rule)]
    return found


def _several(wanted: Any) -> list[Any]:
    many = isinstance(wanted, Iterable) and not isinstance(wanted, str)
    values = list(wanted) if many else [wanted]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, Split | str | int | np.integer):
            raise InputError(
                f"a split must be a Split, its name, such as 'public', or a number of splits, got {value!r:.80}."
            )
    return values


def _drawn(count: int, rule: Rule) -> list[str]:
    check_choice("rule", rule, get_args(Rule))
    if rule == "public":
        if count != 1:
            raise InputError(f"splits must be 1, since there is one public split, got {count}.")
        return ["public"]
    if rule == "mask":
        return [f"mask:{number}" for number in range(count)]
    form = "per-class:20+30" if rule == "per-class" else rule
    return [f"{form}:{seed}" for seed in check_seeds(count)]


def _default(graph: Graph) -> Split:
    if graph.standard_split is not None:
        return public(graph)
    if graph.masks is not None:
        return _mask(graph, 0)
    held = held_out(graph)
    warn(
        f"{len(held.val)} of {len(held.train) + len(held.val)} labeled nodes are held out for validation "
        "(20% of each class, at least one where it has two)."
    )
    labels = graph.labels if graph.labels is not None else np.empty(0, dtype=np.int64)
    counts = np.bincount(labels[labels >= 0], minlength=graph.num_classes)
    names = graph.class_names or [str(label) for label in range(graph.num_classes)]
    single = [repr(names[label]) for label in np.flatnonzero(counts == 1)]
    if single:
        warn(f"a class with one labeled node is learned but not validated: {', '.join(single)}.")
    return held


def _standard_split(graph: Graph, wanted: str) -> dict[str, IntArray]:
    if graph.standard_split is None:
        raise InputError(
            f"A {wanted} split needs a graph that comes with a standard split, and graph "
            f"{graph.name or 'given'!r} has none; use splits.per_class or splits.held_out, or by name for instance "
            "'per-class:20+30:0' (20 training and 30 validation nodes of each class, seed 0) or 'held-out:20%:0'."
        )
    return {part: graph.standard_split[part] for part in _PARTS}


def _class_name(graph: Graph, label: int) -> str:
    return f"class {label}" if graph.class_names is None else f"class {label} ({graph.class_names[label]})"


def _indices(part: str, values: Any) -> IntArray:
    """Return ``values`` as distinct node indices."""
    nodes = check_indices(part, values)
    distinct, counts = np.unique(nodes, return_counts=True)
    if distinct.size < nodes.size:
        raise InputError(f"{part} must list every node once, but node {distinct[counts > 1][0]} is repeated.")
    return nodes


def _node_weight(values: Any, train: IntArray) -> FloatArray:
    """Return ``values`` as read-only numbers of which at least one training node has a positive one."""
    weight = np.array(values, dtype=np.float64)
    if weight.ndim != 1 or not np.isfinite(weight).all() or (weight < 0).any():
        raise InputError("node_weight must be a list of finite numbers, one for each node, none of them negative.")
    if len(weight) <= train.max() or not (weight[train] > 0).any():
        raise InputError("node_weight must be positive for at least one training node.")
    weight.setflags(write=False)
    return weight
