"""``fishergcn explain``: why a saved model gives a node its class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fishergcn._base.terminal import console, note, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json, warnings_as_notes
from fishergcn.cli.predict import NewData
from fishergcn.cli.train import train


@dataclass(frozen=True)
class ExplainOptions:
    """Which node is explained, and where the answer goes."""

    node: str = shared.option("Id of the node.", default=shared.REQUIRED)
    label_: str | None = shared.option("The class to explain; by default the predicted one.", "--class")
    limit: int = shared.option("How many links, and how many features, are computed anew at most.", default=20)
    out: Path | None = shared.option("Text file to write, or with --json a JSON file, instead of standard output.")
    overwrite: shared.Overwrite = False
    json: shared.Json = False


@shared.takes_options(without=("labels", "label", "parts"), ignoring=train)
def explain(*, folder: shared.ModelFolder, data: NewData, options: ExplainOptions) -> None:
    """Say which links and features of a node speak for and against its class, and what the model says without them.

    Every number is computed anew on the graph without that link, or with the usual value of that feature. For a node
    of another graph, or a new one, pass --graph or the files of the whole graph, as for predict.
    """
    import json

    from fishergcn._base.files import write_text
    from fishergcn.models import load_model

    if options.out is not None:
        shared.check_new_file(options.out, overwrite=options.overwrite)
    data.check("explain")
    model = load_model(folder)
    with warnings_as_notes():
        place = data.read(model.graph)
        found = model.explain(options.node, place, label=options.label_, limit=options.limit)
    if options.out is not None:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if options.json else str(found)
        write_text(options.out, f"{text}\n", overwrite=options.overwrite)
        note(f"{options.out}: why node {found.node} is {found.label}.")
        return
    if options.json:
        print_json(found.to_dict())
        return
    out = console()
    for sentence in found.sentences:
        out.print(sentence)
    rows = [
        [each.name, each.kind, each.about, f"{100 * each.probability:.2f}", f"{-100 * each.change:+.2f}"]
        for each in found.evidence
    ]
    if rows:
        heads = ["without", "kind", "neighbor predicted as", f"probability of {found.label} %", "change, points"]
        out.print(table("Computed anew without each", heads, rows))
