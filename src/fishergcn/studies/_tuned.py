"""What a search for settings found, and the file that keeps it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fishergcn._base.entries import Entries
from fishergcn._base.files import read_bytes, refuse_links, write_text
from fishergcn._base.json import parse_json, plain
from fishergcn._base.reprs import one_line
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph import Graph
from fishergcn.training import Score, TrainConfig, find_score, parse_method, rank

_FORMAT = "fishergcn-tuning"
_LARGEST = 256 << 20  # bytes of tuning.json


@dataclass(frozen=True)
class Trial:
    """One configuration and how it did on validation nodes: means; a run that diverged counts with accuracy 0.

    ``scores`` has the score that the search goes by, if that is another, as in a record (``"val_macro_f1"``): a run
    that diverged counts with the worst value there is, and without one the score is NaN. It is an attribute too.
    """

    settings: dict[str, Any]
    val_accuracy: float
    val_loss: float | None
    scores: Mapping[str, float] = field(default_factory=dict)

    def __getattr__(self, name: str) -> float:
        known: Mapping[str, float] = self.__dict__.get("scores", {})
        if name in known:
            return known[name]
        raise AttributeError(f"a trial has no field and no score {name!r}.")


@dataclass(frozen=True)
class Tuning:
    """What a search found; see :func:`tune`."""

    method: str
    config: TrainConfig
    trials: tuple[Trial, ...]
    dataset: str = ""
    runs: tuple[tuple[str, int], ...] = ()
    score: str = "accuracy"

    __repr__ = one_line

    @property
    def best(self) -> Trial:
        """The trial with the best validation score, of equal ones that with the least validation loss."""
        return rank(self.trials, self.score)[0]

    @property
    def last(self) -> str:
        """The score of the last trial and of the best, in words."""
        last, best = (self.measure.text(self.value(each)) for each in (self.trials[-1], self.best))
        return f"validation {self.measure.title} {last}, best {best}"

    @property
    def measure(self) -> Score:
        """The score that the search goes by."""
        return find_score(self.score)

    def value(self, trial: Trial) -> float:
        """Return the score of a trial; NaN if it has none."""
        found = getattr(trial, f"val_{self.score}")
        return math.nan if found is None else float(found)


def load_tuning(folder: str | os.PathLike[str]) -> Tuning:
    """Read what :func:`tune` has found so far from the ``tuning.json`` of its folder.

    Examples
    --------
    >>> import tempfile, fishergcn
    >>> from fishergcn import studies
    >>> cora = fishergcn.datasets.load("cora")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = studies.tune(cora, "gcn", "public", folder, config=fishergcn.TrainConfig(max_epochs=1), trials=1)
    ...     load_tuning(folder) == found
    True
    """
    path = Path(folder, "tuning.json")
    refuse_links(folder, path.name)
    try:
        found = Entries(parse_json(read_bytes(path, limit=_LARGEST)), "the search")
        if found.text("format") != _FORMAT or found.whole("version") != 1:
            raise DataFileError(f"{path}: the format must be {_FORMAT!r} of version 1.")
        pairs = [Entries(each, "a run") for each in found.tables("runs")]
        runs = tuple((each.text("split"), each.whole("seed")) for each in pairs)
        dataset = found.text("dataset") if found.values.get("dataset") else ""
        score = find_score(found.text("score") if "score" in found.values else "accuracy")
        trials = tuple(_trial(Entries(each, "a trial"), score) for each in found.tables("trials"))
        method, config = parse_method(found.text("method")).name, TrainConfig.from_dict(found.table("config"))
    except DataFileError:
        raise
    except (InputError, ValueError, RecursionError) as error:
        raise DataFileError(f"{path} cannot be read as a search by fishergcn tune ({reason(error)}).") from None
    if not trials:
        raise DataFileError(f"{path} has no finished trial.")
    return Tuning(method, config, trials, dataset, runs, score.name)


def _trial(found: Entries, score: Score) -> Trial:
    settings = dict(found.table("settings"))
    if any(not isinstance(value, str | int | float) for value in settings.values()):
        raise InputError(f"settings must be numbers or words, got {settings!r:.80}.")
    accuracy, loss = found.real("val_accuracy", maximum=1.0), found.number("val_loss")
    own = {} if score.name in ("accuracy", "loss") else {f"val_{score.name}": found.number(f"val_{score.name}")}
    return Trial(settings, accuracy, None if math.isnan(loss) else loss, own)


def write_tuning(folder: Path, result: Tuning, graph: Graph) -> None:
    """Write what a search has found so far to the ``tuning.json`` of its folder."""
    values = {
        "format": _FORMAT,
        "version": 1,
        "dataset": result.dataset,
        "graph_digest": graph.digest,
        "method": result.method,
        "score": result.score,
        "runs": [{"split": split, "seed": seed} for split, seed in result.runs],
        "best": _values(result.best),
        "config": result.config.to_dict(),
        "trials": [_values(trial) for trial in result.trials],
    }
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / "tuning.json", text, inside=folder)


def _values(trial: Trial) -> dict[str, Any]:
    values = dataclasses.asdict(trial)
    made: dict[str, Any] = plain(values | values.pop("scores"))
    return made
