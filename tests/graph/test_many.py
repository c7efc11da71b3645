"""Many graphs from a folder or from one table: times, names, empty days, rows out of order, and bad ones."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from fishergcn.errors import DataFileError, InputError, Notice
from fishergcn.graph import Graph, read_covariate, read_graphs


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        return read_graphs(*arguments, **options)


def links(graph):
    rows, columns = graph.adjacency.nonzero()
    ids = graph.node_ids
    return {(ids[i], ids[j]): graph.adjacency[i, j] for i, j in zip(rows, columns, strict=True) if i < j}


class TestTables:
    def test_dates_sort_the_graphs_and_a_notice_says_so(self, tmp_path):
        table = written(tmp_path / "calls.csv", "date,from,to\n2024-03-01,b,c\n2024-02-28,a,b\n2024-02-28,b,c\n")
        with pytest.warns(Notice, match="not in the order of time; the graphs are sorted"):
            found = read_graphs(table)
        assert list(found.graphs) == ["2024-02-28", "2024-03-01"]
        assert found.times[1] - found.times[0] == 2
        assert links(found.graphs["2024-02-28"]) == {("a", "b"): 1.0, ("b", "c"): 1.0}

    def test_both_directions_and_repeated_rows_are_added_up(self, tmp_path):
        table = written(tmp_path / "m.csv", "t,source,target,weight\n1,a,b,2\n1,b,a,3\n1,a,c,1\n1,a,a,9\n2,a,b,1\n")
        with pytest.warns(Notice) as notices:
            found = read_graphs(table)
        assert links(found.graphs["1"]) == {("a", "b"): 5.0, ("a", "c"): 1.0}
        words = " ".join(str(each.message) for each in notices)
        assert "1 row(s) name a link of their graph again, in either order; weights are added up" in words
        assert "1 link(s) of a node to itself are left out" in words

    def test_names_keep_their_order_and_have_no_times(self, tmp_path):
        table = written(tmp_path / "brains.tsv", "subject\tu\tv\nzoe\t1\t2\nann\t2\t3\nzoe\t2\t3\n")
        found = quietly(table)
        assert list(found.graphs) == ["zoe", "ann"]
        assert found.times is None
        assert found.graphs["zoe"].num_links == 2

    @pytest.mark.parametrize(
        ("marks", "days"),
        [
            (["2024/02/01", "2024/1/31"], [19753, 19754]),
            (["2024-2", "2024-1"], [19723, 19754]),
            (["2024-01-01T00:30:00+02:00", "2024-01-01T00:30:00-01:30"], [19722.9375, 19723 + 2 / 24]),
        ],
    )
    def test_dates_of_other_forms(self, tmp_path, marks, days):
        table = written(tmp_path / "d.csv", f"datetime,from,to\n{marks[0]},a,b\n{marks[1]},b,c\n")
        assert quietly(table).times == pytest.approx(sorted(days), abs=1e-9)

    @pytest.mark.parametrize(
        ("marks", "words"),
        [
            (["01/02/2024", "03/02/2024"], "'01/02/2024' is neither a number nor a date such as 2024-03-31"),
            (["1", "NaN"], "'NaN' is neither a number nor a date"),
            (["2024", "2024.0"], "some are equal"),
            (["2024", "2024-01"], "of several kinds"),
        ],
    )
    def test_names_that_look_like_times_are_pointed_out(self, tmp_path, marks, words):
        table = written(tmp_path / "d.csv", f"time,from,to\n{marks[0]},a,b\n{marks[1]},b,c\n")
        with pytest.warns(Notice, match=f"{words}.* they are in the order of rows"):
            assert read_graphs(table).times is None

    def test_columns_by_number_without_a_header(self, tmp_path):
        table = written(tmp_path / "plain.txt", "10 a b 0.5\n9 b c 2\n")
        found = quietly(table, by="1", source="2", target="3", weight="4")
        assert (list(found.graphs), found.times) == (["9", "10"], (9.0, 10.0))
        assert links(found.graphs["10"]) == {("a", "b"): 0.5}

    def test_times_are_put_together_and_empty_days_are_refused_or_skipped(self, tmp_path):
        rows = ["2024-01-01T08:00:00,a,b", "2024-01-01T09:30:00,b,c", "2024-01-03T00:00:00,a,c"]
        table = written(tmp_path / "t.csv", "\n".join(["timestamp,from,to", *rows]))
        with pytest.raises(DataFileError, match=r"1 of 3 graphs have no links .* such as '2024-01-02'.* empty='skip'"):
            quietly(table, every="day")
        with pytest.warns(Notice, match="1 of 3 graphs have no links and are left out"):
            found = read_graphs(table, every="day", empty="skip")
        assert list(found.graphs) == ["2024-01-01", "2024-01-03"]
        assert found.times[1] - found.times[0] == 2
        assert list(quietly(table, every="month").graphs) == ["2024-01-01"]

    def test_seconds_since_1970_and_numbers(self, tmp_path):
        table = written(tmp_path / "s.csv", "time,from,to\n1700000000,a,b\n1700090000,a,c\n")
        assert list(quietly(table, every="day").graphs) == ["2023-11-14", "2023-11-15"]
        table = written(tmp_path / "n.csv", "t,from,to\n0.5,a,b\n1.2,a,c\n7,b,c\n")
        found = quietly(table, every="5")
        assert (list(found.graphs), found.times) == (["0", "5"], (0.0, 5.0))
        with pytest.raises(InputError, match="every must be a number for times such as"):
            quietly(table, every="day")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("t,a,b\n", "holds no links"),
            ("from,to\na,b\n", "must have a column that says of which graph a link is"),
            ("time,graph,from,to\n1,x,a,b\n", "several columns may be it: 'time', 'graph'"),
            ("t,from,to\n1,a,b\n,b,c\n", "line 3: the cell that says of which graph"),
            ("t,from,to,weight\n1,a,b,-2\n", "line 2: a weight must be positive and finite, got -2"),
            ("t,from,to,weight\n1,a,b,\n", "line 2: cell 4 must be a number, got an empty cell"),
            ("from,to,weight,t\na,b,x,1\n", "line 2: cell 3 must be a number, got 'x'"),
            ("t,from,to\n1,a,a\n", "no graph with links"),
            ("t,from,to\n1,a\n", "expected 3 cells"),
            ("date,from,to\n2024-13-01,a,b\n", "no date"),
        ],
    )
    def test_bad_tables(self, tmp_path, text, words):
        with pytest.raises(DataFileError, match=words):
            quietly(written(tmp_path / "bad.csv", text))

    def test_bad_choices(self, tmp_path):
        table = written(tmp_path / "t.csv", "t,from,to\n1,a,b\n")
        with pytest.raises(DataFileError, match="no column 'when'"):
            quietly(table, by="when")
        with pytest.raises(DataFileError, match="columns 1 to 3, got by='7'"):
            quietly(table, by="7")
        with pytest.raises(InputError, match="every must be one of"):
            quietly(written(tmp_path / "d.csv", "date,from,to\n2024-01-01,a,b\n"), every="fortnight")
        with pytest.raises(InputError, match="empty must be one of"):
            quietly(table, empty="keep")
        with pytest.raises(DataFileError, match="does not exist"):
            quietly(tmp_path / "nowhere.csv")


class TestArrays:
    def test_an_archive_of_links(self, tmp_path):
        arrays = {"t": [0, 0, 2], "a": [5, 6, 5], "b": [6, 7, 7], "w": [1.0, 2.0, 3.0], "times": ["x1", "x2", "x3"]}
        np.savez(tmp_path / "s.npz", **{name: np.array(each) for name, each in arrays.items()})
        with pytest.raises(DataFileError, match="1 of 3 graphs have no links"):
            quietly(tmp_path / "s.npz")
        found = quietly(tmp_path / "s.npz", empty="skip")
        assert list(found.graphs) == ["x1", "x3"]
        assert links(found.graphs["x1"]) == {("5", "6"): 1.0, ("6", "7"): 2.0}

    @pytest.mark.parametrize(
        ("change", "words"),
        [({"w": [-1.0]}, "not negative"), ({"t": [0.5]}, "whole numbers"), ({"times": []}, "t must be from 0"),
         ({"a": [1, 2]}, "as many of each")],
    )  # fmt: skip
    def test_bad_archives(self, tmp_path, change, words):
        arrays = {"t": [0], "a": [1], "b": [2], "w": [1.0]} | change
        np.savez(tmp_path / "s.npz", **{name: np.array(each) for name, each in arrays.items()})
        with pytest.raises(DataFileError, match=words):
            quietly(tmp_path / "s.npz")


class TestFolders:
    def test_files_are_read_in_the_order_of_their_numbers(self, tmp_path):
        for step in (2, 10, 1):
            written(tmp_path / f"step{step}.csv", f"a,b\nb,c{step}\n")
        Graph.from_edges([(0, 1)], node_ids=["a", "b"]).save(tmp_path / "step11.npz")
        written(tmp_path / "README.md", "no graph")
        found = quietly(tmp_path)
        assert list(found.graphs) == ["step1", "step2", "step10", "step11"]
        assert found.times == (1.0, 2.0, 10.0, 11.0)

    def test_folders_that_hold_no_graphs_or_one_twice(self, tmp_path):
        with pytest.raises(DataFileError, match="holds no graph files"):
            read_graphs(tmp_path)
        written(tmp_path / "one.csv", "a,b\n")
        written(tmp_path / "one.tsv", "a\tb\n")
        with pytest.raises(DataFileError, match="two files of the graph 'one'"):
            read_graphs(tmp_path)
        with pytest.raises(InputError, match="by and every go with a table"):
            read_graphs(tmp_path, by="t")

    def test_an_empty_file_is_an_empty_graph(self, tmp_path):
        written(tmp_path / "1.csv", "a,b\n")
        written(tmp_path / "2.csv", "")
        with pytest.raises(DataFileError, match="1 of 2 graphs have no links"):
            quietly(tmp_path)
        assert list(quietly(tmp_path, empty="skip").graphs) == ["1"]


class TestCovariates:
    def test_by_name_number_or_place(self, tmp_path):
        table = written(tmp_path / "c.csv", "graph,group,age\nb,y,3\na,x,4\n")
        assert read_covariate(table, ["a", "b"]) == ["x", "y"]
        assert read_covariate(table, ["b", "a"], "age") == [3.0, 4.0]
        assert read_covariate(table, ["b"], "3") == [3.0]
        assert read_covariate(written(tmp_path / "d.csv", "a,1\nb,2\n"), ["a", "b"]) == [1.0, 2.0]

    @pytest.mark.parametrize(
        ("text", "column", "words"),
        [
            ("graph,group\na,x\n", None, "'b' has none"),
            ("graph,group\na,x\na,y\n", None, "'a' comes twice"),
            ("graph,group\na,x\nb,y\n", "grop", "no column 'grop' .did you mean 'group'"),
            ("graph\na\nb\n", None, "values in column 2, got 1"),
            ("", None, "no rows"),
        ],
    )
    def test_bad_ones(self, tmp_path, text, column, words):
        with pytest.raises(DataFileError, match=words):
            read_covariate(written(tmp_path / "c.csv", text), ["a", "b"], column)
