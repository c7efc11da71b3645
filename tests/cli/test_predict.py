"""``fishergcn predict``: from a model folder to a table."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, datasets, splits, train
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.models import load_model, save_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    ring = [(node, (node + step) % 12) for node in range(12) for step in (1, 2)]
    labels = [0] * 4 + [-1] * 2 + [1] * 4 + [-1] * 2
    features = np.random.default_rng(0).random((12, 3))
    names = {"node_ids": [f"n {node}" for node in range(12)], "class_names": ["naß", "trocken"]}
    graph = Graph.from_edges(ring, features=features, labels=labels, name="ring", **names)
    split = splits.held_out(graph)
    config = TrainConfig(max_epochs=3, hidden=4, rank=2)
    [record] = train(graph, "fishergcn", split, config=config, keep_weights=True)
    place = tmp_path_factory.mktemp("saved") / "model"
    save_models(place, graph, [record], split)
    return place


def run(*arguments):
    return CliRunner().invoke(app, ["predict", *map(str, arguments)], catch_exceptions=False)


def test_to_standard_output(folder):
    result = run(folder)
    assert result.exit_code == 0
    assert result.stdout == (folder / "predictions.csv").read_text(encoding="utf-8")
    head, *rows = csv.reader(result.stdout.splitlines())
    assert head == ["node", "class", "p:naß", "p:trocken"]
    assert [row[0] for row in rows] == [f"n {node}" for node in range(12)]
    for row in rows:
        probabilities = [float(cell) for cell in row[2:]]
        assert sum(probabilities) == pytest.approx(1, abs=1e-8)
        assert row[1] == ("naß" if probabilities[0] > probabilities[1] else "trocken")


def test_to_a_file(folder, tmp_path):
    result = run(folder, "--out", tmp_path / "p.csv")
    assert result.stdout == ""
    assert "12 nodes, 2 classes" in result.stderr
    assert (tmp_path / "p.csv").read_bytes() == (folder / "predictions.csv").read_bytes()


def test_another_graph(folder, tmp_path):
    model = load_model(folder)
    links = [*((node, (node + 1) % 12) for node in range(12)), (11, 12)]
    names = [*model.node_names, "new"]
    features = np.vstack([model.graph.features, np.ones(3)])
    larger = Graph.from_edges(links, features=features, node_ids=names)
    larger.save(tmp_path / "larger.npz")
    result = run(folder, "--graph", tmp_path / "larger.npz")
    assert result.exit_code == 0, result.output
    assert result.stdout == model.predictions_csv(larger)
    assert len(result.stdout.splitlines()) == 14


def test_an_existing_file_is_replaced_only_on_demand(folder, tmp_path):
    (tmp_path / "p.csv").write_text("mine")
    with pytest.raises(DataFileError, match=r"p\.csv exists already; --overwrite replaces it\."):
        run(folder, "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "mine"
    run(folder, "--out", tmp_path / "p.csv", "--overwrite")
    assert (tmp_path / "p.csv").read_bytes() == (folder / "predictions.csv").read_bytes()


@pytest.mark.parametrize("name", ["nowhere", "file.txt", "."])
def test_not_a_model_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(DataFileError, match=r"is not a model folder: it has no model\.json"):
        run(name, "--out", "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_nowhere_to_write(folder, tmp_path):
    with pytest.raises(DataFileError, match="Cannot write"):
        run(folder, "--out", tmp_path / "no" / "p.csv")


class TestNewFiles:
    """``--edges`` and ``--features``: the graph as it is now."""

    @pytest.fixture
    def files(self, folder, tmp_path):
        graph = load_model(folder).graph
        names = [*graph.node_ids, "new"]
        rows = np.vstack([graph.features, np.ones(3)])
        lines = [f"{name},{','.join(map(repr, map(float, row)))}" for name, row in zip(names, rows, strict=True)]
        (tmp_path / "nodes.csv").write_text("\n".join(lines))
        (tmp_path / "links.csv").write_text("".join(f"{a},{b}\n" for a, b in itertools.pairwise(names)))
        return tmp_path

    def test_new_nodes(self, folder, files):
        result = run(
            folder, "--edges", files / "links.csv", "--features", files / "nodes.csv", "--out", files / "p.csv"
        )
        assert result.exit_code == 0, result.output
        assert "13 nodes: 12 known from training, 1 new." in result.stderr
        graph = Graph.from_files(files / "links.csv", files / "nodes.csv")
        assert (files / "p.csv").read_text(encoding="utf-8") == load_model(folder).predictions_csv(graph)
        assert (files / "p.csv").read_text(encoding="utf-8").splitlines()[-1].startswith("new,")

    def test_gaps_are_filled_with_the_means_of_training(self, folder, files):
        """As the only rows with this gap: the file's own mean would be that of other nodes."""
        model = load_model(folder)
        mean = model.graph.features[:, 1].astype(float).mean()
        (files / "links.csv").write_text("a,b\nb,c\n")
        outputs = {}
        for gap in ("", f"{mean:.9g}"):
            (files / "nodes.csv").write_text(f"a,1,{gap},1\nb,0,100,0\nc,1,300,1\n")
            places = ["--edges", files / "links.csv", "--features", files / "nodes.csv", "--empty", "fill"]
            result = run(folder, *places, "--out", files / "p.csv", "--overwrite")
            assert result.exit_code == 0, result.output
            assert ("mean in training" in result.stderr) == (gap == "")
            outputs[gap] = (files / "p.csv").read_text(encoding="utf-8")
        given, filled = ([line.split(",") for line in text.splitlines()[1:]] for text in outputs.values())
        for one, other in zip(given, filled, strict=True):
            np.testing.assert_allclose(
                [float(each) for each in one[2:4]], [float(each) for each in other[2:4]], rtol=1e-5
            )

    def test_refused_and_nothing_is_written(self, folder, files):
        links, nodes = ["--edges", files / "links.csv"], ["--features", files / "nodes.csv"]
        out = ["--out", files / "p.csv"]
        with pytest.raises(InputError, match="--graph and --edges cannot be used together"):
            run(folder, *links, "--graph", files / "g.npz", *out)
        with pytest.raises(InputError, match="--features needs --edges"):
            run(folder, *nodes, *out)
        with pytest.raises(InputError, match="the graph has no features, and the network needs 3 of each node"):
            run(folder, *links, *out)
        (files / "links.csv").write_text("n 1,stranger\n")
        with pytest.raises(DataFileError, match=r"links\.csv line 1: node 'stranger' has no row in"):
            run(folder, *links, *nodes, *out)
        (files / "nodes.csv").write_text("n 1,1,2\nn 2,1,2\n")
        (files / "links.csv").write_text("n 1,n 2\n")
        with pytest.raises(InputError, match="a node of the graph must have 3 features, got 2"):
            run(folder, *links, *nodes, *out)
        assert not (files / "p.csv").exists()


