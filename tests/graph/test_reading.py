"""What tables mean: cells without a value, weights, columns of any kind; told in notes, or refused all at once."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

from fishergcn.errors import DataFileError, InputError, Notice
from fishergcn.graph import Graph

LINKS = "a,b\nb,c\nc,d\nd,e\n"


@pytest.fixture
def read(tmp_path):
    """Write files by name and return the graph with the notes about it."""

    def make(edges=LINKS, features=None, labels=None, **choices):
        paths = {}
        for name, content in (("edges", edges), ("features", features), ("labels", labels)):
            if content is not None:
                paths[name] = tmp_path / f"{name}.csv"
                paths[name].write_bytes(content if isinstance(content, bytes) else content.encode())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            graph = Graph.from_files(**paths, **choices)
        return graph, " ".join(str(each.message).replace(f"{tmp_path}/", "") for each in told)

    return make


def refusal(read, *arguments, **choices):
    with pytest.raises(DataFileError) as caught:
        read(*arguments, **choices)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestMissing:
    """One rule for features, classes and splits in every format."""

    @pytest.mark.parametrize("text", ["NaN", "NA", "n/a", "null", "None", "?", "#N/A", "#NV", "<NA>", ""])
    def test_no_text_of_this_kind_is_a_class(self, read, text):
        graph, told = read(labels=f"a,x\nb,{text}\nc,y\nd,{text}\ne,x\n")
        assert graph.class_names == ("x", "y")
        assert graph.labels.tolist() == [0, -1, 1, -1, 0]
        assert (f"labels.csv: 2 label(s) are read as unknown: {text!r} (2); missing= says" in told) == bool(text)

    def test_all_texts_are_counted(self, read):
        _, told = read(labels="a,x\nb,NaN\nc,?\nd,NaN\ne,y\n")
        assert "3 label(s) are read as unknown: 'NaN' (2), '?' (1)" in told

    def test_the_texts_may_be_chosen(self, read):
        graph, told = read(labels="a,x\nb,None\nc,gone\nd,\ne,x\n", missing="gone")
        assert graph.class_names == ("None", "x")
        assert graph.labels.tolist() == [1, 0, -1, -1, 1]
        assert "1 label(s) are read as unknown: 'gone' (1)" in told

    @pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "feather", "graphml", "frame", "networkx"])
    def test_the_same_in_every_format(self, tmp_path, form):
        rows = [("a", "1", "x", "train"), ("b", "NA", "NaN", "NA"), ("c", "3", "y", "val"), ("d", "?", "?", "test")]
        names = ["id", "age", "team", "fold"]
        columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
        links = {"source": ["a", "b", "c"], "target": ["b", "c", "d"]}
        choices = {"label": "team", "parts": "fold", "empty": "fill"}
        if form in ("csv", "tsv"):
            mark = "," if form == "csv" else "\t"
            for name, table in (("nodes", columns), ("links", links)):
                lines = [list(table), *map(list, zip(*table.values(), strict=True))]
                (tmp_path / f"{name}.{form}").write_text("".join(mark.join(line) + "\n" for line in lines))
        elif form in ("parquet", "feather", "frame"):
            arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            feather = pytest.importorskip("pyarrow.feather")
            tables = {"links": arrow.table(links), "nodes": arrow.table(columns)}
            for name, table in tables.items():
                write = parquet.write_table if form == "parquet" else feather.write_feather
                write(table, str(tmp_path / f"{name}.{form}"))
        else:
            networkx = pytest.importorskip("networkx")
            graph = networkx.Graph(list(zip(*links.values(), strict=True)))
            for row in rows:
                graph.nodes[row[0]].update(zip(names[1:], row[1:], strict=True))
            networkx.write_graphml(graph, tmp_path / "links.graphml")
        given = [tmp_path / f"links.{form}", *([tmp_path / f"nodes.{form}"] if form != "graphml" else [])]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            if form == "frame":
                found = Graph.from_frames(tables["links"], tables["nodes"], **choices)
            elif form == "networkx":
                found = Graph.from_networkx(graph, attributes=["age"], **choices)
            else:
                found = Graph.from_files(*given, **choices)
        assert found.features.tolist() == [[1], [2], [3], [2]]
        assert (found.class_names, found.labels.tolist()) == (("x", "y"), [0, -1, 1, -1])
        assert {part: nodes.tolist() for part, nodes in found.standard_split.items()} == {
            "train": [0], "val": [2], "test": [3],
        }  # fmt: skip
        words = " ".join(str(each.message) for each in told)
        assert "2 label(s) are read as unknown: 'NaN' (1), '?' (1)" in words
        assert "2 cell(s) are read as empty: 'NA' (1), '?' (1)" in words

    def test_numbers_may_stand_for_no_value(self, read):
        graph, _ = read(features="a,1\nb,-999\nc,3\nd,2\ne,-999\n", missing="-999", empty="fill")
        assert graph.features.ravel().tolist() == [1, 2, 3, 2, 2]

    def test_numbers_that_may_stand_for_no_value_are_named(self, read):
        rows = "id,t,u,v\na,-999,-99,3\nb,20,-80,4\nc,-4,-70,\nd,-999,-60,5\ne,7,-50,-99\n"
        graph, told = read(features=rows, empty="fill")
        assert graph.features[0, 0] == -999
        assert "column 't' holds -999 in 2 cell(s); missing='-999' says that these have no value." in told
        assert "column 'v' holds -99 in 1 cell(s)" in told
        assert "column 'u' holds" not in told
        assert "says that these" not in read(features=rows, empty="fill", missing=["", "-999"])[1]

    def test_the_missing_value_of_pandas(self):
        pandas = pytest.importorskip("pandas")
        links = pandas.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
        ages = pandas.array([1, None, 3], dtype="Int64")
        nodes = pandas.DataFrame({"id": ["a", "b", "c"], "age": ages})
        with pytest.warns(Notice, match="1 empty cell"):
            assert Graph.from_frames(links, nodes, empty="fill").features.ravel().tolist() == [1, 2, 3]


class TestClasses:
    def test_names_that_differ_in_case_only(self, read):
        graph, told = read(labels='a,red\nb,Red\nc,blue\nd,"dark  red"\ne,Dark red\n')
        assert graph.num_classes == 5
        assert "kept apart: 'Dark red' and 'dark  red'; 'Red' and 'red'." in told
        assert "kept apart: '1' and '1.0'." in read(labels="a,1\nb,1.0\nc,2\n")[1]
        assert "kept apart" not in read(labels="a,red\nb,blue\n")[1]

    def test_minus_one_beside_one_class_is_a_class(self, read):
        graph, told = read(labels="a,-1\nb,1\nc,-1\nd,\n")
        assert (graph.class_names, graph.labels.tolist()) == (("-1", "1"), [0, 1, 0, -1, -1])
        assert "labels.csv: '-1' is a class, since '1' would be the only one; an empty cell is an unknown" in told

    def test_minus_one_beside_several_is_unknown_and_told(self, read):
        graph, told = read(labels="a,-1\nb,0\nc,1\nd,1\n")
        assert graph.class_names == ("0", "1")
        assert "1 label(s) are read as unknown: '-1' (1); missing= says which texts mean that" in told
        graph, told = read(labels="a,-1\nb,0\nc,1\nd,1\n", missing="NA")
        assert graph.class_names == ("-1", "0", "1")
        assert "unknown" not in told

    def test_minus_one_with_a_point_is_the_same(self, read):
        assert read(labels="a,-1.0\nb,0.0\nc,1.0\nd,1.0\n")[0].class_names == ("0.0", "1.0")
        assert read(labels="a,-1.0\nb,1.0\nc,-1.0\n")[0].class_names == ("-1.0", "1.0")

    @pytest.mark.parametrize("mark", ["nil", "NaT", "unknown", "-"])
    def test_texts_that_may_mean_no_class_are_named(self, read, mark):
        graph, told = read(labels=f"a,x\nb,{mark}\nc,y\n")
        assert mark in graph.class_names
        assert f"{mark!r} is taken for a class, of 1 node(s); missing={mark!r} says that such nodes have none" in told

    def test_what_is_said_instead_holds_what_was_read_so_before(self, read):
        """Since missing= takes the place of the usual texts, which would become classes."""
        rows = "a,x\nb,NA\nc,y\nd,k.A.\ne,unknown\n"
        _, told = read(labels=rows)
        assert "'k.A.' (1), 'unknown' (1) are taken for classes; missing=['NA', 'k.A.', 'unknown'] says that" in told
        assert read(labels=rows, missing=["NA", "k.A.", "unknown"])[0].class_names == ("x", "y")
        _, told = read(labels=rows, missing=["k.A.", "unknown"])
        assert "'NA' is taken for a class, of 1 node(s); missing=['k.A.', 'unknown', 'NA'] says that such" in told
        features = "id,t\na,-999\nb,?\nc,-999\nd,5\ne,7\n"
        assert "missing=['?', '-999'] says that these have no value" in read(features=features, empty="fill")[1]


RING = [(at, (at + 3) % 8) for at in range(8)]
MIXED = [(3 * at) % 8 for at in range(8)]  # the ids, in another order than the rows


class TestIndex:
    """A column that numbers the rows beside the ids, whose numbers may well be those of nodes."""

    links = "source,target\n" + "".join(f"{one},{other}\n" for one, other in RING)

    @pytest.mark.parametrize(
        "head",
        [
            "Unnamed: 0,user,friend",
            "index,source,target",
            "edge_id,a,b",
            "row,who,whom",
            ",user,friend",
            "id,from,to",
            "id,person1,person2",
        ],
    )
    def test_of_links(self, read, head):
        graph, told = read(f"{head}\n" + "".join(f"{at},{one},{other}\n" for at, (one, other) in enumerate(RING)))
        np.testing.assert_array_equal(graph.adjacency.toarray(), read(self.links)[0].adjacency.toarray())
        assert f"left out: {head.split(',')[0] or 'the index'!r}".replace("'the index'", "the index") in told
        assert "makes it the weight" not in told or head.startswith("id")

    def test_data_that_only_look_like_names(self, read):
        assert read("u,v,2\nv,w,3\n")[0].node_ids == ("u", "v", "w")
        assert read("from,to,weight\na,b,2\nb,c,3\n")[0].node_ids == ("a", "b", "c")
        assert read("row,u,2\nu,v,3\n")[0].node_ids == ("row", "u", "v")
        assert read("n1,n3,n2\nn3,n2,n1\n")[0].num_links == 2

    @pytest.mark.parametrize("head", ["Unnamed: 0,id,x", "index,node_id,x", "row,id,x", "row id,node,x", ",id,x"])
    def test_of_nodes(self, read, head):
        rows = "".join(f"{at},{node},{node / 2}\n" for at, node in enumerate(MIXED))
        graph, told = read(self.links, f"{head}\n{rows}")
        assert graph.node_ids == tuple(map(str, MIXED))
        assert graph.feature_names == ("x",)
        np.testing.assert_array_equal(graph.features.ravel(), np.array(MIXED) / 2)
        assert f"node ids are in column {head.split(',')[1]!r}; left out: the index." in told

    def test_of_nodes_beside_chosen_ids(self, read):
        rows = "row,user,x\n" + "".join(f"{at},{node},{node / 2}\n" for at, node in enumerate(MIXED))
        graph, told = read(self.links, rows)  # all different, and nodes, as those of the index
        assert graph.node_ids == tuple(map(str, MIXED))
        assert "node ids are in column 'user'; left out: the index." in told
        ages = "".join(f"{at},{at % 3},{(at % 3) / 2}\n" for at in range(8))
        graph, told = read(self.links, "row,age,x\n" + ages)
        assert graph.feature_names == ("age", "x")
        assert "node ids are in column 'row'; id= chooses another." in told
        graph, told = read(self.links, rows, id="user")
        assert graph.feature_names == ("x",)
        assert "column 'row' is left out, since it looks like an index; columns={'row': 'number'} reads it." in told
        assert read(self.links, rows, id="user", columns={"row": "number"})[0].feature_names == ("row", "x")

    def test_of_labels(self, read):
        rows = "Unnamed: 0,id,label\n" + "".join(f"{at},{node},{'ab'[node % 2]}\n" for at, node in enumerate(MIXED))
        graph, _ = read(self.links, None, rows)
        assert graph.labels.tolist() == [node % 2 for node in range(8)]

    @pytest.mark.parametrize("names", ["ab", "01"])
    def test_the_class_before_the_node(self, read, names):
        rows = "".join(f"{names[node % 2]},{node}\n" for node in MIXED)
        graph, _ = read(self.links, None, "label,id\n" + rows)
        assert graph.labels.tolist() == [node % 2 for node in range(8)]
        assert graph.class_names == tuple(names)

    @pytest.mark.parametrize("head", ["", "team,member\n", "label,member\n"])
    def test_the_class_before_a_node_that_is_recognized(self, read, head):
        rows = "".join(f"{'xy'[node % 2]},n{node}\n" for node in MIXED)
        links = "source,target\n" + "".join(f"n{one},n{other}\n" for one, other in RING)
        graph, told = read(links, None, head + rows)
        assert graph.labels.tolist() == [node % 2 for node in range(8)]
        assert "labels.csv: each line names the class before the node." in told
        assert "node 'x' is not in the graph" in refusal(read, links, None, rows + "x,n9\n")

    @pytest.mark.parametrize("choice", [{"label": "team"}, {"drop": "team"}, {"columns": {"team": "drop"}}])
    def test_a_first_column_that_is_something_else(self, read, choice):
        """Its numbers are all different and those of nodes, so that nothing else would tell."""
        rows = "team,id,x\n" + "".join(f"{at},{node},{node / 2}\n" for at, node in enumerate(MIXED))
        assert read(self.links, rows, **choice)[0].node_ids == tuple(map(str, MIXED))

    @pytest.mark.parametrize(
        ("mine", "other"), [("3", "3.0"), ("N3", "n3"), ("3", "0003"), ("n  3", "n 3"), ("Zoe\u0308", "Zoë")]
    )
    def test_ids_that_are_spelled_in_two_ways(self, read, mine, other):
        told = refusal(read, f"source,target\n{mine},{mine}\n", f"id,x\n{other},1\nx,2\n")
        assert f"node {mine!r} has no row in" in told
        assert f"but {other!r} has, and ids must be spelled alike" in told


class TestWeights:
    def test_a_year_is_no_weight(self, read):
        content = "source,target,year\na,b,1990\nb,c,2009\nb,a,1995\n"
        graph, told = read(content)
        assert set(graph.adjacency.data) == {1.0}
        assert "source 'source', target 'target'; left out: 'year'; weight='year' makes it the weight." in told
        graph, _ = read(content, weight="year", directed="symmetrize")
        assert set(graph.adjacency.data) == {1995.0, 2009.0}

    @pytest.mark.parametrize("name", ["weight", "Weights", "w", "edge_weight", "link weight", "strength"])
    @pytest.mark.parametrize("head", ["source,target", "from,to", "who,whom"])
    def test_columns_that_are_called_so(self, read, head, name):
        graph, told = read(f"{head},{name}\na,b,2\nb,c,3\n")
        assert set(graph.adjacency.data) == {2.0, 3.0}
        assert "left out" not in told

    @pytest.mark.parametrize("name", ["value", "year", "kind", "id"])
    @pytest.mark.parametrize("head", ["source,target", "from,to", "who,whom"])
    def test_others_are_left_out_and_told(self, read, head, name):
        graph, told = read(f"{head},{name}\na,b,2\nb,c,3\n")
        assert set(graph.adjacency.data) == {1.0}
        assert f"left out: {name!r}; weight={name!r} makes it the weight" in told

    def test_text_in_a_third_column(self, read):
        graph, told = read("source,target,kind\na,b,kin\nb,c,friend\n")
        assert (graph.num_nodes, set(graph.adjacency.data)) == (3, {1.0})
        assert "left out: 'kind'" in told
        graph, told = read("a,b,kin\nb,c,kin\nc,d,friend\n")
        assert (graph.num_nodes, set(graph.adjacency.data)) == (4, {1.0})
        assert "the third column is left out, since it holds text such as 'kin'" in told

    def test_without_names(self, read):
        graph, told = read("a,b,0.5\nb,c,2\n")
        assert set(graph.adjacency.data) == {0.5, 2.0}
        assert "edges.csv: the third column is the weight; weight='none' leaves it out." in told
        graph, told = read("a,b,0.5\nb,c,2\n", weight="none")
        assert set(graph.adjacency.data) == {1.0}
        assert told == ""

    @pytest.mark.parametrize(
        ("low", "high"), [(1990, 2009), (1082040961, 1098777142), (199611, 200901), (19961224, 20090131)]
    )
    def test_years_and_times_without_names(self, read, low, high):
        graph, told = read(f"a,b,{low}\nb,c,{high}\n")
        assert set(graph.adjacency.data) == {1.0}
        assert f"left out, since it holds whole numbers from {low} to {high}, which look like years" in told
        assert set(read(f"a,b,{low}\nb,c,{high}\n", weight=3)[0].adjacency.data) == {float(low), float(high)}
        assert set(read(f"a,b,{low}.0\nb,c,{high}.0\n")[0].adjacency.data) == {1.0}

    @pytest.mark.parametrize(("low", "high"), [(199600, 200901), (199613, 200901), (19961232, 20090131), (3, 2009)])
    def test_numbers_that_are_no_dates(self, read, low, high):
        assert set(read(f"a,b,{low}\nb,c,{high}\n")[0].adjacency.data) == {float(low), float(high)}

    def test_numbers_of_many_digits(self, read):
        most = "9" * 5000
        assert "finite" in refusal(read, f"a,b,{most}\nb,c,{most}\n")

    @pytest.mark.parametrize("cell", ["b,c", "b;c", "b|c|d"])
    def test_lists_of_nodes_are_no_links(self, read, cell):
        message = refusal(read, f'id\tnext\na\t"{cell}"\nb\ta\nc\ta\nd\ta\n')
        assert f"line 2: {cell!r} is a list of nodes; a line must hold one link" in message
        assert read('a\t"b,c"\n"b,c"\td\nb\td\nc\td\n')[0].num_links == 4

    def test_decimal_commas(self, read):
        graph, told = read("source;target;weight\na;b;0,5\nb;c;2\n")
        assert set(graph.adjacency.data) == {0.5, 2.0}
        assert "weights have decimal commas: '0,5' is 0.5" in told


HEAD = "id,city,since,bio,price,age,note\n"
ROWS = [
    ["a", "Rome", "2019-03-01", "likes figs and the sea", '"0,5"', "31", "1"],
    ["b", "Oslo", "2019-04-01", "reads on the train", '"1,25"', "", "2"],
    ["c", "Rome", "2020-01-31", "was born in May", '"3"', "25", "x"],
    ["d", "Rome", "2021-12-24", "cooks for friends", '"2,5"', "60", "3"],
    ["e", "Oslo", "2022-06-30", "sings", '"7,125"', "44", "4"],
]
MANY = [[f"{row[0]}{at}", *row[1:3], f"{row[3]} {at}", *row[4:]] for at in range(9) for row in ROWS]
TABLE = HEAD + "".join(",".join(row) + "\n" for row in MANY)
LINKED = "a0,b0\nb0,c0\nc0,d0\n"


class TestColumns:
    def test_all_problems_at_once_by_name_with_what_mends_them(self, read):
        message = refusal(read, LINKED, TABLE)
        for part in (
            "features.csv: 5 columns cannot be read as numbers: ",
            "'city' holds text such as 'Rome' in line 2 (columns={'city': 'one-hot'} or columns={'city': 'drop'})",
            "'since' holds dates or times such as '2019-03-01' in line 2 (columns={'since': 'drop'})",
            "'bio' holds free text such as 'likes figs and the sea 0' in line 2 (columns={'bio': 'drop'})",
            "'age' has 9 empty cell(s), the first in line 3 (empty='fill' takes the mean of the others, columns={'age'",
            "'note' holds text among its numbers, such as 'x' in line 4 (columns={'note': 'number'} or columns={",
        ):
            assert part in message
        assert "price" not in message  # its decimal commas are understood

    def test_each_column_by_its_kind(self, read):
        kinds = {"city": "one-hot", "since": "drop", "bio": "drop", "note": "number"}
        graph, told = read(LINKED, TABLE, columns=kinds, empty="fill")
        assert graph.feature_names == ("city=Oslo", "city=Rome", "price", "age", "note")
        np.testing.assert_allclose(graph.features[:5], [
            [0, 1, 0.5, 31, 1], [1, 0, 1.25, 40, 2], [0, 1, 3, 25, 2.5], [0, 1, 2.5, 60, 3], [1, 0, 7.125, 44, 4]
        ])  # fmt: skip
        assert "column 'price' is read with decimal commas: 0,5 is 0.5" in told
        assert "9 text(s) of column 'note', such as 'x', count as empty" in told

    def test_columns_by_number(self, read):
        graph, _ = read(features="a,Rome,1\nb,Oslo,2\nc,Rome,3\nd,Oslo,4\ne,Oslo,5\n", columns={"2": "one-hot"})
        assert graph.feature_names == ("2=Oslo", "2=Rome", "3")

    def test_codes_may_be_one_hot(self, read):
        graph, _ = read(features="id,zone\na,1\nb,2\nc,1\nd,2\ne,2\n", columns={"zone": "one-hot"})
        assert graph.feature_names == ("zone=1", "zone=2")
        assert graph.features[:, 0].tolist() == [1, 0, 1, 0, 0]

    def test_commas_that_may_separate_thousands_are_asked_about(self, read):
        table = "id;x\na;1,234\nb;2,500\nc;3,000\nd;1,000\ne;9,999\n"
        message = refusal(read, features=table)
        assert (
            "numbers whose comma may separate decimals or thousands, such as '1,234' in line 2 (columns={'x': "
            in message
        )
        assert "columns={'x': 'decimal-comma'}" in message
        assert read(features=table, columns={"x": "decimal-comma"})[0].features[0, 0] == np.float32(1.234)

    def test_commas_and_points_are_not_mixed(self, read):
        message = refusal(read, features="id;x\na;0,5\nb;0.5\nc;3\nd;1\ne;9\n")
        assert "'x' holds numbers with a decimal comma, and others with a point, such as '0,5' in line 2" in message

    def test_points_that_may_separate_thousands_are_asked_about(self, read):
        """Beside decimal commas, or with two points: 1.000 would become 1, silently."""
        table = "id;x;y\na;1.000;0,5\nb;25.500;1,5\nc;999;2\nd;1.200;2,25\ne;0;3\n"
        message = refusal(read, features=table)
        assert "'x' holds numbers such as '1.000', a thousand times as much if points separate thousands" in message
        assert "(columns={'x': 'decimal-comma'} or columns={'x': 'number'})" in message
        assert "'y'" not in message
        graph, told = read(features=table, columns={"x": "decimal-comma"})
        assert graph.features.T.tolist() == [[1000, 25500, 999, 1200, 0], [0.5, 1.5, 2, 2.25, 3]]
        assert "column 'y' is read with decimal commas" in told
        assert read(features=table, columns={"x": "number"})[0].features[1, 0] == 25.5
        again, _ = read(features=table.replace("25.500", "1.025.500"), like=graph)
        assert again.features[:, 0].tolist() == [1000, 1025500, 999, 1200, 0]

    @pytest.mark.parametrize("x", ["0.500", "1.25", "1.2500"])
    def test_points_that_separate_decimals_are_not(self, read, x):
        graph, _ = read(features=f"id;x;y\na;1.125;0,5\nb;{x};1,5\nc;3;2\nd;1;2,25\ne;0;3\n")
        assert graph.features[:2, 0].tolist() == [1.125, float(x)]
        assert read(features="id,x\na,1.000\nb,2.500\nc,1\nd,2\ne,3\n")[0].features[1, 0] == 2.5

    def test_points_and_commas_in_one_column(self, read):
        table = "id;x\na;1.000\nb;0,5\nc;12\nd;2.100,25\ne;9\n"
        assert "(columns={'x': 'decimal-comma'} or " in refusal(read, features=table)
        graph, _ = read(features=table, columns={"x": "decimal-comma"})
        assert graph.features.ravel().tolist() == [1000, 0.5, 12, 2100.25, 9]
        message = refusal(read, features="id;x\na;1.000.000\nb;2.500.000\nc;1.000.001\nd;1\ne;2\n")
        assert "'x' holds numbers whose points separate thousands, such as '1.000.000' in line 2" in message

    @pytest.mark.parametrize(("columns", "message"), [
        ({"x": "date"}, "columns['x'] must be one of"), ({"nix": "drop"}, "no file has a column 'nix'"),
    ])  # fmt: skip
    def test_kinds_that_there_are_not(self, read, columns, message):
        with pytest.raises(InputError) as caught:
            read(features="id,x\na,1\nb,2\nc,3\nd,4\ne,5\n", columns=columns)
        assert message in str(caught.value)


class TestNodesAndLinks:
    """Rows that repeat, and links and labels of nobody: all told at once, and mended by two choices."""

    given = {
        "features": "id,x\na,1\nb,2\nc,3\na,9\nd,4\n",
        "edges": "a,b\nb,c\nc,zoe\nb,b\nyan,zoe\nc,d\n",
        "labels": "a,x\nb,y\nzoe,y\nc,x\n",
    }

    def test_all_at_once(self, read):
        message = refusal(read, **self.given)
        assert "features.csv line 5: node 'a' has a row in line 2 already; repeated='first' keeps the first" in message
        assert "edges.csv line 3: node 'zoe' has no row in" in message
        assert "(in all 2 nodes in 2 links); unknown='drop' leaves such links out" in message
        assert "labels.csv line 3: node 'zoe' is not in the graph" in message

    def test_mended(self, read):
        graph, told = read(**self.given, repeated="first", unknown="drop", self_links="drop")
        assert graph.features.ravel().tolist() == [1, 2, 3, 4]
        assert (graph.num_links, graph.num_self_links, graph.labels.tolist()) == (3, 0, [0, 1, 0, -1])
        assert "1 node(s), such as 'a', have more rows; the first counts" in told
        assert "2 link(s) are left out: 'zoe', 'yan' have no row in features.csv" in told
        assert "1 label(s) are left out, of nodes that are not in the graph, such as 'zoe'" in told


class TestText:
    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
    def test_spreadsheets_write_utf_16(self, read, encoding):
        mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
        graph, _ = read(mark + "Jörg\t李\n李\tЮ\n".encode(encoding))
        assert graph.node_ids == ("Jörg", "Ю", "李")

    def test_the_line_by_which_spreadsheets_name_the_separator(self, read):
        graph, _ = read("sep=|\na|b\nb|c\n")
        assert graph.node_ids == ("a", "b", "c")

    def test_another_encoding_is_named(self, read):
        assert "such as Latin-1 or Windows-1252, must be saved as UTF-8 first" in refusal(read, b"J\xf6rg,a\n")

    def test_wide_tables_take_time_in_proportion(self, tmp_path):
        """With one pass over a line, 30,000 columns take a second; an expression that backtracks, minutes."""
        names = [f"f{column}" for column in range(30_000)]
        (tmp_path / "e.csv").write_text("a,b\n")
        (tmp_path / "x.csv").write_text(
            f"id,{','.join(names)}\na,{','.join(['0.5'] * 30_000)}\nb,{','.join(['1e-5'] * 30_000)}\n"
        )
        code = (
            "import sys; from fishergcn import Graph; graph = Graph.from_files(sys.argv[1], sys.argv[2]); "
            "print(graph.num_features, graph.features[1, -1])"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "e.csv"), str(tmp_path / "x.csv")],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout.split() == ["30000", "1e-05"], done.stderr


class TestLike:
    """Tables of new nodes are read as those of training were."""

    nodes = (
        'id,age,city,since,pay,team\na,1,Rome,2019-01-01,"0,5",x\nb,,Oslo,2019-01-02,"1,5",y\nc,3,?,2019-01-03,2,x\n'
    )
    links = "who,whom,year\na,b,1990\nb,c,1991\nc,c,1992\n"
    choices = {
        "columns": {"city": "one-hot", "since": "drop"}, "empty": "fill", "label": "team", "weight": "year",
        "self_links": "drop",
    }  # fmt: skip

    def test_equal_to_reading_with_all_choices(self, read):
        known, _ = read(self.links, self.nodes, **self.choices)
        new = self.nodes.replace("c,3,?", "c,3,Rome") + 'd,,Oslo,2020-05-05,"9,5",\n'
        linked = self.links + "d,a,2000\n"
        found, told = read(linked, new, like=known)
        said, _ = read(linked, new, fill_from=known, **self.choices)
        assert found.features.tolist() == said.features.tolist()
        assert found.feature_names == said.feature_names == known.feature_names
        assert (found.adjacency != said.adjacency).nnz == 0
        assert found.features[3].tolist() == [2, 1, 0, 9.5]
        assert "left out" not in told

    def test_the_reading_survives_files_copies_and_processes(self, read, tmp_path):
        import pickle

        known, _ = read(self.links, self.nodes, **self.choices)
        known.save(tmp_path / "g.npz")
        known.save(tmp_path / "g", mapped=True)
        for again in (Graph.load(tmp_path / "g.npz"), Graph.load(tmp_path / "g"), pickle.loads(pickle.dumps(known)),
                      known.replace(name="x"), known.replace(labels=[0, 0, 1])):  # fmt: skip
            assert again.reading == known.reading
        assert known.reading["categories"] == {"city": ["Oslo", "Rome"]}
        assert Graph.from_edges([(0, 1)]).reading is None

    def test_new_texts_and_columns_are_told(self, read):
        known, _ = read(self.links, self.nodes, **self.choices)
        new = "id,age,city,pay,hat\na,1,Rome,1,z\nb,4,Paris,2,z\nc,3,Rome,1,z\n"
        found, told = read(self.links, new, like=known)
        assert found.features.tolist() == [[1, 0, 1, 1], [4, 0, 0, 2], [3, 0, 1, 1]]
        assert "column 'city' holds 1 text(s) that training did not have, such as 'Paris'; they are 0 in all" in told
        assert "left out, since training did not have it: 'hat'" in told

    @pytest.mark.parametrize(
        ("links", "nodes", "message"),
        [
            (None, "id,age,city\na,1,Rome\nb,2,Rome\nc,3,Rome\n", "has no column 'pay', which training had."),
            (None, "id,city\na,Rome\nb,Rome\nc,Rome\n", "has no columns 'age', 'pay', which training had."),
            (None, "name,age,city,pay\na,1,Rome,1\nb,2,Rome,2\nc,1,x,1\n", "has no column 'id', the node ids in tra"),
            (None, "id,age,city,pay\na,1,Rome,1\nb,?,Rome,u\nc,1,x,1\n", "'pay' holds text where training had numbers"),
            ("who,whom\na,b\nb,c\n", None, "has no column 'year', the weight of the links in training; weight='none'"),
        ],
    )
    def test_what_does_not_fit_is_one_sentence(self, read, links, nodes, message):
        known, _ = read(self.links, self.nodes, **self.choices)
        assert message in refusal(read, links or self.links, nodes or self.nodes, like=known)

    def test_ends_among_four_columns_without_names_are_those_of_before(self, read):
        """Found by fuzzing (csv 100140)."""
        links = "a,b,0,7\nb,c,1,7\nc,a,1,7\n"
        known, _ = read(links, weight="none")
        assert read(links, like=known)[0].node_ids == known.node_ids == ("a", "b", "c")

    def test_gaps_where_training_had_none_are_asked_about(self, read):
        known, _ = read(features="id,x\na,1\nb,2\nc,3\nd,4\ne,5\n")
        new = "id,x\na,1\nb,\nc,3\nd,4\ne,5\n"
        assert "'x' has 1 empty cell(s), the first in line 3 (empty='fill' takes the mean in training)" in refusal(
            read, features=new, like=known
        )
        assert read(features=new, like=known, empty="fill")[0].features[1, 0] == 3

    def test_a_reading_of_anybody_is_checked(self):
        for reading in ({"text": "keep"}, {"columns": {"a": 1}}, {"run": "rm"}, [1], {"categories": {"a": "b"}}):
            with pytest.raises(InputError, match="reading must"):
                Graph.from_edges([(0, 1)], reading=reading)
