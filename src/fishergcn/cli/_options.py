"""The options of all commands, with their help; each is declared once and means the same everywhere."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from fishergcn._base.choices import Settings as SettingsWord
from fishergcn._base.config import TrainConfig
from fishergcn.errors import DataFileError

DATA, RUNS, SEARCH = "Data", "Runs and results", "Search"
SETTINGS = "Settings"
LARGE = "Large graphs"
DEFAULT_METHOD = "fishergcn-t"
_data, _runs, _large = (partial(typer.Option, rich_help_panel=panel) for panel in (DATA, RUNS, LARGE))

# What is read

GraphName = Annotated[str, typer.Argument(help="A data set or a graph file (.npz).", metavar="GRAPH")]
ModelFolder = Annotated[
    Path, typer.Argument(help="A model folder, as written by fishergcn train --out.", metavar="MODEL")
]
RunsFolder = Annotated[
    Path, typer.Argument(help="A folder made by fishergcn reproduce, compare or robustness.", metavar="DIR")
]

Dataset = Annotated[
    list[str] | None, _data(help="A data set that ships with the package, or a graph file (.npz); may be repeated.")
]
Graph = Annotated[Path | None, _data(help="A graph file (.npz).")]
Graphs = Annotated[list[Path] | None, _data("--graph", help="A graph file (.npz); may be repeated.")]
_LINKS = (
    "Links: two node ids and, optionally, a weight on each line of a text file (CSV, TSV, edge list, also .gz), in "
    "Parquet or Feather; or a .graphml file with the nodes' attributes; - for standard input."
)
Edges = Annotated[Path | None, _data(help=_LINKS)]
RequiredEdges = Annotated[Path, _data(help=_LINKS)]
Features = Annotated[
    Path | None,
    _data(
        help="Features: a node id and numbers on each line, in the same formats, or .npz in node order. Without "
        "features, each node gets one of its own."
    ),
]
Labels = Annotated[
    Path | None,
    _data(
        help="Labels: a node id and a class name on each line, in the same formats; for unlabeled nodes leave out "
        "the line or the class. Not needed if --label is a column of --features."
    ),
]
Header = Annotated[
    str | None,
    _data(
        help="Which text files begin with a line of column names: all, some of edges,features,labels, or none. By "
        "default, and for files not named, this is detected, and a note says so.",
        metavar="FILES",
    ),
]
_COLUMN = "NAME|NUMBER"
SourceColumn = Annotated[str | None, _data(help="Column of --edges: one end of a link.", metavar=_COLUMN)]
TargetColumn = Annotated[str | None, _data(help="Column of --edges: the other end.", metavar=_COLUMN)]
WeightColumn = Annotated[str | None, _data(help="Column of --edges: the weight.", metavar=_COLUMN)]
IdColumn = Annotated[
    str | None,
    _data("--id", help="Column of --features and --labels: the node ids; by default the first.", metavar=_COLUMN),
]
LabelColumn = Annotated[
    str | None, _data(help="Column of --features or --labels: the classes; not used as a feature.", metavar=_COLUMN)
]
PartsColumns = Annotated[
    list[str] | None,
    _data(
        help="Column of --features or --labels that says train, val, test or nothing, which becomes the public "
        "split. Repeated, the columns become mask:0, mask:1, ... Or an .npz file of masks.",
        metavar="NAME|NUMBER|FILE",
    ),
]
DropColumns = Annotated[
    list[str] | None, _data(help="Column of --features to leave out; may be repeated.", metavar=_COLUMN)
]
TextWord = Literal["refuse", "drop", "one-hot"]
TextColumns = Annotated[
    TextWord, _data(help="What to do with text in --features: refuse it, drop the column, or make each text a feature.")
]
EmptyWord = Literal["refuse", "drop", "fill"]
EmptyCells = Annotated[
    EmptyWord,
    _data(
        help="What to do with empty cells in --features: refuse them, drop the column, or fill in its mean (predict: "
        "the mean in training)."
    ),
]
DirectedWord = Literal["undirected", "symmetrize", "refuse"]
Directed = Annotated[
    DirectedWord,
    _data(help="A line of --edges is a link (undirected), an arc to mirror (symmetrize), or one arc of two (refuse)."),
]
SelfLinksWord = Literal["keep", "drop"]
SelfLinks = Annotated[SelfLinksWord, _data(help="What to do with links from a node to itself.")]
Name = Annotated[str | None, _data(help="A name for the graph of --edges; by default that of the file.")]

# What is trained

Splits = Annotated[
    list[str] | None,
    _data(
        help="How many splits, or which; may be repeated. A number follows the preset's rule; without one it takes "
        "the masks that came with the data, or else random splits (shuffled:2019, ..., or per-class:20+30:2019, ... "
        "if there is no public split). Names: public, mask:NUMBER, shuffled:SEED, per-class:SEED, "
        "per-class:TRAIN+VAL:SEED, held-out:PERCENT%:SEED. By default the preset's; for compare ten, or all masks; "
        "otherwise public, the first mask, or held-out:20%:0 if the graph has neither.",
        metavar="N|NAME",
    ),
]
Methods = Annotated[
    list[str] | None,
    _runs(
        "--method",
        help="gcn, gcn-xM (M dropout samples), fishergcn, or their high-order versions gcn-t, gcn-t-xM, fishergcn-t; "
        "mlp or mlp-xM (no links); add -c for consistency. Also lp (label propagation) and majority (most frequent "
        "class). Repeat to compare. By default train picks one on the validation nodes, tune and compare use "
        f"{DEFAULT_METHOD}, and studies use the preset's.",
    ),
]
TimeLimit = Annotated[
    float | None, _runs(help="How many seconds choosing a method may take; by default about two minutes.")
]
Seeds = Annotated[int, _runs(help="How many seeds (initializations) to run on each split.")]
PresetSeeds = Annotated[
    int | None, _runs(help="How many seeds (initializations) to run on each split; by default the preset's.")
]
AttackWord = Literal["links-added", "links-removed", "bures-ball", "prbcd", "features", "training-links"]
Attacks = Annotated[
    list[str] | None,  # Typer knows no list of literals: the library checks them
    _runs(
        "--attack",
        metavar="|\n".join(get_args(AttackWord)),
        help="How to change the graph; may be repeated. By default all of the preset's attacks.",
    ),
]
FirstSeed = Annotated[int, _runs(help="The first seed.")]
Device = Annotated[str, _runs(help="cpu, cuda, cuda:N, or auto (a GPU if there is one).")]
Workers = Annotated[
    int | None, _runs(help="How many processes to use; by default one per core, or none beside this one on a GPU.")
]
Cluster = Annotated[str | None, _runs(help="Run on a Ray cluster: auto or its address.", metavar="auto|ADDRESS")]
TensorBoard = Annotated[Path | None, _runs(help="Write learning curves for TensorBoard to this folder.", metavar="DIR")]


def _setting(name: str, help_text: str, *names: str) -> Any:
    """Return the option of a setting; left out, it is that of --settings, whose values are shown."""
    general, paper = (_shown(getattr(TrainConfig.named(each), name)) for each in get_args(SettingsWord))
    shown = general if general == paper else f"{general}; paper: {paper}"
    return typer.Option(*names, help=f"{help_text} [default: {shown}]", rich_help_panel=SETTINGS)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


Settings = Annotated[
    SettingsWord,
    typer.Option(
        help="Which defaults to use: values that suit most graphs (general), or the paper's.",
        rich_help_panel=SETTINGS,
    ),
]


Epochs = Annotated[int | None, _setting("max_epochs", "Maximum number of epochs.", "--epochs")]
PresetEpochs = Annotated[int | None, _runs("--epochs", help="Maximum number of epochs; by default the preset's.")]
Hidden = Annotated[str | None, _setting("hidden", "Hidden layer sizes, such as 64 or 64,64.")]
LearningRate = Annotated[float | None, _setting("learning_rate", "Learning rate.", "--lr")]
Dropout = Annotated[float | None, _setting("dropout", "Dropout rate.")]
WeightDecay = Annotated[float | None, _setting("weight_decay", "Weight decay wd; adds (wd/2)‖W‖² to the loss.")]
StoppingWord = Literal["paper", "patience", "none"]
Stopping = Annotated[StoppingWord | None, _setting("stopping", "When to stop early.")]
Patience = Annotated[
    int | None, _setting("patience", "How many epochs without improvement to allow with --stopping patience.")
]
TestAtWord = Literal["last", "best-val"]
TestAt = Annotated[TestAtWord | None, _setting("test_at", "Which epoch's weights to test and keep.")]
ScalingWord = Literal["rows", "none", "columns"]
Scaling = Annotated[
    ScalingWord | None,
    _setting("scaling", "How to scale the features: divide each row by its sum, not at all, or standardize columns."),
]
Bias = Annotated[bool | None, _setting("bias", "Add a bias to each layer.", "--bias/--no-bias")]
ClassWeightWord = Literal["none", "balanced"]
ClassWeight = Annotated[
    ClassWeightWord | None, _setting("class_weight", "balanced gives rare classes the same weight as common ones.")
]
Samples = Annotated[int | None, _setting("samples", "Perturbed graphs per step (M in the paper).")]
Rank = Annotated[int | None, _setting("rank", "Perturbed eigenvalues (k in the paper).")]
Radius = Annotated[float | None, _setting("radius", "Size of the neighborhood (ε in the paper).")]
OtherSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other TrainConfig setting; may be repeated.",
        rich_help_panel=SETTINGS,
    ),
]
BatchSize = Annotated[
    int | None,
    _large(
        help="Train in mini-batches of this many nodes. To share them between two processes: torchrun "
        "--nproc-per-node 2 --no-python fishergcn train ..."
    ),
]
Fanout = Annotated[
    str | None,
    _large(help="How many neighbors to sample per node in each layer, last layer first, such as 10,10; -1 for all."),
]

# What is shown and written

StudyOut = Annotated[
    Path, _runs(help="Folder for the results. If it holds part of this study, only the rest is run.", metavar="DIR")
]
Plot = Annotated[Path | None, typer.Option(help="Save a plot to this file (.png, .svg or .pdf).")]
DryRun = Annotated[
    bool,
    _runs("--dry-run", help="Train a few epochs only: print how much time and memory it would take on this machine."),
]
Quiet = Annotated[bool, _runs("--quiet", help="Hide progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")]


def check_new_file(path: Path, *, overwrite: bool) -> None:
    """Raise now, before the work, if the file of --out is there and may not be replaced."""
    if not overwrite and os.path.exists(path) and not os.path.isdir(path):  # a folder is refused later
        raise DataFileError(f"{path} exists already; --overwrite replaces it.")


def options_of(command: Callable[..., None]) -> dict[str, Any]:
    """Return the defaults of a command's options, by the names of its parameters."""
    return {name: parameter.default for name, parameter in inspect.signature(command).parameters.items()}


def words_of(command: Callable[..., None], values: Mapping[str, Any]) -> list[str]:
    """Return options of a command as words, without those that have its defaults."""
    usual = options_of(command)
    words: list[str] = []
    for name, value in values.items():
        if value not in (None, usual.get(name)):
            option = f"--{name.rstrip('_').replace('_', '-')}"
            if isinstance(value, bool):
                words.append(option if value else option.replace("--", "--no-", 1))
                continue
            words += [word for each in (value if isinstance(value, list) else [value]) for word in (option, str(each))]
    return words
