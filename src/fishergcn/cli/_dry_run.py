"""``--dry-run``: what a command would take, as the command line shows it."""

from __future__ import annotations

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
                f"{each.preparation:.2f}",
                f"{1e3 * each.epoch:.1f}",
                f"{each.run:.1f}",
                f"{each.bytes / 1e9:.2f}",
            ]
            for each in cost.parts
        ]
        heads = ["data set", "method", "runs", "preparation (s)", "epoch (ms)", "run (s)", "memory (GB)"]
        console().print(table("What it would take", heads, rows))
        console().print(f"All runs: {cost}.", soft_wrap=True)
    cost.check()
