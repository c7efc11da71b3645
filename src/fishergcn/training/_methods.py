"""The methods by name: which graph, how many samples, which extensions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from fishergcn._settings.config import TrainConfig
from fishergcn.errors import InputError, suggestion

Base: TypeAlias = Literal["gcn", "fishergcn", "mlp", "lp", "majority"]
#: The paper's methods and their controls, as :func:`fishergcn.train` takes them.
METHODS = ("gcn", "gcn-x5", "fishergcn", "gcn-t", "gcn-t-x5", "fishergcn-t")
_SUFFIXES = {"gcn": "txc", "fishergcn": "tc", "mlp": "xc", "lp": "", "majority": ""}  # -t, -xM, -c
_PATTERN = re.compile(rf"(?P<base>{'|'.join(_SUFFIXES)})(?P<t>-t)?(-x(?P<x>[1-9][0-9]{{0,3}}))?(?P<c>-c)?")


@dataclass(frozen=True)
class Method:
    """What a method's name says.

    Attributes
    ----------
    name
        The name itself.
    base
        ``"gcn"``; ``"fishergcn"``, the same on graphs that are perturbed during training; ``"mlp"``, the same network
        with the identity in place of Ã; ``"lp"``, label propagation; ``"majority"``, the most frequent class.
    high_order
        Whether the propagation matrix is the high-order one (suffix ``-t``).
    samples
        The number of samples per step, or None where the configuration says it.
    consistent
        Whether predictions of the samples are drawn together on all nodes (suffix ``-c``).

    Examples
    --------
    >>> parse_method("fishergcn-t")
    Method(name='fishergcn-t', base='fishergcn', high_order=True, samples=None, consistent=False)
    >>> mlp, propagation = parse_method("mlp-x5"), parse_method("lp")
    >>> mlp.uses_graph, mlp.trained, propagation.uses_graph, propagation.trained
    (False, True, True, False)
    """

    name: str
    base: Base
    high_order: bool
    samples: int | None
    consistent: bool

    @property
    def perturbed(self) -> bool:
        """Whether the graph is perturbed during training."""
        return self.base == "fishergcn"

    @property
    def uses_graph(self) -> bool:
        """Whether the links matter."""
        return self.base not in ("mlp", "majority")

    @property
    def trained(self) -> bool:
        """Whether there is a network to train: one with weights, which reads features."""
        return self.base not in ("lp", "majority")


def parse_method(name: str) -> Method:
    """Read a method's name.

    ``gcn``, ``fishergcn``, or ``mlp``, the network without the links; then, but for mlp, ``-t`` for the high-order
    graph; then, but for fishergcn, ``-xM`` for M dropout samples (the control of fishergcn is ``gcn-x5``); then ``-c``
    for consistency on unlabeled nodes, which needs two samples. Without a network: ``lp`` for label propagation,
    ``majority`` for the most frequent class.

    Examples
    --------
    >>> parse_method("gcn-t-x5").samples
    5
    """
    found = _PATTERN.fullmatch(name) if isinstance(name, str) else None
    if found is None or any(found[suffix] and suffix not in _SUFFIXES[found["base"]] for suffix in "txc"):
        hint = suggestion(name, (*METHODS, *get_args(Base))) if isinstance(name, str) else ""
        forms = "gcn-xM or gcn-t-xM for M dropout samples, mlp or mlp-xM, one of these with suffix -c, lp or majority"
        raise InputError(f"method must be one of {', '.join(METHODS)}, {forms}, got {name!r}{hint}.")
    base: Base = found["base"]  # type: ignore[assignment]
    samples = None if base == "fishergcn" else int(found["x"] or 1)
    if found["c"] and samples == 1:
        instead = f"{base}{found['t'] or ''}-x5-c"
        raise InputError(f"method {name!r} needs at least two samples to compare: use {instead!r}.")
    return Method(name, base, bool(found["t"]), samples, bool(found["c"]))


def samples_of(method: Method, config: TrainConfig) -> int:
    """Return M: what the method's name says, else what the configuration says.

    Examples
    --------
    >>> samples_of(parse_method("gcn-x3"), TrainConfig()), samples_of(parse_method("fishergcn"), TrainConfig())
    (3, 5)
    """
    return config.samples if method.samples is None else method.samples


def control_of(method: str, config: TrainConfig) -> str | None:
    """Return the method with the same graph and as many samples, without what is being studied.

    For a perturbed method that is the plain one with M dropout samples; for one with the consistency term,
    the same without it. Plain methods are controls themselves.

    Examples
    --------
    >>> control_of("fishergcn-t", TrainConfig())
    'gcn-t-x5'
    >>> control_of("fishergcn", TrainConfig(samples=1)), control_of("mlp-x5-c", TrainConfig())
    ('gcn', 'mlp-x5')
    >>> control_of("gcn-x5", TrainConfig()) is None
    True
    """
    parsed = parse_method(method)
    if parsed.perturbed:
        return _plain("gcn", parsed, config, consistent=parsed.consistent)
    return _plain(parsed.base, parsed, config, consistent=False) if parsed.consistent else None


def graph_free_of(method: str, config: TrainConfig) -> str | None:
    """Return the same network without the links, which says by comparison whether they help; None if there is none.

    Examples
    --------
    >>> graph_free_of("gcn-t-x5-c", TrainConfig()), graph_free_of("fishergcn", TrainConfig())
    ('mlp-x5-c', 'mlp-x5')
    >>> graph_free_of("mlp", TrainConfig()) is None
    True
    """
    parsed = parse_method(method)
    if not parsed.trained or not parsed.uses_graph:
        return None
    return _plain("mlp", parsed, config, consistent=parsed.consistent)


def _plain(base: Base, method: Method, config: TrainConfig, *, consistent: bool) -> str:
    """Return the name of an unperturbed method with the samples and, unless it has no graph, the order of another."""
    samples = samples_of(method, config)
    return base + "-t" * (method.high_order and base != "mlp") + f"-x{samples}" * (samples > 1) + "-c" * consistent
