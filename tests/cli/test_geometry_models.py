"""``fishergcn geometry fisher``, ``links`` and ``embed``."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import TrainConfig, splits, train
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry import embedding, extrinsic
from fishergcn.graph import Graph, largest_component
from fishergcn.models import check_model_target, load_model, save_models
from fishergcn.perturbation import Neighborhood


def run(*arguments):
    outcome = CliRunner().invoke(app, ["geometry", *map(str, arguments)])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    assert outcome.exit_code == 0, outcome.output
    return outcome


def two_groups(n=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    chance = np.where(labels[:, None] == labels[None], 0.25, 0.03)
    links = np.triu(rng.random((n, n)) < chance, 1) | (np.eye(n, k=2) > 0)
    return Graph(
        (links | links.T).astype(float),
        features=(rng.random((n, 6)) + labels[:, None] * [1, 1, 0, 0, 0, 0]).astype(np.float32),
        labels=labels,
        name="groups",
        node_ids=[f"node{i}" for i in range(n)],
        class_names=["even", "odd"],
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    graph = two_groups()
    split = splits.Split("own", np.arange(10), np.arange(10, 20), np.arange(20, 40))
    config = TrainConfig(max_epochs=30, rank=4, hidden=(5,))
    made = {}
    for method in ("fishergcn", "gcn-t"):
        records = train(graph, method, split, config=config, keep_weights=True)
        made[method] = tmp_path_factory.mktemp("models") / method
        save_models(made[method], graph, records, split)
    return made


def test_fisher_is_that_of_the_library(folders):
    facts = json.loads(run("fisher", folders["fishergcn"], "--random", 30, "--json").stdout)
    saved = load_model(folders["fishergcn"])
    around = Neighborhood(saved.propagation, rank=4)
    found = extrinsic.adversarial_direction(saved, around)
    np.testing.assert_allclose(facts["relative_eigenvalues"], found.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(facts["direction"], found.direction, rtol=1e-8)
    grown = extrinsic.sharpness(saved, around, random=30)
    assert facts["distance"] == pytest.approx(extrinsic.typical_distance(around))
    np.testing.assert_allclose(facts["loss_growth"], grown.adversarial.max(axis=1), atol=1e-12)
    assert facts["random_directions_that_hurt_less"] == grown.rank_of_loss
    best = extrinsic.link_sensitivity(saved, top=10)
    assert [row["link"] for row in facts["links"]] == [[f"node{i}", f"node{j}"] for i, j in best.links]
    np.testing.assert_allclose([row["derivative"] for row in facts["links"]], best.values)
    assert len(facts["nodes"]) == 10
    assert facts["nodes"][0]["node"] == f"node{found.node_shares.argmax()}"


def test_fisher_prints_and_draws(folders, tmp_path):
    picture = tmp_path / "fisher.png"
    text = run("fisher", folders["fishergcn"], "--random", 5, "--rank", 3, "--plot", picture).stdout
    assert "most adversarial direction" in text
    assert "derivative with respect to the weight of a link" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    high = run("fisher", folders["gcn-t"], "--random", 0, "--kind", "empirical", "--distance", 0.001).stdout
    assert "an entry of the propagation matrix" in high
    assert "random directions" not in high


def test_fisher_keeps_a_record_that_a_model_folder_may_hold(folders, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(folders["fishergcn"], folder)
    assert "saved: " in run("fisher", folder, "--random", 5, "--keep").stdout
    facts = json.loads(run("fisher", folder, "--random", 5, "--json").stdout)
    record = extrinsic.GeometryRecord.load(folder / "geometry.json")
    assert list(record.eigenvalues) == facts["relative_eigenvalues"]
    assert list(record.growth) == facts["loss_growth"]
    assert len(record.random_growth) == 5
    assert record.title == "fishergcn on groups"
    assert record.links.node == facts["nodes"][0]["node"]
    check_model_target(folder, overwrite=True)  # still nothing but a model


def test_edges_are_those_of_the_library(folders):
    saved = load_model(folders["fishergcn"])
    facts = json.loads(run("links", folders["fishergcn"], "--node", "node7", "--top", 5, "--json").stdout)
    best = extrinsic.link_sensitivity(saved, score_of=7, top=5)
    np.testing.assert_allclose([row["derivative"] for row in facts["links"]], best.values, rtol=1e-10)
    assert facts["class"] == saved.class_names[saved.probabilities()[7].argmax()]
    other = run("links", folders["fishergcn"], "--node", "node7", "--class", "even", "--links", "absent", "--json")
    facts = json.loads(other.stdout)
    absent = extrinsic.link_sensitivity(saved, score_of=(7, 0), links="absent", top=10)
    np.testing.assert_allclose([row["derivative"] for row in facts["links"]], absent.values, rtol=1e-10)
    assert not any(row["present"] for row in facts["links"])


@pytest.mark.parametrize("method", ["fishergcn", "gcn-t"])
@pytest.mark.parametrize("links", ["present", "all"])
def test_edges_prints_and_draws(folders, tmp_path, method, links):
    picture = tmp_path / "links.svg"
    text = run("links", folders[method], "--node", "node3", "--links", links, "--plot", picture).stdout
    assert "node node3 is" in text
    assert ("propagation matrix" in text) == (method == "gcn-t")
    assert "<svg" in picture.read_text()


def test_bad_options_are_one_sentence(folders, tmp_path):
    folder = folders["fishergcn"]
    cases = {
        r"node 'node99' is unknown \(did you mean 'node\d+'\?\); there are 40": ("links", folder, "--node", "node99"),
        r"class 'odds' is unknown \(did you mean 'odd'\?\)": ("links", folder, "--node", "node1", "--class", "odds"),
        r"--top must be at least 1": ("links", folder, "--node", "node1", "--top", 0),
        r"picture must end in .pdf, .png, .svg, got 'x.gif'": ("fisher", folder, "--plot", "x.gif"),
        r"rank must be at least 2": ("fisher", folder, "--rank", 1),
        r"--out must end in .csv": ("embed", "cora", "--out", "y.txt"),
        r"--dim of a picture must be at least 2": ("embed", "cora", "--dim", 1, "--plot", "y.png"),
        r"data set 'coar' is unknown \(did you mean 'cora'\?\)": ("embed", "coar"),
    }
    for message, arguments in cases.items():
        with pytest.raises(InputError, match=message):
            run(*arguments)
    with pytest.raises(DataFileError):
        run("fisher", tmp_path / "nowhere")


def test_embed_is_that_of_the_library(tmp_path):
    graph = two_groups()
    path, out, picture = tmp_path / "groups.npz", tmp_path / "y.csv", tmp_path / "y.png"
    graph.save(path)
    facts = json.loads(run("embed", path, "--order", 2, "--out", out, "--plot", picture, "--json").stdout)
    nodes = np.flatnonzero(largest_component(graph.adjacency))
    W = embedding.similarities(graph, 2, nodes=nodes)
    fitted = embedding.fit(W, restarts=1)
    motions = embedding.extreme_motions(W, fitted.embedding)
    assert facts["nodes_embedded"] == len(nodes)
    assert facts["divergence"] == pytest.approx(fitted.divergence, rel=1e-9)
    assert facts["smallest_metric_of_a_motion"] == pytest.approx(motions.smallest, rel=1e-5)
    assert facts["largest_metric_of_a_motion"] == pytest.approx(motions.largest, rel=1e-5)
    rows = list(csv.reader(out.open(encoding="utf-8")))
    assert rows[0] == ["node", "class", "y1", "y2"]
    assert rows[1][:2] == [f"node{nodes[0]}", ["even", "odd"][nodes[0] % 2]]
    np.testing.assert_allclose([[float(x) for x in row[2:]] for row in rows[1:]], fitted.embedding, atol=1e-9)
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = run("embed", path, "--order", 2, "--dim", 1).stdout
    assert "in 1 dimensions" in text
