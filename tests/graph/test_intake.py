"""Tables as people have them: more columns than needed, text, gaps, other formats; and the same graph from each."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest
from scipy import sparse

from fishergcn import splits
from fishergcn.errors import InputError, Notice
from fishergcn.graph import Graph

LINKS = "since,source,target,kind,weight\n1999,Ann,Bob,friend,2\n2001,Bob,Cy,kin,1.5\n2003,Cy,Dee,friend,1\n"
NODES = (
    ",id,age,city,active,team,fold\n"
    "0,Ann,31,Rome,True,red,train\n"
    "1,Bob,44,Oslo,False,blue,val\n"
    "2,Cy,25,Rome,True,,test\n"
    "3,Dee,60,,False,red,\n"
)
CHOICES = {"label": "team", "parts": "fold", "text": "one-hot", "empty": "fill"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "links.csv").write_text(LINKS)
    (tmp_path / "nodes.csv").write_text(NODES)
    return tmp_path


def quietly(function, *arguments, **choices):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        return function(*arguments, **choices)


def expected():
    adjacency = np.zeros((4, 4))
    adjacency[[0, 1, 2], [1, 2, 3]] = [2, 1.5, 1]
    return Graph(
        adjacency + adjacency.T,
        np.array([[31, 0, 1, 1], [44, 1, 0, 0], [25, 0, 1, 1], [60, 0, 0, 0]], dtype=float),
        [1, 0, -1, 1],
        standard_split={"train": [0], "val": [1], "test": [2]},
    )


def refusal(function, *arguments, **choices):
    with pytest.raises(InputError) as caught:
        quietly(function, *arguments, **choices)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    return str(caught.value)


def same(graph):
    assert graph == expected()
    assert graph.node_ids == ("Ann", "Bob", "Cy", "Dee")
    assert graph.class_names == ("blue", "red")
    assert graph.feature_names == ("age", "city=Oslo", "city=Rome", "active")


class TestOneResult:
    def test_text(self, folder):
        same(quietly(Graph.from_files, folder / "links.csv", folder / "nodes.csv", **CHOICES))

    def test_the_nodes_as_labels_too(self, folder):
        same(quietly(Graph.from_files, folder / "links.csv", folder / "nodes.csv", folder / "nodes.csv", **CHOICES))

    def test_compressed(self, folder):
        for name in ("links.csv", "nodes.csv"):
            (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        same(quietly(Graph.from_files, folder / "links.csv.gz", folder / "nodes.csv.gz", **CHOICES))

    @pytest.mark.parametrize("form", ["parquet", "feather"])
    def test_columnar_files(self, folder, form):
        csv = pytest.importorskip("pyarrow.csv")
        parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
        for name in ("links", "nodes"):
            table = csv.read_csv(folder / f"{name}.csv")
            write = parquet.write_table if form == "parquet" else feather.write_feather
            write(table, str(folder / f"{name}.{form}"))
        same(quietly(Graph.from_files, folder / f"links.{form}", folder / f"nodes.{form}", **CHOICES))

    def test_pandas(self, folder):
        pandas = pytest.importorskip("pandas")
        links, nodes = pandas.read_csv(folder / "links.csv"), pandas.read_csv(folder / "nodes.csv", index_col=0)
        same(quietly(Graph.from_frames, links, nodes, **CHOICES))
        same(quietly(Graph.from_frames, links, nodes.set_index("id"), **CHOICES))
        labels = nodes.set_index("id")[["team", "fold"]]
        same(quietly(Graph.from_frames, links, nodes.drop(columns=["team", "fold"]), labels, **CHOICES))

    def test_polars(self, folder):
        polars = pytest.importorskip("polars")
        links, nodes = polars.read_csv(folder / "links.csv"), polars.read_csv(folder / "nodes.csv")
        same(quietly(Graph.from_frames, links, nodes, **CHOICES))

    @pytest.mark.parametrize("form", ["memory", "graphml", "graphml.gz"])
    def test_networkx(self, folder, form):
        networkx = pytest.importorskip("networkx")
        graph = networkx.Graph()
        for line in NODES.splitlines()[1:]:
            _, node, age, city, active, team, fold = line.split(",")
            known = {"city": city, "team": team, "fold": fold}
            graph.add_node(node, age=int(age), active=active == "True", **{k: v for k, v in known.items() if v})
        for line in LINKS.splitlines()[1:]:
            _, first, second, kind, weight = line.split(",")
            graph.add_edge(first, second, kind=kind, weight=float(weight))
        if form == "memory":
            found = quietly(Graph.from_networkx, graph, attributes=["age", "city", "active"], **CHOICES)
        else:
            networkx.write_graphml(graph, folder / f"g.{form}")
            found = quietly(Graph.from_files, folder / f"g.{form}", **CHOICES)
        # The order of columns is that of the first node that has them.
        order = [found.feature_names.index(name) for name in ("age", "city=Oslo", "city=Rome", "active")]
        same(found.replace(features=found.features[:, order], feature_names=[found.feature_names[at] for at in order]))


def test_directed_graphs_are_refused_alike(tmp_path):
    networkx = pytest.importorskip("networkx")
    arcs = networkx.DiGraph([("a", "b"), ("b", "c")])
    networkx.write_graphml(arcs, tmp_path / "g.graphml")
    assert "directed='symmetrize' adds the missing ones" in refusal(Graph.from_files, tmp_path / "g.graphml")
    found = Graph.from_files(tmp_path / "g.graphml", directed="symmetrize")
    assert found == Graph.from_networkx(arcs, directed="symmetrize")


class TestNotices:
    def test_what_was_understood_is_told(self, folder):
        with pytest.warns(Notice) as told:
            Graph.from_files(folder / "links.csv", folder / "nodes.csv", **CHOICES)
        words = " ".join(str(each.message) for each in told)
        for part in (
            "links.csv line 1 names the columns (since, source, target, kind, …)",
            "source 'source', target 'target', weight 'weight'; left out: 'since', 'kind'",
            "nodes.csv: node ids are in column 'id'; left out: the index",
            "column 'city' becomes 2 features",
        ):
            assert part in words

    def test_ids_in_a_column_without_a_name(self, folder):
        (folder / "e.csv").write_text("0,1\n1,2\n")
        (folder / "x.csv").write_text(",age,paper\n0,31,2\n1,44,0\n2,25,1\n")
        with pytest.warns(Notice, match="node ids are in the first column, which has no name; id= chooses"):
            assert Graph.from_files(folder / "e.csv", folder / "x.csv").node_ids == ("0", "1", "2")
        found = quietly(Graph.from_files, folder / "e.csv", folder / "x.csv", id="paper")
        assert (found.node_ids, found.feature_names) == (("2", "0", "1"), ("age",))

    def test_nothing_is_told_where_all_was_said(self, folder):
        (folder / "nodes.csv").write_text("id,age\nAnn,1\nBob,2\nCy,3\nDee,4\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            graph = Graph.from_files(
                folder / "links.csv", folder / "nodes.csv", source="source", target=3, weight="none", header=True
            )
        assert graph.num_features == 1

    def test_a_column_that_may_be_the_classes(self, folder):
        (folder / "nodes.csv").write_text("id,age,label\nAnn,1,0\nBob,2,1\nCy,3,0\nDee,4,1\n")
        with pytest.warns(Notice, match="column 'label' is taken for a feature; if it holds the classes"):
            Graph.from_files(folder / "links.csv", folder / "nodes.csv")


class TestChoices:
    def test_columns_by_number(self, folder):
        found = quietly(
            Graph.from_files, folder / "links.csv", folder / "nodes.csv",
            source=2, target="3", weight="5", id=2, label=6, parts=7, drop=["1", "4"], header=True,
        )  # fmt: skip
        assert found.feature_names == ("age", "active")
        assert found.replace(features=None) == expected().replace(features=None)

    def test_links_without_weight(self, folder):
        found = quietly(Graph.from_files, folder / "links.csv", source="source", target="target", weight="none")
        assert set(found.adjacency.data) == {1.0}

    def test_text_and_gaps_dropped(self, folder):
        (folder / "nodes.csv").write_text("id,a,b,c\nAnn,1,x,2\nBob,2,y,\nCy,3,x,4\nDee,4,y,5\n")
        given = folder / "links.csv", folder / "nodes.csv"
        found = quietly(Graph.from_files, *given, text="drop", empty="drop")
        assert (found.feature_names, found.features.tolist()) == (("a",), [[1], [2], [3], [4]])
        found = quietly(Graph.from_files, *given, text="drop", empty="fill")
        np.testing.assert_array_equal(found.features[:, 1], np.float32([2, 11 / 3, 4, 5]))

    @pytest.mark.parametrize(
        ("choices", "message"),
        [
            (
                {"label": "team", "parts": "fold"},
                "nodes.csv: column 'city' holds text such as 'Rome' in line 2 (columns={'city': 'one-hot'} or columns=",
            ),
            (
                {**CHOICES, "empty": "refuse", "drop": ["1"], "id": "id", "columns": {"city": "number"}},
                "'city' has 4 empty",
            ),
            ({"label": "taem"}, "no file has a column 'taem' (did you mean 'team'?); there are"),
            ({"source": "a", "target": "b"}, "no file has a column 'a'"),
            ({"source": "source"}, "source and target must be given together"),
            ({"source": 2, "target": 9}, "links.csv has columns 1 to 5, got 9"),
            ({**CHOICES, "parts": "city"}, "column 'city' must say train, val, test or nothing, got 'Rome'"),
            ({"text": "keep"}, "text must be one of"),
            ({"empty": "zero"}, "empty must be one of"),
            ({"label": 1.5}, "a column must be a name or a number from 1, got 1.5"),
        ],
    )
    def test_refused(self, folder, choices, message):
        assert message in refusal(Graph.from_files, folder / "links.csv", folder / "nodes.csv", **choices)

    def test_many_columns_without_names(self, folder):
        (folder / "e.csv").write_text("a,b,1,2\nb,c,1,2\n")
        assert "choose them, by name or number: source= and target=." in refusal(Graph.from_files, folder / "e.csv")
        assert quietly(Graph.from_files, folder / "e.csv", source=1, target=2).num_links == 2

    def test_names_are_not_one_hot(self, folder):
        rows = "".join(f"n{i},name {i}\n" for i in range(40))
        (folder / "x.csv").write_text("id,name\n" + rows)
        (folder / "e.csv").write_text("n0,n1\nn1,n2\n")
        message = refusal(Graph.from_files, folder / "e.csv", folder / "x.csv", text="one-hot")
        assert "column 'name' holds free text such as 'name 0' in line 2 (columns={'name': 'drop'})" in message

    def test_two_columns_of_one_name(self, folder):
        (folder / "x.csv").write_text("id,a,a\nAnn,1,2\nBob,1,2\nCy,1,2\nDee,1,2\n")
        message = refusal(Graph.from_files, folder / "links.csv", folder / "x.csv", drop="a")
        assert "has 2 columns called 'a'; choose by number: 2 or 3" in message

    def test_networkx_attributes_are_taken_when_asked_for(self):
        networkx = pytest.importorskip("networkx")
        club = networkx.karate_club_graph()
        assert Graph.from_networkx(club).labels is None
        found = Graph.from_networkx(club, label="club")
        assert [found.class_names[each] for each in found.labels] == [club.nodes[node]["club"] for node in club]
        networkx.set_node_attributes(club, {node: [node, 0.5] for node in club}, "x")
        found = Graph.from_networkx(club, label="club", attributes=["x"])
        assert (found.feature_names, found.features[3].tolist()) == (("x.0", "x.1"), [3, 0.5])
        assert "no node has the attribute 'y'; there are 'club', 'x'" in refusal(
            Graph.from_networkx, club, attributes=["y"]
        )

    @pytest.mark.parametrize("frame", [3, [(0, 1)], None, np.eye(2)])
    def test_what_is_no_frame(self, frame):
        assert "edges must be a data frame of pandas or polars, got" in refusal(Graph.from_frames, frame)


class TestSplits:
    def test_several_columns_are_masks(self, folder):
        words = [("train", "test"), ("VALIDATION", "train"), ("test", "val"), ("", "none")]
        rows = "".join(f"{node},{i % 2},{a},{b}\n" for i, (node, (a, b)) in enumerate(zip("abcd", words, strict=True)))
        (folder / "y.csv").write_text("node,kind,one,two\n" + rows)
        (folder / "e.csv").write_text("a,b\nb,c\nc,d\n")
        found = quietly(Graph.from_files, folder / "e.csv", labels=folder / "y.csv", label="kind", parts=["one", "two"])
        assert [(s.train.tolist(), s.val.tolist(), s.test.tolist()) for s in splits.masks(found)] == [
            ([0], [1], [2]),
            ([1], [2], [0]),
        ]

    @pytest.mark.parametrize("way", ["columns", "rows"])
    def test_an_archive_of_ten(self, folder, way):
        part = np.random.default_rng(0).integers(4, size=(10, 3 * 8))
        masks = {name: part == at for at, name in enumerate(("train_masks", "val_masks", "test_masks"))}
        np.savez(folder / "m.npz", **{name: mask.T if way == "columns" else mask for name, mask in masks.items()})
        (folder / "e.csv").write_text("".join(f"{i},{i + 1}\n" for i in range(23)))
        found = Graph.from_files(folder / "e.csv", parts=str(folder / "m.npz"))
        np.testing.assert_array_equal(found.masks["val"], part == 1)

    def test_one_mask_is_the_public_split(self, folder):
        np.savez(folder / "m.npz", train_mask=[1, 0, 0, 0], val_mask=[0, 1, 0, 0], test_mask=[0, 0, 1, 1])
        found = quietly(Graph.from_files, folder / "links.csv", parts=str(folder / "m.npz"))
        assert found.standard_split["test"].tolist() == [2, 3]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"train_mask": [1, 0, 0, 0]}, "must hold the masks train_mask, val_mask and test_mask"),
            ({"train": [1, 0], "val": [0, 1], "test": [0, 0]}, "for each of the 4 nodes"),
            ({"train": [2, 0, 0, 0], "val": [0] * 4, "test": [0] * 4}, "must be true or false"),
            ({"train": ["a"] * 4, "val": [0] * 4, "test": [0] * 4}, "must be true or false"),
            ({"train": [1, 0, 0, 0], "val": [1, 0, 0, 0], "test": [0] * 4}, "masks must not overlap"),
        ],
    )
    def test_archive_refused(self, folder, arrays, message):
        np.savez(folder / "m.npz", **{name: np.array(array) for name, array in arrays.items()})
        assert message in refusal(Graph.from_files, folder / "links.csv", parts=str(folder / "m.npz"))


class TestEdgeLists:
    @pytest.mark.parametrize("delimiter", [" ", "\t", ","])
    @pytest.mark.parametrize("attributes", [{}, {"weight": 2.5}, {"color": "a, b", "weight": 2.5}])
    def test_as_networkx_writes_them(self, tmp_path, delimiter, attributes):
        networkx = pytest.importorskip("networkx")
        graph = networkx.Graph()
        graph.add_edge("a", "b", **attributes)
        graph.add_edge("b", "c", **attributes)
        networkx.write_edgelist(graph, tmp_path / "g.edgelist", delimiter=delimiter)
        found = quietly(Graph.from_files, tmp_path / "g.edgelist")
        assert found.node_ids == ("a", "b", "c")
        assert set(found.adjacency.data) == {attributes.get("weight", 1.0)}

    def test_weighted_and_compressed(self, tmp_path):
        networkx = pytest.importorskip("networkx")
        club = networkx.karate_club_graph()
        networkx.write_weighted_edgelist(club, tmp_path / "club.edgelist.gz")
        found = Graph.from_files(tmp_path / "club.edgelist.gz")
        np.testing.assert_array_equal(found.adjacency.toarray(), networkx.to_numpy_array(club))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a b {}\nb c\n", "line 2: a link is two node ids and its attributes in braces"),
            ("a b {}\nb c {'weight': 1}\n", "line 2: attribute 'weight' is not among those of the first link (none)"),
            ("a b {'w': open('x')}\n", "line 1: the attributes in braces cannot be read"),
            ("a b {" + "(" * 5000 + "}\n", "line 1: the attributes in braces cannot be read"),
            ("a b {'w': '" + "x" * 20_000 + "'}\n", "attributes must have at most 10000 characters"),
            ("a b {1, 2}\n", "line 1: the attributes in braces cannot be read"),
        ],
    )
    def test_refused(self, tmp_path, content, message):
        (tmp_path / "g.txt").write_text(content)
        assert message in refusal(Graph.from_files, tmp_path / "g.txt")


class TestHostile:
    def test_what_unpacks_to_more_than_the_limit(self, monkeypatch, tmp_path):
        monkeypatch.setattr("fishergcn.graph._formats._source._LARGEST_FILE", 1000)
        (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b"a,b\n" * 1000))
        assert "GiB as text, and has more" in refusal(Graph.from_files, tmp_path / "e.csv.gz")

    @pytest.mark.parametrize("name", ["e.csv.gz", "e.parquet", "e.feather", "e.graphml", "e.parquet.gz"])
    @pytest.mark.parametrize(
        "content", [b"", b"a,b\n", b"PAR1" * 9, b"ARROW1\0\0" * 4, b"<graphml>", b"\x1f\x8b\x08\0" * 4]
    )
    def test_what_is_not_what_it_is_called(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        assert name in refusal(Graph.from_files, tmp_path / name)

    def test_entities_are_refused(self, tmp_path):
        (tmp_path / "g.graphml").write_text('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><graphml>&b;</graphml>')
        assert "must not declare a document type or entities" in refusal(Graph.from_files, tmp_path / "g.graphml")

    def test_one_value_for_a_billion_rows(self, tmp_path, monkeypatch):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        column = arrow.array(["a"] * 2_000_000)
        parquet.write_table(arrow.table({"source": column, "target": column}), str(tmp_path / "e.parquet"))
        assert (tmp_path / "e.parquet").stat().st_size < 20_000
        monkeypatch.setattr("fishergcn._base.memory.free_memory", lambda: 100 << 20)
        assert "needs about" in refusal(Graph.from_files, tmp_path / "e.parquet")

    def test_no_columns(self, tmp_path):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({}), str(tmp_path / "e.parquet"))
        assert "e.parquet holds no links" in refusal(Graph.from_files, tmp_path / "e.parquet")

    def test_nested_columns(self, tmp_path):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"source": ["a"], "target": [["b"]]}), str(tmp_path / "e.parquet"))
        assert "column 'target' must hold a number or a text in each row" in refusal(
            Graph.from_files, tmp_path / "e.parquet"
        )

    def test_wide_tables_stay_numbers(self, tmp_path):
        """What is not one-hot is not kept as text: a sparse matrix would take less, but text ten times as much."""
        features = sparse.random_array((50, 200), density=0.1, rng=np.random.default_rng(0)).toarray()
        np.savetxt(tmp_path / "x.csv", np.column_stack([np.arange(50), features]), delimiter=",", fmt="%.17g")
        (tmp_path / "e.csv").write_text("0,1\n1,2\n")
        np.testing.assert_array_equal(
            Graph.from_files(tmp_path / "e.csv", tmp_path / "x.csv").features, features.astype(np.float32)
        )


class TestFillFrom:
    """Gaps of new nodes are filled with what the columns were in training."""

    known = Graph.from_edges([(0, 1)], features=[[1.0, 5.0], [3.0, 9.0]], feature_names=["age", "pay"])

    @staticmethod
    def read(folder, nodes, **choices):
        (folder / "l.csv").write_text("Ann,Bob\nBob,Cy\n")
        (folder / "n.csv").write_text(nodes)
        return quietly(Graph.from_files, folder / "l.csv", folder / "n.csv", empty="fill", **choices)

    def test_by_name_whatever_the_order(self, folder):
        found = self.read(folder, "id,pay,age\nAnn,1,\nBob,,70\nCy,2,80\n", fill_from=self.known)
        assert found.features.tolist() == [[1, 2], [7, 70], [2, 80]]
        assert self.read(folder, "id,pay,age\nAnn,1,\nBob,,70\nCy,2,80\n").features.tolist()[0] == [1, 75]

    def test_by_number_without_names(self, folder):
        found = self.read(folder, "Ann,1,\nBob,,70\nCy,2,80\n", fill_from=self.known)
        assert found.features.tolist() == [[1, 7], [2, 70], [2, 80]]

    def test_a_column_without_any_number(self, folder):
        found = self.read(folder, "id,age,pay\nAnn,,1\nBob,,2\nCy,,3\n", fill_from=self.known)
        assert (found.feature_names, found.features[:, 0].tolist()) == (("age", "pay"), [2, 2, 2])

    def test_the_notice_says_whose_mean(self, folder):
        (folder / "l.csv").write_text("Ann,Bob\n")
        (folder / "n.csv").write_text("id,age,pay\nAnn,,1\nBob,5,2\n")
        with pytest.warns(Notice, match=r"1 empty cell\(s\) of column 'age' are filled with its mean in training, 2\."):
            Graph.from_files(
                folder / "l.csv", folder / "n.csv", header=["features"], empty="fill", fill_from=self.known
            )

    def test_a_filled_column_keeps_its_mean(self, folder):
        rows = "".join(f"n{at},{'' if at % 3 == 0 else 0.1 * at**2}\n" for at in range(60))
        (folder / "l.csv").write_text("n1,n2\n")
        (folder / "n.csv").write_text("id,x\n" + rows)
        first = quietly(Graph.from_files, folder / "l.csv", folder / "n.csv", empty="fill")
        (folder / "n.csv").write_text("id,x\nn1,\nn2,1000\n")
        again = quietly(Graph.from_files, folder / "l.csv", folder / "n.csv", empty="fill", fill_from=first)
        assert again.features[0, 0] == pytest.approx(first.features[0, 0], rel=1e-7)

    def test_anything_else_is_refused(self, folder):
        assert refusal(self.read, folder, "id,age\nAnn,1\nBob,2\nCy,3\n", fill_from=[1.0]) == (
            "fill_from must be a Graph, got list."
        )


def test_values_of_frames_are_cells() -> None:
    import pyarrow

    links = pyarrow.table({"source": ["a ", "b"], "target": ["b", "c"]})
    nodes = pyarrow.table({"id": ["a", "b", "c"], "x": [3.0, 0.1, None], "flag": [True, False, True]})
    found = quietly(Graph.from_frames, links, nodes, empty="drop")
    assert found.node_ids == ("a", "b", "c")
    assert found.feature_names == ("flag",)
    assert found.features.tolist() == [[1], [0], [1]]
    numbered = Graph.from_frames(pyarrow.table({"source": [1.0, 2.0], "target": [2.0, 3.0]}))
    assert numbered.node_ids == ("1", "2", "3")
