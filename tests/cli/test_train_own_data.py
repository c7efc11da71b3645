"""``fishergcn train`` on a stranger's files: read, learned from, saved, or refused by file and line."""

from __future__ import annotations

import csv
import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, train
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.models import load_model

FEW = ["--epochs", 2, "--hidden", 4, "--workers", 1]


def run(*arguments):
    result = CliRunner().invoke(app, ["train", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def planted(seed=0, size=10):
    """Three groups with dense links inside, and what a stranger's files say of them."""
    generator = np.random.default_rng(seed)
    names = ["Bär", "Öl und Gas", "Straße"]
    nodes = [f"{name} {member}" for name in names for member in range(size)]
    group = np.repeat(np.arange(3), size)
    links = [
        (nodes[i], nodes[j])
        for i in range(3 * size)
        for j in range(i)
        if generator.random() < (0.6 if group[i] == group[j] else 0.02)
    ]
    features = np.eye(3)[group] + 0.3 * generator.random((3 * size, 3))
    labels = [(nodes[name * size + member], names[name]) for name in range(3) for member in range(5)]
    return nodes, group, names, links, features, labels


@pytest.fixture
def files(tmp_path):
    nodes, _, _, links, features, labels = planted()
    links = [*links, links[0], links[1][::-1]]  # repeated, and reversed
    text = "".join(f"{one};{other}\r\n" for one, other in links)
    (tmp_path / "links.csv").write_bytes(text.encode("utf-8-sig"))
    rows = "".join(f"{node}\t" + "\t".join(map(str, row)) + "\n" for node, row in zip(nodes, features, strict=True))
    (tmp_path / "nodes.csv").write_text("id\tx\ty\tz\n" + rows, encoding="utf-8")
    (tmp_path / "labels.csv").write_text("".join(f"{node},{name}\n" for node, name in labels), encoding="utf-8")
    return tmp_path


def own(files, *options):
    names = [
        "--edges",
        files / "links.csv",
        "--features",
        files / "nodes.csv",
        "--labels",
        files / "labels.csv",
    ]
    return run(*names, "--header", "features", *options)


class TestOwnData:
    def test_from_files_to_predictions(self, files):
        options = ["--out", files / "model", "--epochs", 60, "--hidden", 8, "--lr", 0.05, "--rank", 4, "--workers", 1]
        told = own(files, *options).stderr
        assert "fishergcn: 3 of 15 labeled nodes are held out for validation" in told
        result = CliRunner().invoke(
            app, ["predict", str(files / "model"), "--out", str(files / "p.csv")], catch_exceptions=False
        )
        assert result.exit_code == 0
        nodes, group, names, *_ = planted()
        with open(files / "p.csv", encoding="utf-8", newline="") as stream:
            head, *rows = csv.reader(stream)
        assert head == ["node", "class", *(f"p:{name}" for name in sorted(names))]
        assert [row[0] for row in rows] == nodes
        assert [row[1] for row in rows] == [names[each] for each in group]  # the groups are easily told apart

    def test_without_test_nodes_nothing_is_tested(self, files):
        result = own(files, "--method", "gcn", *FEW, "--out", files / "model")
        assert "test" not in result.stdout.replace(str(files), "")
        assert "validation so far" in result.stderr
        record = load_model(files / "model").record
        assert np.isnan([record.test_accuracy, record.test_loss, record.test_cross_entropy]).all()
        assert np.isfinite([record.val_accuracy, record.val_loss]).all()
        values = json.loads((files / "model" / "model.json").read_text(encoding="utf-8"))
        assert values["run"]["test_accuracy"] is None
        assert values["split_sizes"] == {"train": 12, "val": 3, "test": 0}
        assert "No nodes were set aside for testing" in (files / "model" / "README.md").read_text(encoding="utf-8")

    def test_graph_file(self, files):
        own(files, "--method", "gcn", *FEW, "--json", "--name", "g", "--out", files / "one")
        graph = load_model(files / "one").graph
        graph.save(files / "g.npz")
        for option in ("--graph", "--dataset"):
            run(option, files / "g.npz", "--method", "gcn", *FEW, "--out", files / option)
            assert load_model(files / option).record.val_loss == load_model(files / "one").record.val_loss

    def test_no_features(self, files):
        options = ["--edges", files / "links.csv", "--labels", files / "labels.csv", "--method", "gcn"]
        result = run(*options, *FEW, "--out", files / "model")
        assert "no features were given: each of the 30 nodes gets its own" in result.stderr
        found = load_model(files / "model")
        np.testing.assert_array_equal(found.graph.features.toarray(), np.eye(30))
        [record] = train(found.graph.replace(features=None), "gcn", settings={"max_epochs": 2, "hidden": 4})
        assert (record.val_loss, record.graph_digest) == (found.record.val_loss, found.graph.digest)

    def test_negative_features_are_not_divided_by_their_sum(self, files):
        text = (files / "nodes.csv").read_text(encoding="utf-8")
        (files / "nodes.csv").write_text(text.replace("\t1.", "\t-1."), encoding="utf-8")
        result = own(files, "--method", "gcn", "--method", "gcn-x2", "--settings", "paper", *FEW, "--out", files / "m")
        assert result.stderr.count("some features are negative, so their rows are not divided by their sum") == 1
        found = load_model(files / "m" / "gcn")
        assert found.config.scaling == "none"
        [record] = train(found.graph, "gcn", config=TrainConfig(max_epochs=2, hidden=4))  # the same from Python
        assert (record.val_loss, record.config) == (found.record.val_loss, found.record.config)

    def test_a_class_with_one_member(self, files):
        with open(files / "labels.csv", "a", encoding="utf-8") as stream:
            stream.write("Bär 7,selten\n")
        result = own(files, "--method", "gcn", *FEW, "--out", files / "m")
        assert "a class with one labeled node is learned but not validated: 'selten'" in result.stderr
        assert load_model(files / "m").class_names == ("Bär", "Straße", "selten", "Öl und Gas")

    def test_every_class_with_one_member(self, files):
        (files / "labels.csv").write_text("Bär 1,a\nStraße 1,b\n", encoding="utf-8")
        with pytest.raises(InputError, match="needs a class with two labeled nodes or more"):
            own(files)

    def test_one_class(self, files):
        (files / "labels.csv").write_text("Bär 1,a\nStraße 1,a\n", encoding="utf-8")
        with pytest.raises(InputError, match="labels must name at least two classes, got only 'a'"):
            own(files)

    def test_a_class_without_training_nodes_is_a_warning(self, files):
        graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], labels=[0, 0, 1, 1], features=np.eye(4))
        parts = {"train": [0], "val": [2], "test": [1]}
        graph.replace(standard_split=parts).save(files / "g.npz")
        told = run("--graph", files / "g.npz", "--method", "gcn", *FEW).stderr
        assert "fishergcn: warning: split 'public' has no training node of class 1." in told
        assert ".py" not in told

    def test_labels_are_needed(self, files):
        with pytest.raises(InputError, match="--labels must be given with --edges"):
            run("--edges", files / "links.csv")
        Graph.from_edges([(0, 1)], name="pair").save(files / "g.npz")
        with pytest.raises(InputError, match="graph 'pair' has no labels to learn from"):
            run("--graph", files / "g.npz")

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("labels.csv", "Bär 1,a\nNiemand,b\n", r"labels\.csv line 2: node 'Niemand' is not in the graph"),
            ("labels.csv", "Bär 1,a\nBär 1,b\n", r"labels\.csv line 2: node 'Bär 1' has two classes"),
            ("labels.csv", "", r"labels\.csv holds no labels"),
            (
                "nodes.csv",
                "id,x\nBär 0,1\nBär 1,\n",
                r"nodes\.csv: column 'x' has 1 empty cell\(s\), the first in line 3",
            ),
            (
                "nodes.csv",
                "id,x\nBär 0,1\nBär 1,nan\n",
                r"nodes\.csv: column 'x' has 1 empty cell\(s\), the first in line 3",
            ),
            ("nodes.csv", "id,x\nBär 0,1\nBär 0,2\n", r"nodes\.csv line 3: node 'Bär 0' has a row in line 2"),
            ("links.csv", "Bär 0;Bär 1\nBär 1;Wer\n", r"links\.csv line 2: node 'Wer' has no row in"),
            ("links.csv", "Bär 0;Bär 1\nBär 1\n", r"links\.csv line 2"),
        ],
    )
    def test_a_stranger_is_told_file_and_line(self, files, name, text, message):
        (files / name).write_text(text, encoding="utf-8")
        with pytest.raises(DataFileError, match=message) as caught:
            own(files, "--out", files / "m")
        assert str(caught.value).endswith(".")
        assert "\n" not in str(caught.value)
        assert not (files / "m").exists()

    def test_a_graph_smaller_than_the_rank(self, files):
        (files / "links.csv").write_text("a,b\nb,c\nc,a\nc,d\n")
        (files / "labels.csv").write_text("a,x\nb,x\nc,y\nd,y\n")
        with pytest.raises(InputError, match="rank must be between 1 and 3"):
            run("--edges", files / "links.csv", "--labels", files / "labels.csv", "--method", "fishergcn", "--quiet")


def test_all_diverged_saves_nothing(files):
    with pytest.raises(InputError, match="no run can be chosen: the only run diverged"):
        own(files, "--method", "gcn", "--lr", "1e38", "--epochs", 20, "--out", files / "m", "--quiet")
    assert not (files / "m").exists()
    assert not [name for name in os.listdir(files) if name.startswith(".")]
