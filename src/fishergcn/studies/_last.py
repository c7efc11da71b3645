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
from fishergcn.training import RunRecord, TrainConfig, temperature_of

if TYPE_CHECKING:
    from fishergcn.studies._choice import Choice

_SEEDS = 3  # of which the mean is taken where that is little work
_LITTLE = 60.0  # work of all of them: see training.work_of
_ATTEMPTS = 2  # more, of a training that fails where it worked on the inner splits
_FAR = 1.3  # times the worst cross entropy on inner splits, from which on a training has failed

Trained = tuple[RunRecord, Mapping[str, AnyArray]]  # and its weights


def final_model(choice: Choice, chosen: str, shares: Shares) -> TrainedModel:
    """Train what was chosen on the split itself: each member with several seeds, where that is little work."""
    keys = {full_name(key): key for key in choice.records}
    wanted = {keys[name]: share for name, share in shares.items()}
    little = _SEEDS * sum(choice.work(key) for key in wanted) <= _LITTLE
    several = choice.ensembles and choice.limit is None and little
    seeds = [choice.seed + each for each in range(_SEEDS if several else 1)]
    found = {key: _good(choice, key, each) for key, each in choice.finals("final", list(wanted), seeds).items()}
    for attempt in range(1, _ATTEMPTS + 1):
        failed = [key for key, each in found.items() if not each]
        again = choice.finals(f"final-{attempt}", failed, [choice.seed + _SEEDS + attempt]) if failed else {}
        found |= {key: _good(choice, key, each) for key, each in again.items()}
    for key, each in found.items():
        if not each:
            raise InputError(f"{full_name(key)} was chosen, but training it on the split itself failed.")
    first = _model(choice, {key: each[:1] for key, each in found.items()}, wanted, chosen)
    every = _model(choice, found, wanted, chosen) if several else first
    return every if every.record.val_cross_entropy < first.record.val_cross_entropy else first


def _good(choice: Choice, key: Key, found: Sequence[Trained]) -> list[Trained]:
    """Leave out trainings that came to nothing, though all on inner splits worked."""
    inner = [each for name, each in choice.records[key].items() if name != choice.split.name and each.status == "ok"]
    worst = max((each.val_cross_entropy for each in inner), default=math.inf)
    return [each for each in found if each[0].val_cross_entropy <= _FAR * worst]


def _model(
    choice: Choice, found: Mapping[Key, Sequence[Trained]], shares: Mapping[Key, float], chosen: str
) -> TrainedModel:
    """Return the mean of trained networks by shares, or the only one."""
    labels = np.asarray(choice.graph.labels)[choice.split.val]
    models, parts, heats = list[TrainedModel](), list[float](), list[float]()
    for key, runs in found.items():
        for record, arrays in runs:
            kept = record.with_arrays(arrays)
            models.append(TrainedModel.from_records(choice.graph, [kept], choice.split))
            parts.append(shares[key] / len(runs))
            heats.append(temperature_of(arrays["outputs.val"], labels))
    return models[0] if len(models) == 1 else Ensemble.from_models(models, parts, heats, name=chosen)


def refitted(choice: Choice, model: TrainedModel) -> TrainedModel:
    """Train each network again on validation nodes too, all but one, up to the epoch that was best without them."""
    split = choice.split
    both = np.concatenate([split.train, split.val[1:]])
    larger = Split(split.name, both, split.val[:1], split.test, split.node_weight)
    place: dict[str, Any] = {"device": choice.device, "workers": 1, "keep_weights": True}

    def again(one: TrainedModel) -> TrainedModel:
        config, record = one.config, one.record
        if one.method.trained:
            config = dataclasses.replace(config, max_epochs=_best_epoch(record), stopping="none", test_at="last")
        [made] = train(choice.graph, record.method, larger, [record.seed], config, **place)
        made = dataclasses.replace(made, scores=record.scores)  # of nodes that it has not learned from
        return TrainedModel.from_records(choice.graph, [made], larger)

    if not isinstance(model, Ensemble):
        return again(model)
    members = [again(each) for each in model.members]
    return Ensemble.joined(members, model.shares, model.temperatures, model.record)


def _best_epoch(record: RunRecord) -> int:
    """Return how many epochs a training took up to its best one."""
    config = TrainConfig.from_dict(record.config)
    if config.test_at == "last":
        return record.epochs
    score = record.curves.get(f"val_{config.score}", record.curves["val_loss"])
    low = config.score == "loss" or f"val_{config.score}" not in record.curves
    return int(np.argmin(score) if low else np.argmax(score)) + 1
