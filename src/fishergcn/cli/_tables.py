"""The options for tables of one's own: what each file is, and which of its columns means what."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, get_type_hints

from fishergcn.cli import _options as shared


@dataclass(frozen=True)
class Tables:
    """The files beside --edges, and how all of them are read."""

    features: shared.Features = None
    labels: shared.Labels = None
    header: shared.Header = None
    source: shared.SourceColumn = None
    target: shared.TargetColumn = None
    weight: shared.WeightColumn = None
    id_: shared.IdColumn = None
    label: shared.LabelColumn = None
    parts: shared.PartsColumns = None
    drop: shared.DropColumns = None
    text: shared.TextColumns = "refuse"
    empty: shared.EmptyCells = "refuse"
    directed: shared.Directed = "undirected"
    self_links: shared.SelfLinks = "keep"


def takes_tables(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let the command line see the fields of ``Tables`` in the place of a command's parameter ``tables``.

    Parameters
    ----------
    without : collection of str
        Fields that the command has no use for; they keep their defaults.
    """
    hints = get_type_hints(Tables, include_extras=True)
    names = [field.name for field in fields(Tables) if field.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**options: Any) -> None:
            tables = Tables(**{name: options.pop(name) for name in names})
            command(**options, tables=tables)

        found: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == "tables":
                defaults = {name: getattr(Tables, name) for name in names}
                found += [_option(name, hints[name], default) for name, default in defaults.items()]
            else:
                found.append(_option(parameter.name, parameter.annotation, parameter.default))
        # Typer reads both, depending on its version.
        run.__signature__ = inspect.Signature(found, return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in found}
        return run

    return decorate


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter that is given by its name, as the command line gives all of them."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
