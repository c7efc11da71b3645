"""Train five networks of PyTorch Geometric with and without the adversary, and write the table of docs/reproduction.md.

    python tools/gnn_table.py --device cuda --processes 12 --out DIR
    fishergcn runs archive DIR --out results/gnn --curves none
    python tools/gnn_table.py --table results/gnn --into docs/reproduction.md

The first command is a study with a measure of its own. It can be interrupted and repeated: what DIR/runs.sqlite holds
is not trained again. One training loop keeps a GPU idle most of the time, waiting for the next small kernel, so several
processes share it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from _gnn_networks import MODES, RADIUS, RANK, SAMPLES, SETTINGS, measure_networks
from _gnn_page import DATASETS, filled

from fishergcn import TrainConfig, datasets
from fishergcn._base.files import write_text
from fishergcn.execution import Display
from fishergcn.splits import named
from fishergcn.studies import Cell, Plan, run


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the study: networks in three modes, which are methods, so that each finds its control."""
    cells = []
    for dataset in options.datasets:
        for name in options.models:
            setting = SETTINGS[name]
            config = TrainConfig(
                learning_rate=setting.learning_rate, dropout=setting.dropout, max_epochs=options.epochs,
                samples=SAMPLES, radius=RADIUS, rank=RANK, stopping="none", test_at="best-val",
            )  # fmt: skip
            for mode, method in MODES.items():
                cells.append(Cell(dataset, f"{name} {mode}", method, "", config, {"network": name}))
    return Plan(
        preset="networks",
        title="The add-on on other networks",
        source="Our own; the paper has the GCN alone",
        notes=("Layers and weight decay of each network are those of docs/reproduction.md, not of the configuration.",),
        cells=tuple(cells),
        splits=tuple(named(options.splits)),
        seeds=tuple(range(options.seeds)),
        digests={dataset: datasets.load(dataset).digest for dataset in options.datasets},
        measure="networks",
    )


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--out", type=Path, metavar="DIR", help="the folder of the study to make or to complete")
    options.add_argument("--device", default="cpu", help="such as cpu or cuda")
    options.add_argument("--processes", type=positive, default=2)
    options.add_argument("--splits", type=positive, default=5, help="shuffled splits, from seed 2019 on")
    options.add_argument("--seeds", type=positive, default=2, help="initializations on each split")
    options.add_argument("--epochs", type=positive, default=200)
    options.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    options.add_argument("--models", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options.add_argument("--table", type=Path, metavar="DIR", help="write the table of these runs")
    options.add_argument("--into", type=Path, metavar="PAGE", help="the page with the marked blocks")
    return options


def main(arguments: list[str] | None = None) -> int:
    line = parser()
    options = line.parse_args(arguments)
    if (options.out is None) == (options.table is None) or (options.table is None) != (options.into is None):
        line.error("give --out DIR to train, or --table DIR --into PAGE to write the table")
    if options.table is not None:
        write_text(options.into, filled(options.into.read_text(encoding="utf-8"), options.table))
        return 0
    how = {"device": options.device, "workers": options.processes, "measure": measure_networks}
    with Display() as display, run(plan_of(options), options.out, listener=display, **how) as runs:
        return int("failed" in runs.counts())


if __name__ == "__main__":
    sys.exit(main())
