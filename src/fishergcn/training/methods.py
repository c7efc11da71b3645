"""The methods by name: which graph, how many samples, which extensions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fishergcn.errors import InputError, suggestion

__all__ = ["METHODS", "Method", "parse_method"]

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
    """

    name: str
    high_order: bool
    perturbed: bool
    samples: int | None
    consistent: bool

    @property
    def control(self) -> str:
        """The method without perturbation that draws as many dropout samples."""
        high, consistent = "-t" * self.high_order, "-c" * self.consistent
        return f"gcn{high}-x{self.samples or 5}{consistent}"


def parse_method(name: str) -> Method:
    """Read a method's name.

    ``gcn``, ``fishergcn``; then ``-t`` for the high-order graph; then, for gcn, ``-xM`` for M dropout samples
    (the control of fishergcn is ``gcn-x5``); then ``-c`` for consistency on unlabeled nodes, which needs two
    samples.

    Examples
    --------
    >>> parse_method("gcn-t-x5").samples
    5
    >>> parse_method("fishergcn-t").control
    'gcn-t-x5'
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
