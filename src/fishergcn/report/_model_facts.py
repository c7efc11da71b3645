"""The files of a model, how to use them, and what it was made with."""

from __future__ import annotations

import dataclasses
import os
import shlex
from urllib.parse import quote

from fishergcn._base.text import duration
from fishergcn.drawing import Html, tag
from fishergcn.execution import chosen_config
from fishergcn.report._markup import Section, command
from fishergcn.report._protocol import entries
from fishergcn.report._subject import Subject

_FILES = {
    "predictions.csv": "class and probabilities of every node",
    "README.md": "the model card",
    "model.json": "settings, scores, versions",
    "weights.safetensors": "what was learned",
    "split.safetensors": "nodes for training, validation and test",
    "runs.json": "all runs from which it was chosen",
    "graph.npz": "the graph",
    "geometry.json": "how it responds to changes of the graph",
}


def local_link(path: str, text: str) -> Html:
    """Return a link to a file beside the page; no name in it can be taken for an address."""
    return tag("a", text, href=f"./{quote(os.fsencode(path))}")


def files(subject: Subject) -> Section:
    """Links to predictions and model, and the commands that use them."""
    there = {name: words for name, words in _FILES.items() if os.path.isfile(subject.folder / name)}
    listed = [tag("li", local_link(name, name), f": {words}") for name, words in there.items()]
    place = shlex.quote(str(subject.folder))
    code = f"import fishergcn\nmodel = fishergcn.load_model({str(subject.folder)!r})\nmodel.probabilities()"
    body = [
        tag("p", "Beside this page:"),
        tag("ul", *listed),
        tag("p", "Predict the nodes of a graph with the same features:"),
        command(f"fishergcn predict {place} --graph other.npz --out predictions.csv"),
        tag("p", "See which links a prediction depends on, and how the model responds to changes of its graph:"),
        command(f"fishergcn geometry links {place} --node NODE"),
        command(f"fishergcn geometry fisher {place} --keep"),
        tag("p", "In Python:"),
        command(code),
    ]
    return Section("files", "Predictions and files", body)


def protocol(subject: Subject) -> Section:
    """What the model was made with."""
    model, record = subject.model, subject.model.record
    sizes = model.split_sizes
    parts = f"{sizes['train']:,} training, {sizes['val']:,} validation and {sizes['test']:,} test nodes"
    usual = chosen_config(None, None)
    changed = [
        f"{field.name} {getattr(model.config, field.name)}"
        for field in dataclasses.fields(usual)
        if getattr(model.config, field.name) != getattr(usual, field.name)
    ]
    found: list[tuple[str, list[Html | str]]] = [
        ("Method", [record.method]),
        ("Data", [Html(tag("b", record.dataset) + " " + tag("code", f"sha256:{record.graph_digest}"))]),
        ("Split", [f"{record.split}: {parts}"]),
        ("Seed, epochs", [f"{record.seed}, {record.epochs}"]),
        ("Settings that differ from the defaults", [", ".join(changed) or "none"]),
        ("Trained on", [f"{record.device}, {duration(record.seconds)}"]),
        ("Versions", [", ".join(f"{name} {version}" for name, version in record.versions.items())]),
    ]
    return Section("protocol", "How it was made", [entries(found)])
