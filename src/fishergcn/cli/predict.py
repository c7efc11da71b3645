"""``fishergcn predict``: classes and probabilities from a saved model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fishergcn._base.terminal import note
from fishergcn.cli import _options as shared


def predict(
    folder: shared.ModelFolder,
    graph: Annotated[
        Path | None,
        typer.Option(help="Predict for the nodes of this graph file (.npz); by default for those of training."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write; by default standard output.")] = None,
    overwrite: shared.Overwrite = False,
) -> None:
    """Name the class of every node, with probabilities, as CSV."""
    from fishergcn._base.files import write_text
    from fishergcn.graph import Graph
    from fishergcn.models import load_model

    if out is not None:
        shared.check_new_file(out, overwrite=overwrite)
    model = load_model(folder)
    place = model.graph if graph is None else Graph.load(graph)
    text = model.predictions_csv(place)
    if out is None:
        sys.stdout.write(text)
        return
    write_text(out, text)
    note(f"{out}: {place.num_nodes} nodes, {len(model.class_names)} classes.")