@pytest.mark.slow
def test_nodes_of_cora_that_were_not_there_at_training(tmp_path):
    """Within 2 points of a model that had seen them unlabeled; in the mean over three draws of a tenth of the nodes."""
    cora = datasets.load("cora")
    names = [f"paper {node}" for node in range(cora.num_nodes)]
    columns = [f"word {column}" for column in range(cora.num_features)]
    whole = cora.replace(
        node_ids=names, feature_names=columns, features=cora.features, standard_split=None, name="all", class_names=None
    )
    dense = whole.features.toarray()
    rows = [f"{name},{','.join(f'{value:g}' for value in row)}" for name, row in zip(names, dense, strict=True)]
    (tmp_path / "nodes.csv").write_text("\n".join([",".join(["id", *columns]), *rows]))
    upper = sparse.triu(whole.adjacency).tocoo()
    links = zip(*upper.coords, strict=True)
    (tmp_path / "links.csv").write_text("".join(f"{names[a]},{names[b]}\n" for a, b in links))
    accuracies = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(cora.num_nodes)
        gone, kept = order[:270], np.sort(order[270:])
        smaller = Graph(
            whole.adjacency[kept][:, kept],
            whole.features[kept],
            whole.labels[kept],
            name="most",
            node_ids=[names[node] for node in kept],
            feature_names=columns,
        )
        split = splits.per_class(smaller, seed=seed)
        same = splits.Split(split.name, kept[split.train], kept[split.val], gone)
        found = []
        for graph, parts in ((smaller, split), (whole, same)):
            records = train(graph, "gcn-t", parts, config=TrainConfig(), keep_weights=True, device="cpu")
            save_models(tmp_path / f"{graph.name} {seed}", graph, records, parts)
            options = ["--edges", tmp_path / "links.csv", "--features", tmp_path / "nodes.csv", "--header", "features"]
            out = tmp_path / f"{graph.name} {seed}.csv"
            result = run(tmp_path / f"{graph.name} {seed}", *options, "--out", out)
            expected = "2,438 known from training, 270 new" if graph is smaller else "2,708 known from training, 0 new"
            assert expected in result.stderr
            with out.open(encoding="utf-8", newline="") as stream:
                classes = {row["node"]: int(row["class"]) for row in csv.DictReader(stream)}
            found.append(np.mean([classes[names[node]] == cora.labels[node] for node in gone]))
        accuracies.append(found)
    new, seen = np.mean(accuracies, axis=0)
    assert new > seen - 0.02
    assert seen > 0.75
