"""``fishergcn certify``, the column of ``predict`` and the section of the page say what the library finds."""

from __future__ import annotations

import csv
import json
import re
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.certificates import certify, certify_links
from fishergcn.cli import app
from fishergcn.errors import InputError
from fishergcn.models import load_model, save_models

CONFIG = TrainConfig(max_epochs=20, rank=3)


def saved(place, method):
    rng, labels = np.random.default_rng(0), np.arange(20) % 2
    links = [(node, (node + step) % 20) for node in range(20) for step in (2, 3)] + [(0, 10), (1, 15)]
    graph = Graph.from_edges(links, features=rng.random((20, 3)) + 0.5 * labels[:, None], labels=labels, name="ring",
                             node_ids=[f"n{node}" for node in range(20)], class_names=["even", "odd"])  # fmt: skip
    split = splits.Split("own", np.arange(8), np.arange(8, 12), np.arange(12, 20))
    records = train(graph, method, split, config=CONFIG, device="cpu", keep_weights=True)
    save_models(place, graph, records, split)
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("certify") / "model", "gcn")


def run(*arguments):
    outcome = CliRunner().invoke(app, [*map(str, arguments)])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome


def test_text_json_and_table_agree_with_the_library(folder, tmp_path):
    model = load_model(folder)
    found = certify(model, 0.1, model.runs[0].split.test)
    given = "certify", folder, "--radius", 0.1, "--radius", 0.02, "--part", "test"
    out = json.loads(run(*given, "--json").stdout)
    assert out["radii"] == [0.02, 0.1]
    assert (out["nodes"], out["bound"]) == (8, 2.0)
    for word, count in found.counts().items():
        assert out[word][1] == count
    assert "certified share" in run(*given).stdout
    run(*given, "--out", tmp_path / "table.csv")
    with (tmp_path / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["certificate"] for row in rows] == found.words
    assert [row["node"] for row in rows] == [f"n{node}" for node in found.nodes]
    assert [float(row["lower"]) for row in rows] == pytest.approx(found.lower, rel=1e-6)
    assert {row["class"] for row in rows} | {row["closest"] for row in rows} == {"even", "odd"}


def test_radii_by_default_reach_the_farthest_graph(folder):
    out = json.loads(run("certify", folder, "--json", "--bound", 0, "--rounds", 0).stdout)
    assert len(out["radii"]) == 7
    assert out["radii"][-1] == pytest.approx(64 * out["radii"][0])
    assert out["bound"] is None
    with pytest.raises(InputError, match=r"radius must be at most .*, that of the farthest graph, got"):
        run("certify", folder, "--radius", 1.01 * out["radii"][-1], "--bound", 0)


def test_links_and_flips(folder, tmp_path):
    out = json.loads(run("certify", folder, "--links", 10, "--json").stdout)
    assert out["rows"] == [{"percent": 10.0, **certify_links(load_model(folder), 10).counts()}]
    assert "±% of weights" in run("certify", folder, "--links", 10, "--own-links").stdout
    spread = saved(tmp_path / "lp", "lp")
    flips = json.loads(run("certify", spread, "--flips", 1, "--change", "remove", "--json").stdout)
    assert sum(flips["rows"][0][word] for word in ("certified", "broken", "undecided")) == 20


def test_predictions_have_a_column(folder, tmp_path):
    run("predict", folder, "--out", tmp_path / "predictions.csv", "--certify", 0.05)
    with (tmp_path / "predictions.csv").open() as stream:
        words = [row["certified"] for row in csv.DictReader(stream)]
    assert words == certify(load_model(folder), 0.05).words


def test_the_page_has_a_section_where_certificates_were_kept(folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "model")
    run("report", own)
    assert "What no graph nearby can change" not in (own / "report.html").read_text()
    out = json.loads(run("certify", own, "--radius", 0.05, "--radius", 0.1, "--keep", "--json").stdout)
    run("report", own)
    page = (own / "report.html").read_text()
    section = page[page.index("What no graph nearby can change") :]
    assert "Certified predictions" in section
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section[section.index("Certificates") :])
    assert cells[:3] == [str(out[word][0]) for word in ("certified", "broken", "undecided")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--radius", 9), "radius must be at most .* farthest graph with eigenvalues of L up to 2, got 9"),
        (("--radius", 0), "radius must be greater than 0.*, got 0"),
        (("--radius", 0.1, "--links", 10), "--radius and --links cannot be used together"),
        (("--own-links",), "--own-links needs --links"),
        (("--links", 10, "--keep"), "--keep is for --radius"),
        (("--flips", 1), r"label propagation \(lp\), got gcn"),
        (("--radius", 0.1, "--bound", 0.5), "bound must be at least"),
    ],
)
def test_bad_input(folder, arguments, message):
    with pytest.raises(InputError, match=message):
        run("certify", folder, *arguments)


def test_models_without_a_graph_or_without_weights_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="'mlp' does not read the links"):
        run("certify", saved(tmp_path / "mlp", "mlp"), "--radius", 0.1)
    with pytest.raises(InputError):
        run("certify", tmp_path, "--radius", 0.1)
    empty = shutil.copytree(folder, tmp_path / "model")
    for each in empty.glob("*.npz"):
        each.unlink()
    with pytest.raises(InputError) as error:
        run("certify", empty, "--radius", 0.1)
    assert "\n" not in str(error.value)
