"""Graphs that carry several labels or numbers: checks, formats, tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fishergcn import Graph
from fishergcn.errors import DataFileError, InputError, Notice
from fishergcn.graph import for_task, known_nodes, strata
from fishergcn.splits import held_out

LINKS = [(0, 1), (1, 2), (2, 3)]
SEVERAL = [[1, 0, 1], [0, 0, 0], [-1, -1, -1], [0, 1, 1]]
NUMBERS = [0.5, -1.0, np.nan, 3.25]


def graph(labels, **options):
    return Graph.from_edges(LINKS, features=np.eye(4), labels=labels, **options)


@pytest.mark.parametrize(("labels", "task"), [(SEVERAL, "multilabel"), (NUMBERS, "regression")])
class TestRoundTrips:
    def test_kept_by_every_form(self, labels, task, tmp_path):
        names = ["a", "b", "c"] if task == "multilabel" else ["price"]
        found = graph(labels, class_names=names, name="mine")
        assert (found.task, found.labels) == (task, None)
        np.testing.assert_array_equal(found.targets, labels)
        assert known_nodes(found).tolist() == [True, True, False, True]
        found.save(tmp_path / "one.npz")
        found.save(tmp_path / "folder", mapped=True)
        others = [Graph.load(tmp_path / "one.npz"), Graph.load(tmp_path / "folder"), found.replace(node_ids="abcd"),
                  Graph.from_arrays(found.to_arrays())]  # fmt: skip
        for other in others:
            assert (other.task, other.class_names, other.digest) == (task, tuple(names), found.digest)
            np.testing.assert_array_equal(other.targets, labels)
        assert found != graph([0, 1, -1, 1])

    def test_pyg(self, labels, task):
        back = Graph.from_pyg(graph(labels).to_pyg())
        assert back.task == task
        np.testing.assert_array_equal(back.targets, labels)

    def test_outputs_are_counted(self, labels, task):
        assert graph(labels).num_classes == (3 if task == "multilabel" else 1)
        assert ("3 labels" if task == "multilabel" else "a number a node") in repr(graph(labels))
        assert "nodes with" in graph(labels)._repr_html_()

    def test_another_task_by_replace(self, labels, task):
        assert graph(labels).replace(labels=[0, 1, 0, 1]).task == "classification"
        assert graph([0, 1, 0, 1], class_names=["x", "y"]).replace(labels=labels).task == task


@pytest.mark.parametrize(
    ("labels", "options", "words"),
    [
        (np.eye(4, dtype=int), {}, "fits two tasks"),
        ([[1, 2], [0, 1], [1, 1], [0, 0]], {}, "must be 0 or 1, .* got 2 in row 0, column 1"),
        ([[1, -1], [0, 1], [1, 1], [0, 0]], {}, "got -1 in row 0"),
        ([0, 1, 0, 1], {"task": "multilabel"}, "row of 0 and 1 for each of the 4 nodes"),
        (["a", "b", "c", "d"], {"task": "regression"}, "a number for each of the 4 nodes"),
        ([0.5, np.inf, 1, 2], {}, "finite numbers"),
        ([0.5, 1, 1, 2], {"task": "classification"}, "task='regression' predicts numbers"),
        ([0, 1, 0, 1], {"task": "ranking"}, "task must be"),
        (SEVERAL, {"class_names": ["a"]}, "class_names must name each of the 3 targets"),
    ],
)
def test_refused(labels, options, words):
    with pytest.raises(InputError, match=words):
        graph(labels, **options)


def test_strata_are_the_rarest_labels():
    found = graph([[1, 0], [1, 1], [1, 0], [0, 0]])
    assert strata(found).tolist() == [1, 0, 1, 2]  # the second label is the rarest
    assert strata(graph(NUMBERS)).tolist() == [0, 0, -1, 0]
    split = held_out(graph(NUMBERS))
    assert sorted([*split.train, *split.val]) == [0, 1, 3]


def test_for_task():
    classes = graph([0, 1, -1, 1], class_names=["1.5", "2"])
    np.testing.assert_array_equal(for_task(classes, "regression").targets, [1.5, 2, np.nan, 2])
    with pytest.raises(InputError, match="classes are called 'x', 'y'"):
        for_task(classes.replace(class_names=["x", "y"]), "regression")
    with pytest.raises(InputError, match="task 'multilabel' does not fit the labels of the graph"):
        for_task(classes, "multilabel")


@pytest.fixture
def tables(tmp_path):
    def read(nodes: str, **options):
        (tmp_path / "links.csv").write_text("source,target\na,b\nb,c\nc,d\n")
        (tmp_path / "nodes.csv").write_text(nodes)
        return Graph.from_files(tmp_path / "links.csv", tmp_path / "nodes.csv", **options)

    return read


class TestTables:
    def test_one_column_with_separators(self, tables):
        text = "id,age,topics\na,1,db|ml\nb,2,ml; ai\nc,3,\nd,4,|\n"
        found = tables(text, label="topics", task="multilabel")
        assert found.class_names == ("ai", "db", "ml")
        np.testing.assert_array_equal(found.targets, [[0, 1, 1], [1, 0, 1], [-1, -1, -1], [0, 0, 0]])
        assert found.feature_names == ("age",)
        with pytest.warns(Notice, match="read as several labels"):
            assert tables("id,age,topics\na,1,x|y\nb,2,y\nc,3,x\nd,4,y\n", label="topics").task == "multilabel"

    def test_commas_separate_where_nothing_else_does(self, tables):
        found = tables('id,age,topics\na,1,"db, ml"\nb,2,ml\nc,3,\nd,4,","\n', label="topics", task="multilabel")
        assert found.class_names == ("db", "ml")
        np.testing.assert_array_equal(found.targets, [[1, 1], [0, 1], [-1, -1], [0, 0]])
        found = tables(
            'id,age,topics\na,1,"Paris, Texas"\nb,2,ml;db\n', label="topics", task="multilabel", unknown="drop"
        )
        assert found.class_names == ("Paris, Texas", "db", "ml")

    def test_several_columns(self, tables):
        text = "id,age,db,ml\na,1,1,0\nb,2,yes,yes\nc,3,,\nd,4,0,0\n"
        found = tables(text, label=["db", "ml"])
        assert (found.task, found.class_names, found.feature_names) == ("multilabel", ("db", "ml"), ("age",))
        np.testing.assert_array_equal(found.targets, [[1, 0], [1, 1], [-1, -1], [0, 0]])
        assert tables("id,age,db,ml\na,1,,\nb,2,,\nc,3,,\nd,4,,\n", like=found).feature_names == ("age",)
        with pytest.raises(DataFileError, match="must hold 1 or 0, or nothing in all of them, got 'maybe' in 'ml'"):
            tables("id,age,db,ml\na,1,1,maybe\nb,2,1,1\nc,3,0,0\nd,4,0,0\n", label=["db", "ml"])

    def test_a_line_for_each_label(self, tmp_path):
        (tmp_path / "links.csv").write_text("a,b\nb,c\n")
        (tmp_path / "labels.csv").write_text("a,x\na,y\nb,y\n")
        found = Graph.from_files(tmp_path / "links.csv", labels=tmp_path / "labels.csv", task="multilabel")
        np.testing.assert_array_equal(found.targets, [[1, 1], [0, 1], [-1, -1]])

    def test_numbers(self, tables):
        text = "id,age,price\na,1,10\nb,2,-1\nc,3,NA\nd,4,12.5\n"
        found = tables(text, label="price", task="regression")
        np.testing.assert_array_equal(found.targets, [10, -1, np.nan, 12.5])
        assert found.class_names == ("price",)
        with pytest.raises(DataFileError, match=r"nodes.csv line 3: 'cheap' is not a number"):
            tables("id,age,price\na,1,10\nb,2,cheap\nc,3,1\nd,4,2\n", label="price", task="regression")

    def test_measurements_are_found_out_and_mixed_ones_refused(self, tmp_path):
        names = [f"n{at:02}" for at in range(30)]
        (tmp_path / "links.csv").write_text("".join(f"{a},{b}\n" for a, b in itertools.pairwise(names)))
        values = [f"{at * 1.25}" for at in range(30)]
        (tmp_path / "y.csv").write_text("".join(f"{a},{v}\n" for a, v in zip(names, values, strict=True)))
        with pytest.warns(Notice, match="predicted as numbers"):
            found = Graph.from_files(tmp_path / "links.csv", labels=tmp_path / "y.csv")
        np.testing.assert_array_equal(found.targets, np.arange(30) * 1.25)
        rows = (f'{name},"{value}"\n' for name, value in zip(names, (v.replace(".", ",") for v in values), strict=True))
        (tmp_path / "y.csv").write_text("".join(rows))
        with pytest.warns(Notice, match="predicted as numbers"):
            again = Graph.from_files(tmp_path / "links.csv", labels=tmp_path / "y.csv")
        np.testing.assert_array_equal(again.targets, found.targets)
        values[3] = "broken"
        (tmp_path / "y.csv").write_text("".join(f"{a},{v}\n" for a, v in zip(names, values, strict=True)))
        with pytest.raises(DataFileError, match="labels are mixed, 'broken' beside 29 different numbers"):
            Graph.from_files(tmp_path / "links.csv", labels=tmp_path / "y.csv")

    def test_whole_numbers_are_classes_with_a_note(self, tmp_path):
        names = [f"n{at:02}" for at in range(60)]
        (tmp_path / "links.csv").write_text("".join(f"{a},{b}\n" for a, b in itertools.pairwise(names)))
        (tmp_path / "y.csv").write_text("".join(f"{name},{at % 25}\n" for at, name in enumerate(names)))
        with pytest.warns(Notice, match="25 different whole numbers, which are taken for classes; task='regression'"):
            assert Graph.from_files(tmp_path / "links.csv", labels=tmp_path / "y.csv").num_classes == 25
        (tmp_path / "y.csv").write_text("n00,x\nn00,y\n")
        with pytest.raises(DataFileError, match="two classes, 'x' and 'y'; task='multilabel' takes them for several"):
            Graph.from_files(tmp_path / "links.csv", labels=tmp_path / "y.csv")
