"""The methods by name: which graph, how many samples, which extensions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fishergcn.errors import InputError, suggestion
from fishergcn.training._config import TrainConfig

#: The paper's methods and their controls, as :func:`fishergcn.train` takes them.
METHODS = ("gcn", "gcn-x5", "fishergcn", "gcn-t", "gcn-t-x5", "fishergcn-t")
_PATTERN = re.compile(r"(?P<base>gcn|fishergcn)(?P<high>-t)?(-x(?P<samples>[1-9]\d{0,3}))?(?P<consistent>-c)?")


@dataclass(frozen=True)
class Method:
    """What a method's name says.

    Attributes
    ----------
    name
        The name itself.
    high_order
        Whether the propagation matrix is the high-order one (suffix ``-t``).
    perturbed
        Whether the graph is perturbed during training (``fishergcn``).
    samples
        The number of samples per step, or None where the configuration says it.
    consistent
        Whether predictions of the samples are drawn together on all nodes (suffix ``-c``).

    Examples
    --------
    >>> parse_method("fishergcn-t")
    Method(name='fishergcn-t', high_order=True, perturbed=True, samples=None, consistent=False)
    """

    name: str
    high_order: bool
    perturbed: bool
    samples: int | None
    consistent: bool


def parse_method(name: str) -> Method:
    """Read a method's name.

    ``gcn``, ``fishergcn``; then ``-t`` for the high-order graph; then, for gcn, ``-xM`` for M dropout samples
    (the control of fishergcn is ``gcn-x5``); then ``-c`` for consistency on unlabeled nodes, which needs two
    samples.

    Examples
    --------
    >>> parse_method("gcn-t-x5").samples
    5
    """
    found = _PATTERN.fullmatch(name) if isinstance(name, str) else None
    if found is None or (found["base"] == "fishergcn" and found["samples"]):
        hint = suggestion(name, METHODS) if isinstance(name, str) else ""
        forms = "gcn-xM or gcn-t-xM for M dropout samples, or with suffix -c"
        raise InputError(f"method must be one of {', '.join(METHODS)}, {forms}, got {name!r}{hint}.")
    perturbed = found["base"] == "fishergcn"
    samples = None if perturbed else int(found["samples"] or 1)
    if found["consistent"] and samples == 1:
        raise InputError(f"method {name!r} needs at least two samples to compare: use 'gcn{found['high'] or ''}-x5-c'.")
    return Method(name, bool(found["high"]), perturbed, samples, bool(found["consistent"]))


def samples_of(method: Method, config: TrainConfig) -> int:
    """Return M: what the method's name says, else what the configuration says."""
    return config.samples if method.samples is None else method.samples


def control_of(method: str, config: TrainConfig) -> str | None:
    """Return the method with the same graph and as many samples, without what is being studied.

    For a perturbed method that is the plain one with M dropout samples; for one with the consistency term,
    the same without it. Plain methods are controls themselves.

    Examples
    --------
    >>> control_of("fishergcn-t", TrainConfig())
    'gcn-t-x5'
    >>> control_of("fishergcn", TrainConfig(samples=1))
    'gcn'
    >>> control_of("gcn-x5", TrainConfig()) is None
    True
    """
    parsed = parse_method(method)
    if not parsed.perturbed and not parsed.consistent:
        return None
    samples = samples_of(parsed, config)
    high, consistent = "-t" * parsed.high_order, "-c" * (parsed.consistent and parsed.perturbed)
    return f"gcn{high}" + f"-x{samples}" * (samples > 1) + consistent
