"""The options of all commands: each is declared once, with its help, and means the same everywhere.

Options that belong together are one dataclass. A command takes an object of it, and the command line sees its fields.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from fishergcn._base.terminal import note
from fishergcn._settings.seeds import FIRST_SEED, check_seeds
from fishergcn.errors import DataFileError, FisherGCNError

REQUIRED: Any = MISSING  # the default of an option that must be given
DEFAULT_METHOD = "fishergcn-t"
_DECLARED = "declared"


def option(text: str, *flags: str, default: Any = None, panel: str | None = None, **more: Any) -> Any:
    """Return a field of a dataclass of options: help, flags unless the name says them, default, and Typer's others."""
    return field(default=default, metadata={_DECLARED: typer.Option(*flags, help=text, rich_help_panel=panel, **more)})


def takes_options(
    *, without: Collection[str] = (), ignoring: Callable[..., None] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let the command line see the fields of dataclasses in the place of a command's parameters of these types.

    Those ``without`` use for the command are left out, and keep their defaults. Other options of the command
    ``ignoring`` are accepted with a note. Errors name options in place of arguments.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        taken = inspect.signature(command, eval_str=True).parameters.values()
        shown: list[inspect.Parameter] = []
        for each in taken:
            shown += _parameters(each.annotation, without) if is_dataclass(each.annotation) else [each]
        unused = {} if ignoring is None else _hidden(ignoring, {each.name for each in shown})
        flags = {each.name.rstrip("_"): _flag(each).partition("/")[0] for each in shown if _is_option(each)}
        flags.pop("name", None)  # which stands in NAME=VALUE too
        flags |= {"max_epochs": flags["epochs"]} if "epochs" in flags else {}

        @wraps(command)
        def run(**given: Any) -> None:
            ignored = [
                _flag(each) for name, each in unused.items() if given.pop(name, None) not in (None, each.default)
            ]
            if ignored:
                note(f"{', '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect here.")
            objects = {each.name: _made(each.annotation, given) for each in taken if is_dataclass(each.annotation)}
            try:
                command(**objects, **given)
            except FisherGCNError as error:
                error.args = (in_options(str(error), flags),)
                raise

        # Given by name, as the command line gives all of them. Typer reads both, depending on its version.
        seen = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*shown, *unused.values())]
        run.__signature__ = inspect.Signature(seen, return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in seen}
        return run

    return decorate


def _hidden(command: Callable[..., None], known: Collection[str]) -> dict[str, inspect.Parameter]:
    """Return the options of a command that another one does not have, none of which its help shows."""
    found = {}
    for name, each in inspect.signature(command).parameters.items():
        kind, declared = get_args(each.annotation)[:2]
        if name not in known and name != "dry_run" and _is_option(each):
            unseen = copy.copy(declared)
            unseen.hidden = True
            found[name] = each.replace(annotation=Annotated[kind, unseen])
    return found


def _is_option(parameter: inspect.Parameter) -> bool:
    declared = [*get_args(parameter.annotation), None, None][1]
    return isinstance(declared, type(typer.Option()))


def _flag(parameter: inspect.Parameter) -> str:
    """Return how an option is written; beside a type, the first flag stands where its default is otherwise."""
    declared = get_args(parameter.annotation)[1]
    return declared.default if isinstance(declared.default, str) else f"--{parameter.name.replace('_', '-')}"


_KIND = re.compile(r"columns=\{('[^']*'|\"[^\"]*\"): '([a-z-]+)'\}")


def in_options(sentence: str, flags: Mapping[str, str]) -> str:
    """Return a sentence with options in the place of arguments of Python: ``--text drop`` for ``text='drop'``."""
    found = _KIND.sub(lambda match: f"--column {shlex.quote(f'{match[1][1:-1]}={match[2]}')}", sentence)
    found = re.sub(r"^columns\['(.*)'\] must", r"--column \1 must", found)
    found = found.replace("header=False", "--header none").replace("overwrite=True", "--overwrite")
    names = "|".join(map(re.escape, flags))
    value = r"'[^']*'|\"[^\"]*\"|\['[^']*'(?:, '[^']*')*\]|[\w.+-]*\w|"

    def option(match: re.Match[str]) -> str:
        texts = match[2].strip("[]'\"").split("', '")
        return " ".join(f"{flags[match[1]]} {shlex.quote(text)}" if text else flags[match[1]] for text in texts)

    found = re.sub(rf"(?<![\w.'\"-])({names})=({value})", option, found)
    return re.sub(rf"^({names}) must", lambda match: f"{flags[match[1]]} must", found)


