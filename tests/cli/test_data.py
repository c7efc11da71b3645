"""``fishergcn data``: Table 1, one graph's facts, and importing one's own files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph import Graph


def run(*arguments):
    """Run a command in this process and return its standard output; errors come as exceptions."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


class TestList:
    # Table 1 of the paper; shares of non-zeros in percent.
    TABLE = {
        "cora": (2708, 5278, 78, 1433, 7, [140, 500, 1000], 0.18, 9.96),
        "citeseer": (3327, 4552, 438, 3703, 6, [120, 500, 1000], 0.11, 3.01),
        "pubmed": (19717, 44324, 1, 500, 3, [60, 500, 1000], 0.03, 3.31),
    }

    def test_table_1(self):
        facts = {fact["name"]: fact for fact in json.loads(run("data", "list", "--json"))}
        keys = ("nodes", "links", "components", "features", "classes", "split")
        assert set(facts) == set(self.TABLE)
        for name, (*numbers, share, share_high_order) in self.TABLE.items():
            assert [facts[name][key] for key in keys] == numbers
            assert round(100 * facts[name]["share"], 2) == share
            assert round(100 * facts[name]["share_high_order"], 2) == share_high_order

    def test_text(self, monkeypatch):
        monkeypatch.setattr("fishergcn.datasets.available", lambda: ("cora",))
        lines = run("data", "list").splitlines()
        (row,) = [line.split() for line in lines if line.split()[:1] == ["cora"]]
        assert row[1:] == ["2,708", "5,278", "0", "78", "1,433", "7", "140:500:1000", "0.18%", "9.96%"]


class TestInfo:
    def test_data_set(self):
        facts = json.loads(run("data", "info", "citeseer", "--json"))
        assert facts["self_links"] == 124
        assert facts["isolated_nodes"] == 48
        assert facts["labeled_nodes"] == sum(facts["nodes_per_class"]) == 3312
        assert "share_high_order" not in facts
        assert len(facts["sha256"]) == 64

    def test_file(self, tmp_path):
        graph = Graph.from_edges([(0, 1), (1, 2)], num_nodes=4, labels=[0, 1, 1, -1], features=np.eye(4))
        graph.save(tmp_path / "g.npz")
        facts = json.loads(run("data", "info", tmp_path / "g.npz", "--high-order", "--json"))
        assert facts["nodes_per_class"] == [1, 2]
        assert facts["feature_entries"] == 4
        assert facts["isolated_nodes"] == 1
        assert facts["largest_degree"] == 2
        assert facts["share"] == 8 / 16
        assert 0 < facts["share_high_order"] <= 1
        assert facts["sha256"] == graph.digest

    def test_bare_graph_as_text(self, tmp_path):
        Graph([[0, 1], [1, 0]], class_names=["[bold]x"]).save(tmp_path / "[red]g.npz")
        text = run("data", "info", tmp_path / "[red]g.npz")
        assert "[bold]x" in text
        assert "[red]g" in text

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("Citeseer", "did you mean 'citeseer'"),
            ("nothing-like-it", "choose from cora, citeseer, pubmed, or give a graph file"),
            ("./no/where", "does not exist or is not a file"),
            ("x" * 5000, "is unknown"),
        ],
    )
    def test_unknown(self, name, message):
        with pytest.raises(InputError, match=message):
            run("data", "info", name)

    def test_text_file_instead_of_npz(self, tmp_path):
        (tmp_path / "e.csv").write_text("a,b\n")
        with pytest.raises(DataFileError, match="make one with: fishergcn data import --edges"):
            run("data", "info", tmp_path / "e.csv")


