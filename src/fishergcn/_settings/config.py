"""Every setting of a training run, with the paper's values as defaults, and the names of two sets of them.

The command line shows the defaults, and must not wait for torch to do so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._settings.choices import (
    ClassWeight,
    Congruence,
    Directions,
    Metric,
    Norm,
    Perturbation,
    Precision,
    Scale,
    Scaling,
    Settings,
    Stopping,
    TestAt,
    TrainingNoise,
)
from fishergcn.errors import InputError, suggestion

#: The longest random walk that may be asked for; far beyond it the distributions no longer change.
MAX_ORDER = 1000


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run; without arguments the paper's, which :meth:`named` has beside those for other graphs.

    Attributes
    ----------
    learning_rate
        Of Adam, for the weights and for the adversary.
    hidden
        Sizes of the hidden layers, up to 65,536; one number means one layer.
    dropout
        Probability to drop a feature entry or a hidden unit.
    weight_decay
        wd of the term (wd/2) Σ_l ‖W^l‖² in the loss.
    max_epochs
        The largest number of steps.
    stopping
        ``"paper"``: stop when the mean validation loss of the last 10 epochs exceeds that of the last 100 and
        the mean accuracy is below (checked from epoch 102); ``"patience"``: when the validation loss has not
        improved for ``patience`` epochs, or what ``score`` names instead; ``"none"``.
    patience
        For ``stopping="patience"``.
    test_at
        Test with the weights of the ``"last"`` epoch, as the paper does, or of the epoch with the lowest
        validation loss, ``"best-val"``, or the best validation score that ``score`` names.
    score
        By which validation score ``test_at="best-val"`` picks the best epoch and ``stopping="patience"`` waits for a
        better one: ``"loss"``, with weight decay; or ``"accuracy"``, ``"macro-f1"``, ``"roc-auc"``, ``"log-loss"`` or
        any other registered score, and of equal ones the one with the least cross entropy.
    scaling
        What the network sees of the features: ``"rows"``, each row divided by its sum, as suits counts; ``"none"``,
        the features as they are; ``"columns"``, each column less its mean and divided by its standard deviation, both
        over all nodes (sparse columns are only divided, so that they stay sparse). Features that are negative
        somewhere, whose sums may be near 0, are not divided by rows, and a warning says so; the configuration of a
        record then holds ``"none"``.
    bias
        Add b^l after the propagation of each layer: it is 0 at first, and without weight decay.
    own_weights
        Give a node weights V^l of its own beside those of what the matrix says, Ã H W + H V, so that it can disagree
        with its neighbors; ``sage`` always has them, and ``mlp`` has no use for them.
    links_as_features
        Let the network read [X, A]: beside its features each node has its links, one column for each node, so that a
        network learns from *who* the neighbors are.
    norm
        ``"layer"``: bring the units of a hidden layer to mean 0 and variance 1 at each node, then scale and shift them
        by learned numbers, which deep networks need. ``"batch"``: bring each unit to mean 0 and variance 1 over all
        nodes instead; in prediction by moving averages of what it was in training. Not for mini-batches.
    class_weight
        ``"balanced"``: in training the cross entropy of a node of class c weighs N/(C N_c), where N_c of the N training
        nodes have this class and C classes have any. Validation and test scores, and with them stopping, stay
        unweighted.
    samples
        M: perturbed graphs (with their own dropout masks) per step of ``fishergcn``.
    rank, radius, noise, directions, scale, metric
        The neighborhood: see :class:`fishergcn.perturbation.Neighborhood`. With ``directions`` ``"nodes"``,
        ``"polynomial"`` or ``"links"`` it is a :class:`fishergcn.perturbation.CongruenceNeighborhood`, for which rank,
        scale and metric have no meaning and no spectrum is computed. ``noise="mean"`` trains without noise on the mean
        of the graphs that would be drawn with ϕ = ε, which is what the noise must be compared with.
    degree
        Of ``directions="polynomial"``.
    adversarial
        Learn the shape of the neighborhood by gradient ascent; if False the noise is isotropic, ϕ = ε 1.
    perturbation
        ``"spectral"``, or for comparison ``"link-flip"`` (each sample removes a share of the links and adds
        as many random ones), ``"link-drop"`` (removes only) or ``"spatial"`` (each sample is one of the graphs that
        moving an embedding by ``radius`` √n gives; see :func:`fishergcn.geometry.embedding.moved_graphs`).
    link_rate
        That share.
    order, threshold
        T and ν of the high-order propagation matrix.
    consistency, temperature
        λ and τ of the consistency term (suffix ``-c``), which is that of GRAND (Feng et al., NeurIPS 2020).
    dtype
        ``"float32"``, or ``"float64"`` for tests.

    Examples
    --------
    >>> TrainConfig(hidden=32).hidden
    (32,)
    """

    learning_rate: float = 0.01
    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.5
    weight_decay: float = 5e-4
    max_epochs: int = 500
    stopping: Stopping = "paper"
    patience: int = 100
    test_at: TestAt = "last"
    score: str = "loss"
    scaling: Scaling = "rows"
    bias: bool = False
    own_weights: bool = False
    norm: Norm = "none"
    links_as_features: bool = False
    class_weight: ClassWeight = "none"
    samples: int = 5
    rank: int = 10
    radius: float = 0.1
    noise: TrainingNoise = "uniform"
    directions: Directions | Congruence = "high"
    degree: int = 2
    scale: Scale = "projected"
    metric: Metric = "bures"
    adversarial: bool = True
    perturbation: Perturbation = "spectral"
    link_rate: float = 0.05
    order: int = 5
    threshold: float = 1e-4
    consistency: float = 0.7
    temperature: float = 0.6
    dtype: Precision = "float32"

    def __post_init__(self) -> None:
        hidden = tuple(self.hidden) if isinstance(self.hidden, Iterable) else (self.hidden,)
        sizes = tuple(check_integer("hidden", size, minimum=1, maximum=2**16) for size in hidden)
        object.__setattr__(self, "hidden", sizes)
        self._check(check_real, "learning_rate", above=0.0)
        self._check(check_real, "dropout", minimum=0.0, below=1.0)
        self._check(check_real, "weight_decay", minimum=0.0)
        self._check(check_integer, "max_epochs", minimum=1)
        self._check(check_choice, "stopping", allowed=get_args(Stopping))
        self._check(check_integer, "patience", minimum=1)
        self._check(check_choice, "test_at", allowed=get_args(TestAt))
        self._check(_check_name, "score")
        self._check(check_choice, "scaling", allowed=get_args(Scaling))
        self._check(_check_flag, "bias")
        self._check(_check_flag, "own_weights")
        self._check(check_choice, "norm", allowed=get_args(Norm))
        self._check(_check_flag, "links_as_features")
        self._check(check_choice, "class_weight", allowed=get_args(ClassWeight))
        self._check(check_integer, "samples", minimum=1, maximum=1024)
        self._check(check_integer, "rank", minimum=1)
        self._check(check_real, "radius", minimum=0.0)
        self._check(check_choice, "noise", allowed=get_args(TrainingNoise))
        self._check(check_choice, "directions", allowed=(*get_args(Directions), *get_args(Congruence)))
        self._check(check_integer, "degree", minimum=1, maximum=32)
        self._check(check_choice, "scale", allowed=get_args(Scale))
        self._check(check_choice, "metric", allowed=get_args(Metric))
        self._check(_check_flag, "adversarial")
        self._check(check_choice, "perturbation", allowed=get_args(Perturbation))
        self._check(check_real, "link_rate", minimum=0.0, below=1.0)
        self._check(check_integer, "order", minimum=1, maximum=MAX_ORDER)
        self._check(check_real, "threshold", minimum=0.0, below=1.0)
        self._check(check_real, "consistency", minimum=0.0)
        self._check(check_real, "temperature", above=0.0)
        self._check(check_choice, "dtype", allowed=get_args(Precision))
        if self.congruent and self.scale == "trace":
            raise InputError(f"scale must be 'projected' with directions={self.directions!r}, got 'trace'.")
        if self.congruent and self.metric != "bures":
            raise InputError(f"metric must be 'bures' with directions={self.directions!r}, got {self.metric!r}.")

    @property
    def congruent(self) -> bool:
        """Whether the graph is perturbed through its nodes, its links or a polynomial, without a spectrum."""
        return self.directions in get_args(Congruence)

    @classmethod
    def named(cls, name: Settings = "general", **changes: Any) -> TrainConfig:
        """Return settings by their name, with changes.

        Parameters
        ----------
        name
            ``"general"``, for any graph: features as they are, a bias, at most 200 epochs, stopped when the validation
            loss has not improved for 40 and tested at the best of them, and a sparser high-order matrix (ν = 1e-3); or
            ``"paper"``, the paper's.
        changes
            Settings that differ.

        Examples
        --------
        >>> TrainConfig.named("paper") == TrainConfig()
        True
        >>> TrainConfig.named("general", hidden=32).scaling
        'none'
        """
        chosen = _NAMED[check_choice("settings", name, get_args(Settings))]
        return cls.from_dict({**chosen, **changes})

    def _check(self, check: Callable[..., Any], name: str, **bounds: Any) -> None:
        """Check one setting and keep it as a plain Python value, which JSON can hold."""
        object.__setattr__(self, name, check(name, getattr(self, name), **bounds))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for JSON."""
        return dataclasses.asdict(self) | {"hidden": list(self.hidden)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Build a configuration from plain values; an unknown setting is an error.

        Version 0.1 has ``normalize_features`` instead of ``scaling``: True is read as ``"rows"``, False as ``"none"``.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        if "normalize_features" in values and "scaling" not in values:
            rest = {name: value for name, value in values.items() if name != "normalize_features"}
            divided = _check_flag("normalize_features", values["normalize_features"])
            values = {**rest, "scaling": "rows" if divided else "none"}
        for name in values:
            if name not in known:
                hint = suggestion(str(name), known)
                raise InputError(f"unknown setting {name!r}{hint}; known are {', '.join(known)}.")
        return cls(**values)


_NAMED: Mapping[str, Mapping[str, Any]] = {
    "general": {
        "scaling": "none",
        "bias": True,
        "max_epochs": 200,
        "stopping": "patience",
        "patience": 40,
        "test_at": "best-val",
        "threshold": 1e-3,
    },
    "paper": {},
}


def _check_name(name: str, value: Any) -> str:
    """Return the name of a score with underscores; whether there is such a score is checked before a training."""
    if not isinstance(value, str) or not value.replace("-", "_").isidentifier():
        raise InputError(f"{name} must be the name of a score, such as 'loss' or 'macro-f1', got {value!r:.80}.")
    return value.replace("-", "_")


def _check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {value!r}.")
    return value
