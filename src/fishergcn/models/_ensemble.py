"""An ensemble: several trained models that predict as one.

    p = Σ_k s_k softmax(z_k / T_k)

with the share s_k and the temperature T_k of each member k, on one graph and one split.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.graph import known_nodes
from fishergcn.models._facts import ENSEMBLE, MemberFacts
from fishergcn.models._trained import TrainedModel
from fishergcn.nn import Base
from fishergcn.training import THRESHOLD, Method, RunRecord, measure, targets_on

if TYPE_CHECKING:
    from fishergcn.graph import Graph
    from fishergcn.nn import Features
    from fishergcn.operators import Operator


class _Mean(Base):
    """What cards and pages say of an ensemble."""

    name = ENSEMBLE
    title = "an ensemble, the mean of several models,"
    summary = "the mean of several models"
    trained = True


@dataclass(frozen=True)
class EnsembleMethod(Method):
    """The method of an ensemble, which has no network of its own."""

    linked: bool = True

    @property
    def described(self) -> Base:
        """What is known of it."""
        return _Mean()

    @property
    def uses_graph(self) -> bool:
        """Whether a member reads the links."""
        return self.linked


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(TrainedModel):
    """Several models that predict as one: the mean of their probabilities, by shares, each at its temperature.

    :func:`fishergcn.fit` makes one where that is better than the best single model. It predicts, also new nodes, is
    saved, loaded and reported like any :class:`TrainedModel`; what needs one network is done with a member.

    Attributes
    ----------
    members : tuple of TrainedModel
        The models.
    shares, temperatures : tuple of float
        s_k, which add up to 1, and T_k.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> options = {"config": fishergcn.TrainConfig(max_epochs=50), "keep_weights": True}
    >>> trained = [fishergcn.train(graph, name, split, **options) for name in ("gcn", "mlp")]
    >>> models = [TrainedModel.from_records(graph, each, split) for each in trained]
    >>> both = Ensemble.from_models(models, shares=[0.5, 0.5], temperatures=[1.0, 1.0])
    >>> parts = [model.probabilities(raw=True) for model in models]
    >>> np.allclose(both.probabilities(raw=True), (parts[0] + parts[1]) / 2)
    True
    """

    members: tuple[TrainedModel, ...] = ()
    shares: tuple[float, ...] = ()
    temperatures: tuple[float, ...] = ()

    @classmethod
    def from_models(
        cls,
        models: Sequence[TrainedModel],
        shares: Sequence[float],
        temperatures: Sequence[float],
        *,
        name: str = "mean",
    ) -> Ensemble:
        """Join models of one graph and one split; the shares must add up to 1."""
        if len(models) < 2 or not len(models) == len(shares) == len(temperatures):
            raise InputError("an ensemble needs two models or more, with a share and a temperature each.")
        if not (abs(sum(shares) - 1) < 1e-6 and all(share > 0 for share in shares)):
            raise InputError(f"the shares of an ensemble must be positive and add up to 1, got {list(shares)}.")
        if not all(0 < heat < math.inf for heat in temperatures):
            raise InputError(f"the temperatures of an ensemble must be positive, got {list(temperatures)}.")
        first = models[0].only()
        for each in models:
            if isinstance(each, Ensemble):
                raise InputError("a member of an ensemble must not be an ensemble itself.")
            same = each.graph is first.graph or each.graph.digest == first.graph.digest
            known = [one.runs[0].split for one in (first, each.only()) if one.runs]
            if not same or each.record.split != first.record.split or known[-1:] != known[:1]:
                raise InputError("the members of an ensemble must be of one graph and one split.")
        made = cls.joined([each.only() for each in models], shares, temperatures)
        return dataclasses.replace(made, records=(made._record(name),))

    @classmethod
    def joined(
        cls,
        members: Sequence[TrainedModel],
        shares: Sequence[float],
        temperatures: Sequence[float],
        record: RunRecord | None = None,
    ) -> Ensemble:
        """Return an ensemble of members that fit together, with what is known of it."""
        first, linked = members[0], any(each.method.uses_graph for each in members)
        method = EnsembleMethod(ENSEMBLE, ENSEMBLE, False, False, 1, False, linked)
        return cls(
            graph=first.graph,
            method=method,
            config=first.config,
            weights={},
            records=() if record is None else (record,),
            runs=first.runs,
            chosen_by=first.chosen_by,
            _sizes=first._sizes,
            members=tuple(members),
            shares=tuple(map(float, shares)),
            temperatures=tuple(map(float, temperatures)),
        )

    def _record(self, name: str) -> RunRecord:
        """Return what is known of the ensemble as a run: its scores, and the time of all members."""
        known = [each.record for each in self.members]
        scores: dict[str, float] = {}
        out, tuned = self.logits(), None
        if self.runs and known_nodes(self.graph).any():
            split = self.runs[0].split
            for part in ("val", "test"):
                if len(getattr(split, part)):
                    targets = targets_on(self.graph, [split], part, None, torch.device("cpu"), torch.float64)
                    # Members are calibrated, so that only a threshold is still to be found.
                    found = measure(out, targets, part=part if self.task.decided else "", thresholds=tuned)
                    tuned = found.pop(THRESHOLD, tuned)
                    scores |= {f"{part}_{name}": float(value[0]) for name, value in found.items()}
        threshold = {} if tuned is None else {f"val_{THRESHOLD}": float(tuned[0])}
        return dataclasses.replace(
            known[0],
            method=ENSEMBLE,
            scores=scores,
            curves={},
            shape=[],
            epochs=max(each.epochs for each in known),
            seconds=sum(each.seconds for each in known),
            extra={"kind": name, "members": len(known), **threshold},
            weights=None,
        )

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return super().__repr__().replace("TrainedModel(", f"Ensemble({len(self.members)} members, ", 1)

    def only(self, run: int | None = None) -> TrainedModel:
        """Return the ensemble itself: it predicts as one."""
        return self

    def to(self, device: torch.device | str, dtype: torch.dtype) -> TrainedModel:
        """Return the ensemble with its members on a device, in a precision."""
        return dataclasses.replace(self, members=tuple(each.to(device, dtype) for each in self.members))

    def mixed(self, logits: Sequence[Tensor]) -> Tensor:
        """Return log p (n, 1, C) from the logits of each member, or the outputs that mean their mean in other tasks."""
        return self.task.mixed(logits, self.shares, self.temperatures)

    @torch.no_grad()
    def _logits(self, operator: Operator | None, features: Features | None) -> Tensor:
        if operator is not None or features is not None:
            self.check_network()
        return self.mixed([each._logits(None, None) for each in self.members])

    @torch.no_grad()
    def logits_of_new(self, links: MatrixLike, features: MatrixLike) -> Tensor:
        """Return log p (m, 1, C) of new nodes that join the graph one by one."""
        return self.mixed([each.logits_of_new(links, features) for each in self.members])

    def raw_logits(self, graph: Graph | None = None) -> FloatArray:
        """Return log p of the mean, n x C, on the graph or on another one; in other tasks what means the mean."""
        members = [torch.from_numpy(each.raw_logits(graph))[:, None] for each in self.members]
        found: FloatArray = self.mixed(members)[:, 0].numpy()
        return found

    def check_network(self, *, links: bool = False, weights: bool = False, symmetric: bool = False) -> None:
        """Raise: there are several networks."""
        raise InputError(
            f"the model is an ensemble of {len(self.members)} models, and one network is needed here: "
            "model.members has them; fit(ensemble=False) or --no-ensemble chooses a single one."
        )

    def facts(self) -> tuple[MemberFacts, ...]:
        """Return what is written of the members."""
        facts = zip(self.members, self.shares, self.temperatures, strict=True)
        return tuple(MemberFacts(each.record, share, heat) for each, share, heat in facts)
