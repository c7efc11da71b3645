"""``fishergcn predict``: classes and probabilities from a saved model."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fishergcn._base.foreign import printable
from fishergcn._base.terminal import note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json, warnings_as_notes
from fishergcn.cli._data import Edges, Tables
from fishergcn.cli.train import train
from fishergcn.errors import InputError

if TYPE_CHECKING:
    from fishergcn.graph import Graph


@dataclass(frozen=True)
class NewData:
    """Which nodes are predicted."""

    graphs: shared.Graphs = None
    dataset: shared.Dataset = None
    edges: Edges = None
    tables: Tables = field(default_factory=Tables)

    def check(self, command: str) -> None:
        """Raise where more than one graph is named, or tables without links."""
        others = [*(self.graphs or ()), *(self.dataset or ())]
        if len(others) > 1:
            raise InputError(f"{command} takes one GRAPH, got {' and '.join(map(repr, others))}.")
        if others and self.edges is not None:
            raise InputError("--graph and --edges cannot be used together.")
        if self.edges is None and self.tables.needing_edges():
            raise InputError(f"{self.tables.needing_edges()[0]} needs --edges.")

    def read(self, known: Graph) -> Graph | None:
        """Return the graph that is named, read as that of training was; None if there is none."""
        if self.edges is not None:
            return self.tables.read(self.edges, like=known)
        others = [*(self.graphs or ()), *(self.dataset or ())]
        return load_graph(others[0]) if others else None


@dataclass(frozen=True)
class Written:
    """Where predictions go."""

    out: Path | None = shared.option(
        "CSV file to write, with names unchanged. By default predictions go to standard output, with control "
        "characters escaped."
    )
    certify: float | None = shared.option(
        "Add a column that says whether no graph within this Bures distance changes the class: certified, broken or "
        "undecided. For the graph of training.",
        metavar="R",
    )
    overwrite: shared.Overwrite = False
    json: shared.Json = False


@dataclass(frozen=True)
class Decided:
    """What is asked for beside the most probable class."""

    coverage: float | None = shared.option(
        "Add a column with the classes that each node may have, such that the true class is among them for this share "
        "of nodes, such as 0.9. The model must have been trained with --coverage. Of numbers: how often the interval "
        "from low to high is to hold the true number; 0.9 by default.",
        metavar="SHARE",
    )
    by_class: bool = shared.option("Let --coverage hold in each class.", "--by-class", default=False)
    threshold: str | None = shared.option(
        "For two classes: the probability from which on the second is answered, or the score (accuracy, "
        "balanced-accuracy, macro-f1) for which validation nodes choose it. Adds a column with the answers.",
        metavar="P|SCORE",
    )
    costs: str | None = shared.option(
        "Answer what costs least: for two classes the cost of a false alarm and that of a miss, such as 1,5; else a "
        "table, a row for each true class and a column for each answer, such as '0,1,2;1,0,2;9,9,0'.",
        metavar="COSTS",
    )
    abstain: str | None = shared.option(
        "No answer below this probability, or, with sets, where the set of --coverage has more than one class, or none "
        "as no class is likely.",
        metavar="P|sets",
    )

    def asked(self) -> dict[str, Any]:
        """Return arguments of ``predictions_csv``."""
        costs: Any = None
        if self.costs is not None:
            rows = [[_number(each, "costs") for each in row.split(",")] for row in self.costs.split(";")]
            costs = rows[0] if len(rows) == 1 else rows
        return {
            "coverage": self.coverage,
            "by_class": self.by_class,
            "threshold": _number(self.threshold, "") if self.threshold is not None else None,
            "costs": costs,
            "abstain": _number(self.abstain, "") if self.abstain is not None else None,
        }


def _number(text: str, name: str) -> float | str:
    """Return a number, or the text itself where that may be no number."""
    try:
        return float(text)
    except ValueError:
        if name:
            raise InputError(f"{name} must be numbers with commas between them, got {text!r:.40}.") from None
        return text


@shared.takes_options(without=("labels", "label", "parts", "task"), ignoring=train)
def predict(*, folder: shared.ModelFolder, data: NewData, decided: Decided, written: Written) -> None:
    """Predict the class of every node, with probabilities, as CSV: of the graph of training, or of another.

    Or its labels with their probabilities, or its number with an interval, as the model was trained.

    To predict for new nodes, pass the files of the whole graph as it is now: fishergcn predict model --edges links.csv
    --features nodes.csv --out predictions.csv. They are read as those used for training were: the model remembers
    columns, texts and means. Nodes are matched by name, and features by column name if both have headers, otherwise by
    position. Options of train that make no difference here are ignored with a note. Probabilities are calibrated where
    validation nodes allow it. New nodes without links, without known features or unlike those of training have a word
    of caution in the last column.
    """
    from fishergcn._base.files import write_text
    from fishergcn.graph import target_words
    from fishergcn.models import check_coverage, load_model

    out = written.out
    data.check("predict")
    if out is not None:
        shared.check_new_file(out, overwrite=written.overwrite)
    if decided.coverage is not None:
        check_coverage(decided.coverage)
    asked_for = decided.asked()
    model = load_model(folder)
    with warnings_as_notes():
        asked = data.read(model.graph)
        place = model.graph if asked is None else asked
        if written.certify is not None:
            from fishergcn.certificates import certify

            if asked is not None:
                raise InputError("--certify is for the graph of training: leave out the other graph.")
            asked_for["certified"] = certify(model, written.certify).words_of(model.predict())
        if written.json and out is None:
            print_json(model.prediction_rows(asked, **asked_for))
            return
        answer = model.predictions_csv(asked, **asked_for)
    if asked is not None:
        note(model.nodes_in_words(place))
    if out is None:
        sys.stdout.write(printable(answer, keep="\n"))
        return
    write_text(out, answer, overwrite=written.overwrite)
    if written.json:
        print_json({"out": str(out), "nodes": place.num_nodes, "classes": len(model.class_names)})
        return
    note(f"{out}: {place.num_nodes} nodes, {target_words(model.graph)}.")
