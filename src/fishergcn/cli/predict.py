"""``fishergcn predict``: classes and probabilities from a saved model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fishergcn._base.foreign import printable
from fishergcn._base.terminal import note
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json, warnings_as_notes
from fishergcn.cli._tables import Tables, takes_tables


@takes_tables(without=("labels", "label", "parts"))
def predict(
    *,
    folder: shared.ModelFolder,
    graph: Annotated[
        Path | None,
        typer.Option(
            help="Predict for the nodes of this graph file (.npz); by default for the graph used in training.",
            rich_help_panel=shared.DATA,
        ),
    ] = None,
    edges: shared.Edges = None,
    tables: Tables,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file to write, with names unchanged. By default predictions go to standard output, with control "
            "characters escaped."
        ),
    ] = None,
    overwrite: shared.Overwrite = False,
    json: shared.Json = False,
) -> None:
    """Predict the class of every node, with probabilities, as CSV.

    To predict for new nodes, pass the files of the whole graph as it is now: fishergcn predict model --edges links.csv
    --features nodes.csv --out predictions.csv. Nodes are matched by name, and features by column name if both these
    files and those used for training have headers, otherwise by position.
    """
    from fishergcn._base.files import write_text
    from fishergcn.cli._own_data import Source
    from fishergcn.errors import InputError
    from fishergcn.graph import Graph
    from fishergcn.models import load_model

    if graph is not None and edges is not None:
        raise InputError("--graph and --edges cannot be used together.")
    for option in ("features", "source", "target", "weight", "id_", "drop"):
        if edges is None and getattr(tables, option):
            raise InputError(f"--{option.rstrip('_')} needs --edges.")
    if out is not None:
        shared.check_new_file(out, overwrite=overwrite)
    model = load_model(folder)
    with warnings_as_notes():
        place = model.graph
        if edges is not None:
            place = Source(None, None, edges, None, tables).from_files(edges, fill_from=model.graph)
        elif graph is not None:
            place = Graph.load(graph)
        asked = None if place is model.graph else place
        if json and out is None:
            print_json(model.prediction_rows(asked))
            return
        answer = model.predictions_csv(asked)
    if place is not model.graph:
        note(model.nodes_in_words(place))
    if out is None:
        sys.stdout.write(printable(answer, keep="\n"))
        return
    write_text(out, answer)
    if json:
        print_json({"out": str(out), "nodes": place.num_nodes, "classes": len(model.class_names)})
        return
    note(f"{out}: {place.num_nodes} nodes, {len(model.class_names)} classes.")
