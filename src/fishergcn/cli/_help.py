"""How ``--help`` shows options: flags and arguments without a type, short types, and choices folded."""

from __future__ import annotations

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

_FITS = 14  # characters that leave room for the help text on 80 columns
_TYPES = {"int": "INT", "float": "FLOAT", "str": "TEXT", "path": "PATH", "Path": "PATH", "text": "TEXT"}
_TYPES |= {"integer": "INT", "directory": "PATH", "file": "PATH"}  # as older versions of Typer call them


class Command(TyperCommand):
    """A command whose help reads as people expect; a GRAPH that it takes may stand behind --graph or --dataset too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command."""
        flags = {flag for each in self.params for flag in each.opts}
        if any(each.metavar == "GRAPH" for each in self.params if each.param_type_name == "argument"):
            bare = [flag for flag in ("--graph", "--dataset") if flag not in flags]
            args = [word.partition("=")[2] if word.startswith(tuple(f"{flag}=" for flag in bare)) else word
                    for word in args if word not in bare]  # fmt: skip
        return list(super().parse_args(ctx, args))

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, with what their help shows of their types."""
        return _shown(super().get_params(ctx), ctx)


class Group(TyperGroup):
    """A group of commands whose help reads as people expect."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, with what their help shows of their types."""
        return _shown(super().get_params(ctx), ctx)


def _shown(params: Any, ctx: Any) -> Any:
    for each in params:
        if each.param_type_name == "option" and each.metavar is None:
            each.metavar = "" if getattr(each, "is_flag", False) else short_type(_type_of(each, ctx))
        elif each.param_type_name == "argument" and hasattr(each, "display_type"):
            each.display_type = lambda _: ""  # its name says what it is
            if each.required:  # newer versions of Typer put it in braces, where others have braces for choices
                each._usage_display_name = partial(_bare_name, each)
    return params


def _bare_name(argument: Any) -> str:
    return str(argument.display_name_raw) + ("..." if argument.nargs != 1 else "")


def _type_of(option: Any, ctx: Any) -> str:
    """Return the type as this version of Typer would show it."""
    if hasattr(option, "display_type"):
        return str(option.display_type(ctx))
    try:
        return str(option.make_metavar(ctx))
    except TypeError:  # click before 8.2
        return str(option.make_metavar())


def short_type(text: str) -> str:
    """Return a type as it is shown: in capitals, or the choices, one to a line if they are long."""
    bare = text.strip("<>[]").removeprefix("list[")
    if "|" in bare:
        return bare if len(bare) <= _FITS else bare.replace("|", "|\n")
    return _TYPES.get(bare, _TYPES.get(bare.lower(), bare))
