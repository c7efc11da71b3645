"""``fishergcn predict``: classes and probabilities from a saved model."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from fishergcn._base.foreign import printable
from fishergcn._base.terminal import note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import load_graph, print_json, warnings_as_notes
from fishergcn.cli._data import Edges, Tables
from fishergcn.cli.train import train


@dataclass(frozen=True)
class NewData:
    """Which nodes are predicted."""

    graphs: shared.Graphs = None
    dataset: shared.Dataset = None
    edges: Edges = None
    tables: Tables = field(default_factory=Tables)


@dataclass(frozen=True)
class Written:
    """Where predictions go."""

    out: Path | None = shared.option(
        "CSV file to write, with names unchanged. By default predictions go to standard output, with control "
        "characters escaped."
    )
    overwrite: shared.Overwrite = False
    json: shared.Json = False


@shared.takes_options(without=("labels", "label", "parts"), ignoring=train)
def predict(*, folder: shared.ModelFolder, data: NewData, written: Written) -> None:
    """Predict the class of every node, with probabilities, as CSV: of the graph of training, or of another.

    To predict for new nodes, pass the files of the whole graph as it is now: fishergcn predict model --edges links.csv
    --features nodes.csv --out predictions.csv. They are read as those used for training were: the model remembers
    columns, texts and means. Nodes are matched by name, and features by column name if both have headers, otherwise by
    position. Options of train that make no difference here are ignored with a note.
    """
    from fishergcn._base.files import write_text
    from fishergcn.errors import InputError
    from fishergcn.models import load_model

    out, edges, others = written.out, data.edges, [*(data.graphs or ()), *(data.dataset or ())]
    if len(others) > 1:
        raise InputError(f"predict takes one GRAPH, got {' and '.join(map(repr, others))}.")
    if others and edges is not None:
        raise InputError("--graph and --edges cannot be used together.")
    if edges is None and data.tables.needing_edges():
        raise InputError(f"{data.tables.needing_edges()[0]} needs --edges.")
    if out is not None:
        shared.check_new_file(out, overwrite=written.overwrite)
    model = load_model(folder)
    with warnings_as_notes():
        place = model.graph
        if edges is not None:
            place = data.tables.read(edges, like=model.graph)
        elif others:
            place = load_graph(others[0])
        asked = None if place is model.graph else place
        if written.json and out is None:
            print_json(model.prediction_rows(asked))
            return
        answer = model.predictions_csv(asked)
    if place is not model.graph:
        note(model.nodes_in_words(place))
    if out is None:
        sys.stdout.write(printable(answer, keep="\n"))
        return
    write_text(out, answer)
    if written.json:
        print_json({"out": str(out), "nodes": place.num_nodes, "classes": len(model.class_names)})
        return
    note(f"{out}: {place.num_nodes} nodes, {len(model.class_names)} classes.")