class TestImport:
    @pytest.fixture
    def files(self, tmp_path):
        (tmp_path / "e.csv").write_text("from,to\nÄ,b c\nb c,d\nd,d\n", encoding="utf-8")
        (tmp_path / "x.csv").write_text("Ä,1,0\nb c,0,1\nd,0.5,0\n", encoding="utf-8")
        (tmp_path / "y.tsv").write_text("id\ttopic\nÄ\trot\nd\tblau\n", encoding="utf-8")
        return tmp_path

    def test_everything(self, files):
        options = ["--edges", files / "e.csv", "--features", files / "x.csv", "--labels", files / "y.tsv"]
        text = run("data", "import", *options, "--out", files / "my.npz", "--header", "edges, labels")
        assert "3 nodes, 2 links, 2 features, 2 classes" in text
        graph = Graph.load(files / "my.npz")
        assert (graph.name, graph.node_ids, graph.class_names) == ("my", ("Ä", "b c", "d"), ("blau", "rot"))
        assert graph.num_self_links == 1
        np.testing.assert_array_equal(graph.labels, [1, -1, 0])
        assert json.loads(run("data", "info", files / "my.npz", "--json"))["nodes"] == 3

    def test_an_existing_file_is_replaced_only_on_demand(self, files):
        options = ["--edges", files / "e.csv", "--header", "all", "--out", files / "my.npz"]
        (files / "my.npz").write_text("mine")
        with pytest.raises(DataFileError, match=r"my\.npz exists already; --overwrite replaces it\."):
            run("data", "import", *options)
        assert (files / "my.npz").read_text() == "mine"
        run("data", "import", *options, "--overwrite")
        assert Graph.load(files / "my.npz").num_nodes == 3

    def test_header_none_takes_all_lines_as_data(self, files):
        run("data", "import", "--edges", files / "e.csv", "--header", "none", "--out", files / "my.npz")
        assert Graph.load(files / "my.npz").num_nodes == 5

    def test_options(self, files):
        options = ["--header", "all", "--self-links", "drop", "--name", "n", "--directed", "symmetrize"]
        run("data", "import", "--edges", files / "e.csv", "--out", files / "my.npz", *options)
        graph = Graph.load(files / "my.npz")
        assert (graph.name, graph.num_self_links, graph.num_links) == ("n", 0, 2)

    def test_columns_are_chosen_and_notes_say_what_was_understood(self, tmp_path):
        (tmp_path / "e.csv").write_text("when,who,whom\n1,a,b\n2,b,c\n3,c,d\n")
        rows = "id,age,city,kind,fold\na,1,Rome,k,train\nb,,Oslo,l,val\nc,3,Rome,k,test\nd,5,Oslo,l,\n"
        (tmp_path / "x.csv").write_text(rows)
        options = ["--edges", tmp_path / "e.csv", "--features", tmp_path / "x.csv", "--out", tmp_path / "my.npz"]
        columns = ["--source", "who", "--target", "3", "--id", "id", "--label", "kind", "--parts", "fold"]
        words = ["data", "import", *map(str, (*options, *columns)), "--text", "one-hot", "--empty", "fill"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert "1 empty cell(s) of column 'age' are filled with its mean, 3." in result.stderr
        assert "column 'city' becomes 2 features" in result.stderr
        assert "warning" not in result.stderr
        graph = Graph.load(tmp_path / "my.npz")
        assert graph.feature_names == ("age", "city=Oslo", "city=Rome")
        assert (graph.class_names, graph.labels.tolist()) == (("k", "l"), [0, 1, 0, 1])
        assert {part: index.tolist() for part, index in graph.standard_split.items()} == {
            "train": [0],
            "val": [1],
            "test": [2],
        }
        run("data", "import", *options, *columns, "--drop", "city", "--empty", "drop", "--overwrite")
        assert Graph.load(tmp_path / "my.npz").features is None

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--source", "frm", "--target", "to"], r"no file has a column 'frm'"),
            (
                ["--header", "links"],
                "header must be all, none or some of edges, features, labels, got 'links'",
            ),
            (["--header", "all", "--labels", "no.csv"], "no.csv does not exist"),
            (["--header", "all", "--directed", "refuse"], r"e\.csv line 2 has no reverse arc"),
            (["--header", "all", "--out", "my.csv"], "--out must end in .npz"),
            (["--header", "all", "--out", "no/my.npz"], "Cannot write .*my.npz"),
        ],
    )
    def test_refused_and_nothing_written(self, files, monkeypatch, options, message):
        monkeypatch.chdir(files)
        with pytest.raises(InputError, match=message):
            run("data", "import", "--edges", "e.csv", "--out", "my.npz", *options)
        assert sorted(path.name for path in files.iterdir()) == ["e.csv", "x.csv", "y.tsv"]

    def test_edges_are_required(self):
        result = CliRunner().invoke(app, ["data", "import", "--out", "my.npz"])
        assert result.exit_code == 2
        assert "--edges" in result.stderr
