"""The runs of tools/gnn_table.py as a CSV file, and the page that is made from it."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from _blocks import fill
from _gnn_networks import MODES, SETTINGS

from fishergcn.errors import InputError
from fishergcn.studies._statistics import Estimate, estimate, paired_difference

DATASETS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
KEY = ("dataset", "model", "mode", "split", "seed", "epochs")
COLUMNS = (*KEY, "best_epoch", "val_loss", "test_accuracy", "seconds", "device", "torch", "torch_geometric")

Row = dict[str, str]


def key_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in KEY)


def read_rows(path: Path) -> list[Row]:
    """Read the whole lines of a CSV file; the last one may still be in the making."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))
    if any(list(row) != list(COLUMNS) or None in row.values() for row in rows):
        raise InputError(f"{path} must have the columns {', '.join(COLUMNS)}.")
    return rows


def csv_text(rows: Iterable[Mapping[str, Any]], *, header: bool) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *rows])


def points(value: float) -> str:
    text = f"{100 * value:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def interval(difference: Estimate) -> str:
    return f"{points(difference.mean)} [{points(difference.low)}, {points(difference.high)}]"


def settings_block() -> str:
    rows = []
    for setting in SETTINGS.values():
        one, other = (f"{decay:g}" for decay in setting.decay)
        decay = one if one == other else f"{one} ({setting.groups[0]}), {other} ({setting.groups[1]})"
        rate, dropout = f"{setting.learning_rate:g}", f"{setting.dropout:g}"
        rows.append([setting.title, setting.layers, dropout, rate, decay, setting.source])
    return markdown(["network", "layers", "dropout", "learning rate", "weight decay", "after"], rows)


def table_block(path: Path) -> str:
    """Return the table, how it was made and what its intervals say."""
    rows = read_rows(path)
    if not rows:
        return "*No runs yet: the first command above makes them, the second writes the table.*"
    if len({row["epochs"] for row in rows}) > 1:
        raise InputError(f"{path} must hold runs of one number of epochs; write those of another to a file of its own.")
    values: dict[tuple[str, str, str], dict[tuple[str, int], float]] = defaultdict(dict)
    for row in rows:
        if math.isfinite(accuracy := float(row["test_accuracy"])):
            values[row["dataset"], row["model"], row["mode"]][row["split"], int(row["seed"])] = accuracy
    lines, effects = [], []
    for dataset, model in [(dataset, model) for dataset in DATASETS for model in SETTINGS]:
        plain, control, perturbed = (values[dataset, model, mode] for mode in MODES)
        if not (plain.keys() & control.keys() and control.keys() & perturbed.keys()):
            continue
        cells = [estimate(each) for each in (plain, control, perturbed)]
        gain, _, _ = paired_difference(control, plain)
        effect, _, (won, tied, lost) = paired_difference(perturbed, control)
        effects.append(effect)
        name = [DATASETS[dataset], SETTINGS[model].title]
        means = [f"{100 * cell.mean:.2f} ± {100 * cell.std:.2f}" for cell in cells]
        lines.append([*name, *means, interval(gain), interval(effect), f"{won} / {tied} / {lost}"])
    if not lines:
        raise InputError(f"{path} must hold runs of all three modes on one split and seed.")
    header = ["data", "network", "plain", "x5", "adversary", "x5 − plain", "**adversary − x5**", "won / tied / lost"]
    return f"{markdown(header, lines)}\n\n{made_by(rows)}\n\n{verdict(effects)}"


def made_by(rows: list[Row]) -> str:
    splits, seeds = (len({row[name] for row in rows}) for name in ("split", "seed"))
    diverged = sum(not math.isfinite(float(row["test_accuracy"])) for row in rows)
    names = sorted({(row["device"], row["torch"], row["torch_geometric"]) for row in rows})
    places = "; ".join(f"{device}, torch {one}, torch_geometric {other}" for device, one, other in names)
    seconds = sum(float(row["seconds"]) for row in rows)
    return (
        "Test accuracy in %, mean ± standard deviation over the runs; differences in points, paired on split and seed, "
        "with 95 % intervals from resampling splits; won, tied and lost count splits of adversary − x5. "
        f"{len(rows)} runs ({splits} splits, {seeds} {'seed' if seeds == 1 else 'seeds'}, {rows[0]['epochs']} epochs), "
        f"{diverged} of them diverged; "
        f"{seconds:.0f} seconds summed over the processes that shared the device ({places})."
    )


def verdict(effects: list[Estimate]) -> str:
    """Say what the intervals say, and no more."""
    above, below = sum(each.low > 0 for each in effects), sum(each.high < 0 for each in effects)
    mean = points(sum(each.mean for each in effects) / len(effects))
    return (
        f"Adversary − x5, intervals above zero: {above} of {len(effects)}; below zero: {below}. If the perturbation "
        f"did nothing, 95 % intervals would leave out zero about {0.05 * len(effects):.1f} times in {len(effects)}. "
        f"The mean of all differences is {mean} points."
    )


def filled(text: str, runs: Path) -> str:
    """Make the blocks of a page anew."""
    return fill(text, "gnn", {"settings": settings_block, "table": lambda: table_block(runs)})
