"""``fishergcn leaderboard``: from which candidates a model was chosen, best first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.models import Selection


def leaderboard(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A model folder, as written by fishergcn train --out, or the OUT-search folder beside it.",
            metavar="MODEL",
        ),
    ],
    json: shared.Json = False,
) -> None:
    """Show the candidates from which a model was chosen, best first, and what to expect of the model."""
    from fishergcn.cli._auto import show_selection

    selection = _read(folder)
    if json:
        print_json(selection.to_dict() | {"candidates": [each.to_dict() for each in selection.ranked()]})
    else:
        show_selection(selection, f"{folder}: candidates")


def _read(folder: Path) -> Selection:
    from fishergcn.models import read_facts
    from fishergcn.studies import load_selection

    if os.path.isfile(folder / "choice.json") and not os.path.isfile(folder / "model.json"):
        selection = load_selection(folder)
        if selection is None:
            raise InputError(f"{folder} is a search that is not finished: nothing was chosen yet.")
        return selection
    facts = read_facts(folder)
    if facts.choice is None:
        raise InputError(
            f"{folder} was trained with --method {facts.record.method}, not chosen from candidates, so there is no "
            "leaderboard; fishergcn train without --method chooses."
        )
    return facts.choice
