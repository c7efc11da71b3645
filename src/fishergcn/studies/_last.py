"""The last step of a choice: what was chosen, trained on the split itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.types import AnyArray
from fishergcn.errors import InputError
from fishergcn.execution import train
from fishergcn.models import Ensemble, TrainedModel
from fishergcn.splits import Split
from fishergcn.studies._candidates import Key, full_name
from fishergcn.studies._ensembles import Shares
from fishergcn.training import RunRecord, TrainConfig, find_score, parse_method, temperature_of

if TYPE_CHECKING:
    from fishergcn.studies._choice import Choice

_FEWEST, _MOST = 2, 5  # seeds of which the mean is taken, where there are several
_USUAL = 30.0  # work (see training.work_of) of all seeds together, if they are more than the fewest
_MUCH = 200.0  # work of the fewest, beyond which there is one
_ATTEMPTS = 2  # more, of a training that fails where it worked on the inner splits
_FAR = 1.3  # times the worst cost on inner splits, below which no training has failed

Trained = tuple[RunRecord, Mapping[str, AnyArray]]  # and its weights


class TrainingFailedError(InputError):
    """Candidates that were chosen came to nothing on the split itself, though they worked on all inner splits."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"training {' and '.join(names)} on the split itself failed, and nothing else was tried.")
        self.names = names


def final_model(choice: Choice, chosen: str, shares: Shares, stage: str) -> TrainedModel:
    """Train what was chosen on the split itself: each member with several seeds, where that is not much work."""
    keys = {full_name(key): key for key in choice.records}
    wanted = {keys[name]: share for name, share in shares.items()}
    work = sum(choice.seen_work(key) for key in wanted)
    several = choice.ensembles and choice.limit is None and _FEWEST * work <= _MUCH
    count = int(np.clip(_USUAL / max(work, 1e-9), _FEWEST, _MOST)) if several else 1
    seeds = [choice.seed + each for each in range(count)]
    tried = {key: list(each) for key, each in choice.finals(stage, list(wanted), seeds).items()}
    found = {key: _good(choice, key, each) for key, each in tried.items()}
    for attempt in range(1, _ATTEMPTS + 1):
        failed = [key for key, each in found.items() if not each]
        again = choice.finals(f"{stage}-{attempt}", failed, [choice.seed + _MOST - 1 + attempt]) if failed else {}
        found |= {key: _good(choice, key, each) for key, each in again.items()}
        for key, each in again.items():
            tried[key] += each
    for key, each in found.items():
        if not each and choice.graph.targets is not None and (known := tried[key]):  # costs of few nodes vary widely
            found[key] = [min(known, key=lambda one: getattr(one[0], choice.cost))]
    if names := [full_name(key) for key, each in found.items() if not each]:
        raise TrainingFailedError(names)
    first = _model(choice, {key: each[:1] for key, each in found.items()}, wanted, chosen)
    # Other seeds make a difference where something is drawn: not where labels are propagated or weights solved for.
    drawn = {key: each if parse_method(each[0][0].method).has_epochs else each[:1] for key, each in found.items()}
    every = _model(choice, drawn, wanted, chosen) if several else first
    return every if _loss(every, choice.cost) < _loss(first, choice.cost) else first


def _loss(model: TrainedModel, cost: str) -> float:
    """Return the cost of validation nodes: of classes at the best temperature, which members of a mean have already."""
    found: float = getattr(model.record, cost)
    return model.record.extra.get("val_calibrated_cross_entropy", found) if cost == "val_cross_entropy" else found


def _good(choice: Choice, key: Key, found: Sequence[Trained]) -> list[Trained]:
    """Leave out trainings that came to nothing, though all on inner splits worked.

    Classes: those that lost more than half of what the others gained over the shares of the classes.
    """
    inner = [each for name, each in choice.records[key].items() if name != choice.split.name and each.status == "ok"]
    worst = max((getattr(each, choice.cost) for each in inner), default=math.inf)
    most, labels, split = _FAR * worst, choice.graph.labels, choice.split
    if labels is not None:
        counts = np.bincount(labels[split.train], minlength=choice.graph.num_classes) + 1
        nothing = float(-np.log(counts / counts.sum())[labels[split.val]].mean())
        most = max(most, (worst + nothing) / 2)
    return [each for each in found if getattr(each[0], choice.cost) <= most]


def _model(
    choice: Choice, found: Mapping[Key, Sequence[Trained]], shares: Mapping[Key, float], chosen: str
) -> TrainedModel:
    """Return the mean of trained networks by shares, or the only one."""
    labels = choice.task.known(choice.graph)[choice.split.val]
    models, parts, heats = list[TrainedModel](), list[float](), list[float]()
    for key, runs in found.items():
        for record, arrays in runs:
            kept = record.with_arrays(arrays)
            models.append(TrainedModel.from_records(choice.graph, [kept], choice.split))
            parts.append(shares[key] / len(runs))
            heats.append(temperature_of(arrays["outputs.val"], labels, choice.task))
    return models[0] if len(models) == 1 else Ensemble.from_models(models, parts, heats, name=chosen)


def refitted(choice: Choice, model: TrainedModel) -> TrainedModel:
    """Train each network again on validation nodes too, all but one, up to the epoch that was best without them."""
    split = choice.split
    both = np.concatenate([split.train, split.val[1:]])
    larger = Split(split.name, both, split.val[:1], split.test, split.node_weight)
    place: dict[str, Any] = {"device": choice.device, "workers": 1, "keep_weights": True}

    def again(one: TrainedModel) -> TrainedModel:
        config, record = one.config, one.record
        if one.method.trained and not one.method.solved:
            config = dataclasses.replace(config, max_epochs=_best_epoch(record), stopping="none", test_at="last")
        [made] = train(choice.graph, record.method, larger, [record.seed], config, **place)
        made = dataclasses.replace(
            made, scores=record.scores, extra=record.extra
        )  # of nodes that it has not learned from
        return TrainedModel.from_records(choice.graph, [made], larger)

    members = [again(each) for each in model.members] if isinstance(model, Ensemble) else [again(model)]
    made = members[0]
    if isinstance(model, Ensemble):
        made = Ensemble.joined(members, model.shares, model.temperatures, model.record)
    # Both were chosen by validation nodes, which have now been learned from.
    calibration = model.calibration if choice.graph.targets is None else None
    return dataclasses.replace(made, _calibration=calibration, aside=model.aside)


def _best_epoch(record: RunRecord) -> int:
    """Return how many epochs a training took up to its best one."""
    config = TrainConfig.from_dict(record.config)
    if config.test_at == "last":
        return record.epochs
    values = record.curves.get(f"val_{config.score}")
    if values is None:
        return int(np.argmin(record.curves["val_loss"])) + 1
    return int(np.argmax(find_score(config.score).gain(1.0) * np.array(values))) + 1
