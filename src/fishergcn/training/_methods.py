"""The methods by name: which network, which graph, how many samples, which extensions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fishergcn._settings.config import TrainConfig
from fishergcn.errors import InputError, suggestion
from fishergcn.nn import Base, Network, Rule, bases, find_base, find_network, load_plugins
from fishergcn.propagation import Matrix

#: The paper's methods and their controls, as :func:`fishergcn.train` takes them.
METHODS = ("gcn", "gcn-x5", "fishergcn", "gcn-t", "gcn-t-x5", "fishergcn-t")
_PATTERN = re.compile(r"(?P<f>fisher)?(?P<base>[a-z][a-z0-9]*)(?P<t>-t)?(-x(?P<x>[1-9][0-9]{0,3}))?(?P<c>-c)?")


@dataclass(frozen=True)
class Method:
    """What a method's name says.

    ``base`` is its network, or its rule if it trains nothing (:func:`fishergcn.nn.bases`); ``perturbed``,
    ``high_order`` and ``consistent`` stand for ``fisher…``, ``-t`` and ``-c``; ``samples`` is None where the
    configuration says it.
    """

    name: str
    base: str
    perturbed: bool
    high_order: bool
    samples: int | None
    consistent: bool

    @property
    def described(self) -> Base:
        """What is known of the network or the rule."""
        return find_base(self.base)

    @property
    def network(self) -> Network:
        """The network; a method that trains none is refused."""
        return find_network(self.base)

    @property
    def rule(self) -> Rule:
        """How a method that trains nothing predicts."""
        found = self.described
        if not isinstance(found, Rule):
            raise AssertionError(f"{self.name} trains a network")
        return found

    @property
    def matrix(self) -> Matrix:
        """The propagation matrix."""
        return self.described.matrix_of(high_order=self.high_order)

    @property
    def uses_graph(self) -> bool:
        """Whether the links matter."""
        return self.matrix.linked

    @property
    def trained(self) -> bool:
        """Whether there is a network to train: one with weights, which reads features."""
        return self.described.trained

    @property
    def solved(self) -> bool:
        """Whether that network is linear: its weights are solved for."""
        return self.trained and self.network.linear

    def steps_on_all(self, config: TrainConfig) -> bool:
        """Whether a step computes every node, and not only those that the labeled ones depend on."""
        return (self.perturbed and config.radius > 0) or self.consistent or self.network.needs_all_nodes(config)

    @property
    def has_epochs(self) -> bool:
        """Whether it is trained epoch by epoch."""
        return self.trained and not self.solved


def parse_method(name: str) -> Method:
    """Read a method's name.

    The name of a network or of a rule that trains nothing (:func:`fishergcn.nn.bases`), with what it admits around it:
    ``fisher`` before it for a graph that is perturbed in training; ``-t`` for the high-order graph; then, unless it is
    perturbed, ``-xM`` for M dropout samples (the control of ``fishergcn`` is ``gcn-x5``); then ``-c`` for consistency
    on unlabeled nodes, which needs two samples.

    Examples
    --------
    >>> parse_method("gcn-t-x5").samples
    5
    """
    load_plugins()
    found = _PATTERN.fullmatch(name) if isinstance(name, str) else None
    try:
        admitted = "" if found is None else find_base(found["base"]).suffixes
    except InputError:
        found, admitted = None, ""
    given = "" if found is None else "".join(letter for letter in "ftxc" if found[letter])
    if found is None or not set(given) <= set(admitted) or {"f", "x"} <= set(given):
        known = [each.name for each in bases()]
        hint = suggestion(name, dict.fromkeys((*METHODS, *known))) if isinstance(name, str) else ""
        raise InputError(f"method must be {_forms()}, got {name!r}{hint}.")
    samples = None if found["f"] else int(found["x"] or 1)
    if found["c"] and samples == 1:
        instead = f"{found['base']}{found['t'] or ''}-x5-c"
        raise InputError(f"method {name!r} needs at least two samples to compare: use {instead!r}.")
    return Method(name, found["base"], bool(found["f"]), bool(found["t"]), samples, bool(found["c"]))


def _forms() -> str:
    """Return which names there are, in words made from what is registered."""
    with_samples = [each.name for each in bases() if "x" in each.suffixes and each.name != "gcn"]
    others = [each.name for each in bases() if not each.suffixes]
    forms = ["gcn-xM or gcn-t-xM for M dropout samples", *(f"{name} or {name}-xM" for name in with_samples)]
    return f"one of {', '.join(METHODS)}, {', '.join(forms)}, one of these with suffix -c, {' or '.join(others)}"


def samples_of(method: Method, config: TrainConfig) -> int:
    """Return M: what the method's name says, else what the configuration says."""
    return config.samples if method.samples is None else method.samples


def control_of(method: str, config: TrainConfig) -> str | None:
    """Return the method with the same graph and number of samples, without what is being studied.

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
        return _plain(parsed.base, parsed, config, consistent=parsed.consistent)
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
    partner = parsed.described.without_links
    return None if partner is None else _plain(partner, parsed, config, consistent=parsed.consistent)


def _plain(base: str, method: Method, config: TrainConfig, *, consistent: bool) -> str:
    """Return the name of an unperturbed method with what another one has, as far as its network admits it."""
    samples, admitted = samples_of(method, config), find_base(base).suffixes
    order = "-t" * (method.high_order and "t" in admitted)
    return base + order + f"-x{samples}" * (samples > 1 and "x" in admitted) + "-c" * (consistent and "c" in admitted)