def _parameters(kind: Any, without: Collection[str]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        hint, declared = hints[each.name], each.metadata.get(_DECLARED)
        if is_dataclass(hint):
            yield from _parameters(hint, without)
        elif each.name not in without:
            annotation = hint if declared is None else Annotated[hint, declared]
            default = inspect.Parameter.empty if each.default is MISSING else each.default
            yield inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _made(kind: Any, given: dict[str, Any]) -> Any:
    """Return an object of a dataclass, and take its values out of those that were given."""
    hints = get_type_hints(kind)
    nested = {name: _made(hint, given) for name, hint in hints.items() if is_dataclass(hint)}
    return kind(**nested, **{each.name: given.pop(each.name) for each in fields(kind) if each.name in given})


def values_of(*objects: Any) -> dict[str, Any]:
    """Return the values of options by the names of their fields, those of nested objects among them."""
    found: dict[str, Any] = {}
    for each in objects:
        for name, value in vars(each).items():
            found |= values_of(value) if is_dataclass(value) else {name: value}
    return found


def options_of(command: Callable[..., None]) -> dict[str, Any]:
    """Return the defaults of a command's options, by the names of their fields."""
    return {name: each.default for name, each in inspect.signature(command).parameters.items()}


def words_of(command: Callable[..., None], values: Mapping[str, Any]) -> list[str]:
    """Return options of a command as words, without those that have its defaults."""
    usual = inspect.signature(command).parameters
    words: list[str] = []
    for name, value in values.items():
        if value in (None, usual[name].default):
            continue
        yes, _, no = _flag(usual[name]).partition("/")
        if isinstance(value, bool):
            words.append(yes if value else no)
        else:
            words += [word for each in (value if isinstance(value, list) else [value]) for word in (yes, str(each))]
    return words


def check_new_file(path: Path, *, overwrite: bool) -> None:
    """Raise now, before the work, if the file of --out is there and may not be replaced."""
    if not overwrite and os.path.exists(path) and not os.path.isdir(path):  # a folder is refused later
        raise DataFileError(f"{path} exists already; --overwrite replaces it.")


GraphName = Annotated[str, typer.Argument(help="A data set or a graph file (.npz).", metavar="GRAPH")]
ModelFolder = Annotated[
    Path, typer.Argument(help="A model folder, as written by fishergcn train --out.", metavar="MODEL")
]
RunsFolder = Annotated[
    Path, typer.Argument(help="A folder made by fishergcn reproduce, compare or robustness.", metavar="DIR")
]
Score = Annotated[
    str | None,
    typer.Option(
        help="Which score to compare methods of a study by: accuracy (the default), balanced-accuracy, macro-f1, "
        "roc-auc, average-precision, log-loss or loss.",
        metavar="NAME",
    ),
]
Plot = Annotated[Path | None, typer.Option(help="Save a plot to this file (.png, .svg or .pdf).")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")]

_DATA, _RUNS = "Data", "Runs and results"
run_option = partial(option, panel=_RUNS)
workers_option = partial(
    run_option, "How many processes to use; by default one per core, or none beside this one on a GPU."
)
_GRAPH = "A data set that ships with the package, or a graph file (.npz)"
Dataset = Annotated[
    list[str] | None,
    typer.Option("--dataset", "--graph", help=f"{_GRAPH}; may be repeated.", rich_help_panel=_DATA, metavar="GRAPH"),
]
Graphs = Annotated[list[str] | None, typer.Argument(help=f"{_GRAPH}: the same as --dataset.", metavar="GRAPH")]
Splits = Annotated[
    list[str] | None,
    typer.Option(
        help="How many splits, or which; may be repeated. A number follows the preset's rule; without one it takes "
        "the masks that came with the data, or else random splits (shuffled:2019, ..., or per-class:20+30:2019, ... "
        "if there is no public split). Names: public, mask:NUMBER, shuffled:SEED, per-class:SEED, "
        "per-class:TRAIN+VAL:SEED, held-out:PERCENT%:SEED. By default the preset's; for compare ten, or all masks; "
        "otherwise public, the first mask, or held-out:20%:0 if the graph has neither.",
        metavar="N|NAME",
        rich_help_panel=_DATA,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="gcn, gcn-xM (M dropout samples), fishergcn, or their high-order versions gcn-t, gcn-t-xM, fishergcn-t; "
        "sage or sage-xM (GraphSAGE); mlp or mlp-xM (no links); add -c for consistency. Also lp (label propagation) "
        "and majority (most frequent class). Repeat to compare. By default train picks one on the validation nodes, "
        "tune and compare use "
        f"{DEFAULT_METHOD}, and studies use the preset's.",
        rich_help_panel=_RUNS,
    ),
]
_STUDY_OUT = typer.Option(
    help="Folder for the results. If it holds part of this study, only the rest is run.",
    metavar="DIR",
    rich_help_panel=_RUNS,
)
StudyOut = Annotated[Path, _STUDY_OUT]
SomeStudyOut = Annotated[Path | None, _STUDY_OUT]


@dataclass(frozen=True)
class Printed:
    """What a command that trains prints."""

    dry_run: bool = run_option(
        "Train a few epochs only: print how much time and memory it would take on this machine.",
        "--dry-run",
        default=False,
    )
    quiet: bool = run_option("Hide progress.", "--quiet", default=False)
    json: Json = False


@dataclass(frozen=True)
class StudyPrinted(Printed):
    """What a command that runs a study prints."""

    score: Score = None


@dataclass(frozen=True)
class Runs:
    """Which runs there are on each split."""

    method: Methods = None
    seeds: int = run_option("How many seeds (initializations) to run on each split.", default=1)
    first_seed: int = run_option("The first seed.", default=FIRST_SEED)

    @property
    def numbers(self) -> list[int]:
        """The seeds."""
        return check_seeds(self.seeds, self.first_seed)


@dataclass(frozen=True)
class Machine:
    """Where runs are trained."""

    device: str = run_option("cpu, cuda, cuda:N, or auto (a GPU if there is one).", default="auto")
    workers: int | None = workers_option()


@dataclass(frozen=True)
class StudyMachine(Machine):
    """Where the runs of a study are trained, and who watches."""

    cluster: str | None = run_option("Run on a Ray cluster: auto or its address.", metavar="auto|ADDRESS")
    tensorboard: Path | None = run_option("Write learning curves for TensorBoard to this folder.", metavar="DIR")
