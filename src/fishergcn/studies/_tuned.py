"""What a search for settings found, and the file that keeps it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fishergcn._base.entries import Entries
from fishergcn._base.files import read_bytes, write_text
from fishergcn._base.json import parse_json
from fishergcn._base.reprs import one_line
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph import Graph
from fishergcn.training import TrainConfig, parse_method, rank

_FORMAT = "fishergcn-tuning"
_LARGEST = 256 << 20  # bytes of tuning.json


@dataclass(frozen=True)
class Trial:
    """One configuration and how it did on validation nodes: means; a run that diverged counts with accuracy 0."""

    settings: dict[str, Any]
    val_accuracy: float
    val_loss: float | None


@dataclass(frozen=True)
class Tuning:
    """What a search found; see :func:`tune`."""

    method: str
    config: TrainConfig
    trials: tuple[Trial, ...]
    dataset: str = ""
    runs: tuple[tuple[str, int], ...] = ()

    __repr__ = one_line

    @property
    def best(self) -> Trial:
        """The trial with the best validation accuracy, of equal ones that with the least validation loss."""
        return rank(self.trials)[0]


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
    try:
        found = Entries(parse_json(read_bytes(path, limit=_LARGEST)), "the search")
        if found.text("format") != _FORMAT or found.whole("version") != 1:
            raise DataFileError(f"{path}: the format must be {_FORMAT!r} of version 1.")
        pairs = [Entries(each, "a run") for each in found.tables("runs")]
        runs = tuple((each.text("split"), each.whole("seed")) for each in pairs)
        dataset = found.text("dataset") if found.values.get("dataset") else ""
        trials = tuple(_trial(Entries(each, "a trial")) for each in found.tables("trials"))
        method, config = parse_method(found.text("method")).name, TrainConfig.from_dict(found.table("config"))
    except DataFileError:
        raise
    except (InputError, ValueError, RecursionError) as error:
        raise DataFileError(f"{path} cannot be read as a search by fishergcn tune ({reason(error)}).") from None
    if not trials:
        raise DataFileError(f"{path} has no finished trial.")
    return Tuning(method, config, trials, dataset, runs)


def _trial(found: Entries) -> Trial:
    settings = dict(found.table("settings"))
    if any(not isinstance(value, str | int | float) for value in settings.values()):
        raise InputError(f"settings must be numbers or words, got {settings!r:.80}.")
    accuracy, loss = found.real("val_accuracy", maximum=1.0), found.number("val_loss")
    return Trial(settings, accuracy, None if math.isnan(loss) else loss)


def write_tuning(folder: Path, result: Tuning, graph: Graph) -> None:
    """Write what a search has found so far to the ``tuning.json`` of its folder."""
    values = {
        "format": _FORMAT,
        "version": 1,
        "dataset": result.dataset,
        "graph_digest": graph.digest,
        "method": result.method,
        "runs": [{"split": split, "seed": seed} for split, seed in result.runs],
        "best": dataclasses.asdict(result.best),
        "config": result.config.to_dict(),
        "trials": [dataclasses.asdict(trial) for trial in result.trials],
    }
    write_text(folder / "tuning.json", json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
