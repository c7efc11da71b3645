"""Every setting of a training run, with the paper's values as defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fishergcn._checks import check_choice, check_integer, check_real
from fishergcn.errors import InputError, suggestion

__all__ = ["TrainConfig"]


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run.

    Attributes
    ----------
    learning_rate
        Of Adam, for the weights and for the adversary.
    hidden
        Sizes of the hidden layers; one number means one layer.
    dropout
        Probability to drop a feature entry or a hidden unit.
    weight_decay
        wd of the term (wd/2) Σ_l ‖W^l‖² in the loss.
    max_epochs
        At most so many steps.
    stopping
        ``"paper"``: stop when the mean validation loss of the last 10 epochs exceeds that of the last 100 and the
        mean accuracy is below (checked from epoch 102); ``"patience"``: when the validation loss has not improved
        for ``patience`` epochs; ``"none"``.
    patience
        For ``stopping="patience"``.
    test_at
        Test with the weights of the ``"last"`` epoch, as the paper does, or of the epoch with the lowest
        validation loss, ``"best-val"``.
    normalize_features
        Divide each row of the features by its sum.
    samples
        M: perturbed graphs (with their own dropout masks) per step of ``fishergcn``.
    rank, radius, noise, directions, scale
        The neighborhood: see :class:`fishergcn.perturbation.Neighborhood`.
    adversarial
        Learn the shape of the neighborhood by gradient ascent; if False the noise is isotropic, ϕ = ε 1.
    perturbation
        ``"spectral"``, or for comparison ``"link-flip"`` (each sample removes a share of the links and adds as
        many random ones) or ``"link-drop"`` (removes only).
    link_rate
        That share.
    order, threshold
        T and ν of the high-order propagation matrix.
    consistency, temperature
        λ and τ of the consistency term (suffix ``-c``).
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
    stopping: str = "paper"
    patience: int = 100
    test_at: str = "last"
    normalize_features: bool = True
    samples: int = 5
    rank: int = 10
    radius: float = 0.1
    noise: str = "uniform"
    directions: str = "high"
    scale: str = "projected"
    adversarial: bool = True
    perturbation: str = "spectral"
    link_rate: float = 0.05
    order: int = 5
    threshold: float = 1e-4
    consistency: float = 0.5
    temperature: float = 0.7
    dtype: str = "float32"

    def __post_init__(self) -> None:
        hidden = (self.hidden,) if isinstance(self.hidden, int) else tuple(self.hidden)
        object.__setattr__(self, "hidden", tuple(check_integer("hidden", size, minimum=1) for size in hidden))
        check_real("learning_rate", self.learning_rate, above=0.0)
        check_real("dropout", self.dropout, minimum=0.0, below=1.0)
        check_real("weight_decay", self.weight_decay, minimum=0.0)
        check_integer("max_epochs", self.max_epochs, minimum=1)
        check_choice("stopping", self.stopping, ("paper", "patience", "none"))
        check_integer("patience", self.patience, minimum=1)
        check_choice("test_at", self.test_at, ("last", "best-val"))
        check_integer("samples", self.samples, minimum=1, maximum=1024)
        check_integer("rank", self.rank, minimum=1)
        check_real("radius", self.radius, minimum=0.0)
        check_choice("noise", self.noise, ("uniform", "gaussian"))
        check_choice("directions", self.directions, ("high", "low", "random"))
        check_choice("scale", self.scale, ("projected", "trace"))
        check_choice("perturbation", self.perturbation, ("spectral", "link-flip", "link-drop"))
        check_real("link_rate", self.link_rate, minimum=0.0, below=1.0)
        check_integer("order", self.order, minimum=1)
        check_real("threshold", self.threshold, minimum=0.0, below=1.0)
        check_real("consistency", self.consistency, minimum=0.0)
        check_real("temperature", self.temperature, above=0.0)
        check_choice("dtype", self.dtype, ("float32", "float64"))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for JSON."""
        return dataclasses.asdict(self) | {"hidden": list(self.hidden)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Build a configuration from plain values; an unknown setting is an error."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                raise InputError(f"unknown setting {name!r}{suggestion(name, known)}; known are {', '.join(known)}.")
        hidden = values.get("hidden")
        arguments = dict(values) | ({"hidden": tuple(hidden)} if isinstance(hidden, list) else {})
        try:
            return cls(**arguments)
        except TypeError as error:
            raise InputError(f"settings of the wrong type ({error}).") from error
