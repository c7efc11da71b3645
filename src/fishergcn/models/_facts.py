"""``model.json``: what is written about a saved model, and how it is read with suspicion."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fishergcn._base.checks import check_choice
from fishergcn._base.entries import Entries
from fishergcn._base.files import read_bytes
from fishergcn._base.json import parse_json
from fishergcn._version import __version__
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.models._calibrated import Calibrated
from fishergcn.models._selection import Selection
from fishergcn.training import RunRecord, TrainConfig, find_score, parse_method

FORMAT = "fishergcn-model"
_VERSION = 2  # named tensors of any network, and any scores; version 1 had those of a GCN, and five scores
_LARGEST = 64 << 20
ENSEMBLE = "ensemble"  # the method of a model that has members


def selection_rule(score: str) -> str:
    """Say how a run was chosen from several."""
    return f"best validation {find_score(score).title}, then least validation loss; test scores are not used"


@dataclass(frozen=True)
class MemberFacts:
    """What ``model.json`` says of a member of an ensemble."""

    record: RunRecord
    share: float
    temperature: float

    @property
    def config(self) -> TrainConfig:
        """The settings of its run."""
        return TrainConfig.from_dict(self.record.config)


@dataclass(frozen=True)
class Facts:
    """What ``model.json`` says of a saved model; ``sums`` are the SHA-256 of the binary files."""

    record: RunRecord
    split_sizes: Mapping[str, int]
    chosen_from: int
    embedded: bool
    class_names: tuple[str, ...]
    num_features: int
    sums: Mapping[str, str]
    choice: Selection | None = None
    chosen_by: str = "accuracy"
    members: tuple[MemberFacts, ...] = ()
    calibration: Calibrated | None = None
    sets: Mapping[str, Any] | None = None  # of nodes set aside, whose number is ``nodes``

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """The run, or those of the members of an ensemble."""
        return tuple(each.record for each in self.members) or (self.record,)

    @property
    def config(self) -> TrainConfig:
        """The settings of the run."""
        return TrainConfig.from_dict(self.record.config)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": FORMAT,
            "version": _VERSION,
            "class_names": list(self.class_names),
            "num_features": self.num_features,
            "graph": "embedded" if self.embedded else "graph.npz",
            "split_sizes": dict(self.split_sizes),
            "selection": {"rule": selection_rule(self.chosen_by), "runs": self.chosen_from, "score": self.chosen_by},
            "sha256": dict(self.sums),
            "run": _plain(self.record),
            **({} if self.choice is None else {"choice": self.choice.to_dict()}),
            **({"members": [_plain_member(each) for each in self.members]} if self.members else {}),
            **({} if self.calibration is None else {"calibration": self.calibration.to_dict()}),
            **({} if self.sets is None else {"sets": dict(self.sets)}),
        }


def _plain(record: RunRecord) -> dict[str, Any]:
    return dataclasses.replace(record, curves={}, weights=None).to_dict()


def _plain_member(member: MemberFacts) -> dict[str, Any]:
    return {"run": _plain(member.record), "share": member.share, "temperature": member.temperature}


def read_facts(folder: Path) -> Facts:
    """Read and check ``model.json``."""
    path = folder / "model.json"
    if not os.path.isfile(path):  # unlike Path.is_file, no exception for any path
        raise DataFileError(f"{folder} is not a model folder: it has no model.json{_models_inside(folder)}.")
    try:
        values = parse_json(read_bytes(path, limit=_LARGEST).decode("utf-8"))
        return _facts(values)
    except DataFileError as error:
        raise error if str(path) in str(error) else DataFileError(f"{path}: {error}") from None
    except InputError as error:  # a setting or a method that there is not
        raise DataFileError(f"{path}: {error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DataFileError(f"{path} is not valid JSON of a model ({reason(error)}).") from None


def _models_inside(folder: Path) -> str:
    inside = sorted(path.parent.name for path in folder.glob("*/model.json")) if os.path.isdir(folder) else []
    return f"; its subfolders {', '.join(inside)} are" if inside else ""


def _facts(values: Any) -> Facts:
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise DataFileError(f"the format must be {FORMAT!r}.")
    if values.get("version") not in (1, _VERSION):
        raise DataFileError(
            f"version {values.get('version')!r:.20} of the model format, written by {_writer(values)}, cannot be read "
            f"by fishergcn {__version__}, which reads versions 1 and {_VERSION}: update fishergcn, or train the model "
            "again."
        )
    found = Entries(values, "the model")
    graph, sizes = check_choice("graph", found.text("graph"), ("embedded", "graph.npz")), found.inside("split_sizes")
    sums, chosen, names = found.inside("sha256"), found.inside("selection"), found.texts("class_names")
    classes = len(names)
    members = tuple(_member(each) for each in found.tables("members")) if "members" in values else ()
    if members and not (len(members) > 1 and abs(sum(each.share for each in members) - 1) < 1e-6):
        raise DataFileError("the members of an ensemble must be two or more, with shares that add up to 1.")
    record = _record(found.table("run"), ensemble=bool(members))
    if any((each.record.graph_digest, each.record.split) != (record.graph_digest, record.split) for each in members):
        raise DataFileError("the members of an ensemble must be of its graph and its split.")
    return Facts(
        record=record,
        members=members,
        split_sizes={part: sizes.whole(part) for part in ("train", "val", "test")},
        chosen_from=chosen.whole("runs"),
        chosen_by=find_score(chosen.text("score")).name if "score" in chosen.values else "accuracy",
        embedded=graph == "embedded",
        class_names=names,
        num_features=found.whole("num_features"),
        sums={name: sums.text(name) for name in sums.values},
        choice=Selection.from_dict(values["choice"]) if "choice" in values else None,
        calibration=Calibrated.from_dict(values["calibration"], classes) if "calibration" in values else None,
        sets=found.table("sets") if "sets" in values else None,
    )


def _writer(values: dict[str, Any]) -> str:
    """Return which version of the package made a folder, as far as it says so."""
    found: Any = values
    for key in ("run", "versions", "fishergcn"):
        found = found.get(key) if isinstance(found, dict) else None
    return f"fishergcn {' '.join(found.split()):.40}" if isinstance(found, str) else "an unknown version of fishergcn"


def _member(values: Mapping[str, Any]) -> MemberFacts:
    found = Entries(values, "a member")
    share, temperature = found.number("share"), found.number("temperature")
    if not (0 < share <= 1 and 0 < temperature < 1e6):
        raise DataFileError(f"share and temperature of a member must be positive, got {share} and {temperature}.")
    return MemberFacts(_record(found.table("run")), share, temperature)


def _record(values: Mapping[str, Any], *, ensemble: bool = False) -> RunRecord:
    record = RunRecord.from_dict(values)
    if ensemble and record.method != ENSEMBLE:
        raise DataFileError(f"the method of a model with members must be {ENSEMBLE!r}, got {record.method!r:.80}.")
    if not ensemble:
        parse_method(record.method)
    TrainConfig.from_dict(record.config)
    return record
