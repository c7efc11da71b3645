"""``--dry-run``: what a command would take, as the command line shows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fishergcn._base.terminal import console, table
from fishergcn.cli._common import print_json

if TYPE_CHECKING:
    from fishergcn.execution import Cost


def show_cost(cost: Cost, *, as_json: bool) -> None:
    """Print what each method takes on each graph and what all take together; raise if it will not fit."""
    if as_json:
        print_json(cost.to_dict())
    else:
        rows = [
            [
                each.part.dataset,
                each.part.name,
                str(each.part.runs),
                _shown(each.preparation, ".2f"),
                _shown(1e3 * each.epoch, ".1f"),
                str(each.timed),
                _shown(each.longest, ".1f"),
                f"{each.bytes / 1e9:.2f}",
            ]
            for each in cost.parts
        ]
        heads = ["data set", "method", "runs", "preparation (s)", "epoch (ms)", "measured over", "run, at most (s)",
                 "memory (GB)"]  # fmt: skip
        console().print(table("What it would take", heads, rows))
        if len(cost.parts) == 1:
            console().print(f"{str(cost.parts[0]).capitalize()}.", soft_wrap=True)
        console().print(f"All runs: {cost}.", soft_wrap=True)
    cost.check()


def _shown(seconds: float, form: str) -> str:
    return "not timed" if math.isnan(seconds) else format(seconds, form)
