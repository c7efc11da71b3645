"""``fishergcn predict``: classes and probabilities from a saved model."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from fishergcn._base.foreign import printable
from fishergcn._base.terminal import note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json, warnings_as_notes
from fishergcn.cli._data import Edges, Tables, data_option


@dataclass(frozen=True)
class NewData:
    """Which nodes are predicted."""

    graph: Path | None = data_option(
        "Predict for the nodes of this graph file (.npz); by default for the graph used in training."
    )
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


@shared.takes_options(without=("labels", "label", "parts"))
def predict(*, folder: shared.ModelFolder, data: NewData, written: Written) -> None:
    """Predict the class of every node, with probabilities, as CSV.

    To predict for new nodes, pass the files of the whole graph as it is now: fishergcn predict model --edges links.csv
    --features nodes.csv --out predictions.csv. Nodes are matched by name, and features by column name if both these
    files and those used for training have headers, otherwise by position.
    """
    from fishergcn._base.files import write_text
    from fishergcn.errors import InputError
    from fishergcn.graph import Graph
    from fishergcn.models import load_model

    out, edges = written.out, data.edges
    if data.graph is not None and edges is not None:
        raise InputError("--graph and --edges cannot be used together.")
    if edges is None and data.tables.needing_edges():
        raise InputError(f"{data.tables.needing_edges()[0]} needs --edges.")
    if out is not None:
        shared.check_new_file(out, overwrite=written.overwrite)
    model = load_model(folder)
    with warnings_as_notes():
        place = model.graph
        if edges is not None:
            place = data.tables.read(edges, fill_from=model.graph)
        elif data.graph is not None:
            place = Graph.load(data.graph)
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
