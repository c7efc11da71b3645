"""Graphs from text files, as people have them: and every refusal gives file and line in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn.errors import DataFileError, InputError, Notice
from fishergcn.graph import Graph


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def links(graph):
    """Return the links as a set of (id, id, weight) with the ids in order."""
    upper = sparse.triu(graph.adjacency).tocoo()
    ends = zip(upper.row, upper.col, upper.data, strict=True)
    return {(*sorted((graph.node_ids[i], graph.node_ids[j])), float(weight)) for i, j, weight in ends}


def refusal(**arguments):
    """Return the message, after checking that it is one sentence on one line."""
    with pytest.raises(DataFileError) as caught:
        Graph.from_files(**arguments)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


class TestLinks:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("e.csv", "a,b\nb,c\n"),
            ("e.csv", "a,b\nb,c"),
            ("e.csv", "\ufeffa,b\r\nb,c\r\n"),
            ("e.csv", "a,b\rb,c\r"),
            ("e.csv", "\n a , b \n\n b,c\n,\n\n"),
            ("e.csv", "a;b\nb;c\n"),
            ("e.csv", '"a","b"\n"b","c"\n'),
            ("e.csv", "a,b\nb,c\nc,b\na,b\n"),
            ("e.tsv", "a\tb\nb\tc\n"),
            ("e.txt", "a\tb\nb\tc\n"),
            ("e.txt", "a b\nb   c \n"),
            ("e.txt", "# made by hand, twice\n# node node\na b\nb c\n"),
            ("e.edges", "% sym unweighted\na b\nb c\n"),
        ],
    )
    def test_every_dialect_gives_the_same_graph(self, file, name, content):
        graph = Graph.from_files(file(name, content))
        assert links(graph) == {("a", "b", 1.0), ("b", "c", 1.0)}

    def test_ids_with_umlauts_blanks_and_delimiters(self, file):
        graph = Graph.from_files(file("e.csv", 'Jörg Müller,"Doe, Jane"\n"Doe, Jane",李 明\n'))
        assert links(graph) == {("Doe, Jane", "Jörg Müller", 1.0), ("Doe, Jane", "李 明", 1.0)}

    def test_hashtags_are_nodes_not_comments(self, file):
        assert links(Graph.from_files(file("e.csv", "#a,#b\n#b,#c\n"))) == {
            ("#a", "#b", 1.0),
            ("#b", "#c", 1.0),
        }

    def test_integer_ids_with_gaps_are_ordered_by_value(self, file):
        graph = Graph.from_files(file("e.csv", "100,9\n9,10000000000000000000000\n"))
        assert graph.node_ids == ("9", "100", "10000000000000000000000")
        assert graph.num_nodes == 3

    def test_very_long_numeric_ids(self, file):
        assert Graph.from_files(file("e.csv", f"{'1' * 5000},2\n")).node_ids[0] == "2"

    def test_leading_zeros_are_text(self, file):
        assert Graph.from_files(file("e.csv", "01,1\n1,2\n")).node_ids == ("01", "1", "2")

    def test_weights(self, file):
        graph = Graph.from_files(file("e.csv", "a,b,0.5\nb,c,2e1\nc,b,20\n"))
        assert links(graph) == {("a", "b", 0.5), ("b", "c", 20.0)}

    def test_header_is_skipped_when_announced(self, file):
        path = file("e.csv", "source,target,weight\na,b,1\nb,c,2\n")
        for header in (True, ["edges"], "edges"):
            assert Graph.from_files(path, header=header).node_ids == ("a", "b", "c")

    @pytest.mark.parametrize(
        "content",
        [
            "source,target\na,b\n",
            "Source,Target\n1,2\n",
            "von,nach\n1,2\n2,3\n",
            "kunde1,kunde2\n1,2\n2,3\n",
            "von,nach\nk1,k2\nk2,k3\n",
            "person,friend,strength\na,b,1\n",
            "# notes\nFromNodeId\tToNodeId\nx\ty\n",
            "node_1,node_2\nx,y\n",
        ],
    )
    def test_header_nobody_announced(self, file, content):
        path = file("e.csv", content)
        with pytest.warns(
            Notice, match=rf"e.csv line {2 if content.startswith('#') else 1} names the columns \(.*header=False if"
        ):
            graph = Graph.from_files(path)
        rows = content.splitlines()[1 + content.startswith("#") :]
        assert graph.num_links == len(rows)
        assert not {*graph.node_ids} & {*content.splitlines()[content.startswith("#")].replace("\t", ",").split(",")}
        assert Graph.from_files(path, header="edges") == graph  # the same, and no notice
        if "strength" in content:
            assert "cell 3 must be a number, got 'strength'" in refusal(edges=path, header=False)
        else:
            assert Graph.from_files(path, header=False).num_nodes == graph.num_nodes + 2

    @pytest.mark.parametrize("content", ["u,v\nv,w\n", "a,b\n1,2\n2,x\n", "x,1\n2,3\n", "a,b\n"])
    def test_no_header_is_seen_where_there_is_none(self, file, content):
        assert Graph.from_files(file("e.csv", content)).num_links == len(content.splitlines())

    @pytest.mark.parametrize(
        ("edges", "labels"),
        [
            ("member,friend\nAnn,Bob\nBob,Cy\n", "member,section\nAnn,chess\nBob,chess\n"),
            ("kunde,anbieter\nAnn,Bob\nBob,Cy\n", "kunde,sektion\nAnn,chess\nBob,chess\n"),
            ("kunde,anbieter\nk1,k2\nk2,k3\n", "kunde,sektion\nk1,chess\nk2,chess\n"),
        ],
    )
    def test_headers_of_links_and_labels_without_features(self, file, edges, labels):
        given = {"edges": file("e.csv", edges), "labels": file("y.csv", labels)}
        announced = Graph.from_files(**given, header=True)
        assert announced.num_nodes == 3
        with pytest.warns(Notice) as told:
            assert Graph.from_files(**given) == announced
        assert [str(each.message).split(" names")[0].rpartition("/")[2] for each in told] == [
            "e.csv line 1",
            "y.csv line 1",
        ]
        assert Graph.from_files(**given, header=[]).num_nodes == 5
        with pytest.warns(Notice, match="e.csv line 1"):  # what the header of the labels says is remembered
            assert Graph.from_files(**given, header="labels") == announced

    @pytest.mark.parametrize(
        ("edges", "labels"),
        [
            ("Ann,Bob\nCy,Dee\nDee,Eve\n", None),  # a pair without other links
            ("Ann,Bob\nCy,Dee\nDee,Eve\n", "Ann,x\nBob,y\nCy,x\n"),
            ("Ann,Bob\nCy,Dee\nDee,Eve\n", "Ann,x\nCy,x\nDee,y\n"),
            ("Ann,Bob\nCy,Dee\nDee,Eve\n", "Cy,x\nDee,y\n"),
            ("Ann,Bob\nn1,n2\nn2,n3\n", "n1,x\nBob,y\n"),
            ("7,8\n1,2\n2,3\n", "7,x\n1,y\n"),
            ("source,sink\nCy,Dee\nDee,Eve\n", "Cy,x\nsource,y\n"),
        ],
    )
    def test_a_pair_apart_is_no_header(self, file, edges, labels):
        given = {} if labels is None else {"labels": file("y.csv", labels)}
        assert Graph.from_files(file("e.csv", edges), **given).num_links == 3

    def test_all_headers_are_named_at_once(self, file):
        edges = file("e.csv", "kunde,anbieter\nAnn,Bob\nBob,Cy\n")
        features = file("x.csv", "kunde,umsatz\nAnn,1\nBob,2\nCy,3\n")
        labels = file("y.csv", "kunde,sektion\nAnn,chess\nBob,chess\nCy,go\n")
        announced = Graph.from_files(edges, features, labels, header=True)
        assert announced.feature_names == ("umsatz",)
        for header in (None, ["features"], ["features", "labels"], ["edges", "features"]):
            with pytest.warns(Notice, match="names the columns") as told:
                assert Graph.from_files(edges, features, labels, header=header) == announced
            assert len(told) == 3 - len(header or ())

    def test_only_what_looks_like_a_header_is_to_be_announced(self, file):
        edges = file("e.csv", "Ann,Bob\nBob,Cy\n")
        features = file("x.csv", "kunde,umsatz\nAnn,1\nBob,2\nCy,3\n")
        labels = file("y.csv", "Ann,chess\nBob,chess\nCy,go\n")
        with pytest.warns(Notice, match=r"x.csv line 1 names the columns \(kunde, umsatz\)") as told:
            graph = Graph.from_files(edges, features, labels)
        assert len(told) == 1
        assert graph.labels.tolist() == [0, 0, 1]

    def test_words_that_have_features_are_nodes(self, file):
        features = file("x.csv", "source,1\ntarget,2\nAnn,3\nBob,4\n")
        assert Graph.from_files(file("e.csv", "source,target\nAnn,Bob\n"), features).num_links == 2

    def test_self_links_by_choice(self, file):
        path = file("e.csv", "a,a\na,b\n")
        assert Graph.from_files(path).num_self_links == 1
        assert Graph.from_files(path, self_links="drop").num_self_links == 0

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "e.csv holds no links"),
            ("\n\n", "e.csv holds no links"),
            ("# only a comment\n", "e.csv holds no links"),
            ("a\n", "line 1: a link is two node ids, maybe a weight, not 1 cell"),
            ("a b\nb c\n", "not 1 cell(s); cells are separated by commas, semicolons or tabs"),
            ("a,b,1,x\n", "line 1: a link is two node ids, maybe a weight, not 4 cell"),
            ("a,b\n\nb,c,1\n", "line 3: expected 2 cells as in the lines before, got 3"),
            ("a,b\nb,\n", "line 2: a node id is empty"),
            ("a,b,1\nb,c,x\n", "line 2: cell 3 must be a number, got 'x'"),
            ("a,b,1\nb,c,\n", "line 2: cell 3 must be a number, got an empty cell"),
            ("a,b,1\nb,c,nan\n", "line 2 must have a positive, finite weight, got nan"),
            ("a,b,1\nb,c,0\n", "line 2 must have a positive, finite weight, got 0"),
            ("a,b,1\nb,c,-2\n", "line 2 must have a positive, finite weight, got -2"),
            ("a;b;1,234\n", "line 1: cell 3 must be a number, got '1,234'"),
            ("a;b;0,5\nb;c;0.7\nc;d;1,5\n", "line 1: cell 3 must be a number, got '0,5'"),
            ("a,b,1\nb,c,1\n\nb,a,2\n", "lines 1 and 4 give one link different weights, 1 and 2"),
            ("a,b,1\na,b,2\n", "directed='symmetrize' keeps the larger"),
            ("a,a\n", "e.csv must name at least 2 nodes, got 1"),
            ('a,"b\nc,d\n', "the quoting or a cell is broken"),
            (b"a,b\nJ\xf6rg,b\n", "line 2: the file must be UTF-8 text, got byte 0xf6"),
            ("a,b\n".encode("utf-16-le"), "line 1: the file must be UTF-8 text, got UTF-16 without a byte-order mark"),
            ("a,b\n".encode("utf-16") + b"\x00", "begins as UTF-16, and is damaged"),
            (b"PK\x03\x04\x14\x00\x06\x00", "got a workbook or another archive: save the sheet as CSV"),
            (b"\x00\x01\x02\x03", "line 1: the file must be UTF-8 text, got binary data"),
            (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "must be UTF-8 text"),
        ],
    )
    def test_refused(self, file, content, message):
        got = refusal(edges=file("e.csv", content))
        assert message in got
        assert "e.csv" in got

    def test_missing_file_and_folder(self, tmp_path):
        assert "no.csv does not exist" in refusal(edges=tmp_path / "no.csv")
        assert "must be a file, but it is a folder" in refusal(edges=tmp_path)

    def test_arcs(self, file):
        path = file("e.csv", "a,b,1\nb,a,3\nb,c,1\n")
        assert links(Graph.from_files(path, directed="symmetrize")) == {("a", "b", 3.0), ("b", "c", 1.0)}
        assert "line 1 has no reverse arc of equal weight" in refusal(edges=path, directed="refuse")
        with pytest.raises(InputError, match="directed must be one of"):
            Graph.from_files(path, directed="both")

    @given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=5)), min_size=1))
    @settings(max_examples=50)
    def test_any_text_is_read_or_refused_in_one_sentence(self, tmp_path_factory, pairs):
        path = tmp_path_factory.mktemp("any") / "e.csv"
        path.write_text("\n".join(",".join(pair) for pair in pairs), encoding="utf-8", errors="replace", newline="")
        message = ""
        try:
            assert Graph.from_files(path).num_nodes >= 2
        except DataFileError as error:
            message = str(error)
        assert "\n" not in message


class TestFeatures:
    edges = "a,b\nb,c\n"

    def test_they_fix_nodes_and_order(self, file):
        graph = Graph.from_files(file("e.csv", self.edges), file("x.csv", "c,1,2\nz,3,4\na,5,6\nb,7,8\n"))
        assert graph.node_ids == ("c", "z", "a", "b")
        np.testing.assert_array_equal(graph.features, [[1, 2], [3, 4], [5, 6], [7, 8]])
        assert graph.num_components == 2

    def test_header(self, file):
        table = file("x.csv", "id,f1,f2\na,1,2\nb,1,2\nc,1,2\n")
        graph = Graph.from_files(file("e.csv", self.edges), table, header=["features"])
        assert graph.node_ids == ("a", "b", "c")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a,1,2\nb,1\nc,1,2\n", "x.csv line 2: expected 3 cells as in the lines before, got 2"),
            ("a,1,2\nb,1,\nc,1,2\n", "x.csv: column '3' has 1 empty cell(s), the first in line 2 (empty='fill'"),
            ("a,1,2\nb,1,x\nc,1,2\n", "x.csv: column '3' holds text among its numbers, such as 'x' in line 2 ("),
            ("a,1\nb,inf\nc,1\n", "x.csv: column '2' must be finite in float32, got 'inf' in line 2"),
            ("a,1\nb,1e39\nc,1\n", "x.csv: column '2' must be finite in float32, got '1e39' in line 2"),
            ("a,1\nb,2\na,1\nc,3\n", "x.csv line 3: node 'a' has a row in line 1 already"),
            ("a,1\n,2\n", "x.csv line 2: the node id is empty"),
            ("a\nb\n", "x.csv line 1: a node needs its id and at least one number"),
            ("", "x.csv holds no nodes"),
            ("a,1\n", "x.csv must name at least 2 nodes, got 1"),
            ("a,1\nb,2\n", "e.csv line 2: node 'c' has no row in"),
        ],
    )
    def test_refused(self, file, content, message):
        assert message in refusal(edges=file("e.csv", self.edges), features=file("x.csv", content))

    @pytest.mark.parametrize(
        ("content", "names"),
        [
            ("id,f1\n1,1\n2,1\n3,1\n", ("f1",)),
            ("id,0,1\n1,1,2\n2,1,2\n3,1,2\n", ("0", "1")),
            ("paper,1999,2000\n1,1,2\n2,1,2\n3,1,2\n", ("1999", "2000")),
        ],
    )
    def test_a_header_nobody_announced(self, file, content, names):
        with pytest.warns(Notice, match="x.csv line 1 names the columns"):
            graph = Graph.from_files(file("e.csv", "1,2\n2,3\n"), file("x.csv", content))
        assert (graph.node_ids, graph.feature_names) == (("1", "2", "3"), names)

    @pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csc_matrix])
    def test_sparse_archive(self, tmp_path, file, convert):
        dense = np.array([[0, 1.5], [2, 0], [0, 0]], dtype=np.float32)
        sparse.save_npz(tmp_path / "x.npz", convert(dense))
        graph = Graph.from_files(file("e.csv", "0,1\n1,2\n"), tmp_path / "x.npz")
        np.testing.assert_array_equal(graph.features.toarray(), dense)

    def test_dense_archive(self, tmp_path, file):
        dense = np.arange(6.0).reshape(3, 2)
        np.savez_compressed(tmp_path / "x.npz", x=dense, note=np.array(3))
        graph = Graph.from_files(file("e.csv", "0,1\n1,2\n"), tmp_path / "x.npz")
        np.testing.assert_array_equal(graph.features, dense)
        assert graph.node_ids == ("0", "1", "2")

    def test_archive_with_too_few_rows(self, tmp_path, file):
        np.savez(tmp_path / "x.npz", x=np.ones((2, 2)))
        message = refusal(edges=file("e.csv", "0,1\n1,2\n"), features=tmp_path / "x.npz")
        assert "e.csv line 2: node '2' has no row in" in message

    @pytest.mark.parametrize(
        "arrays",
        [
            {},
            {"a": np.ones((2, 2)), "b": np.ones((2, 2))},
            {"a": np.ones(3)},
            {"data": 1, "indices": 1, "indptr": 1, "shape": 1, "format": np.array(b"csr")},
            {"data": [1.0], "indices": [9], "indptr": [0, 1, 1], "shape": [2, 2], "format": np.array("csr")},
            {"data": [1.0], "indices": [0], "indptr": [0, 9, 1], "shape": [2, 2], "format": np.array("csr")},
            {"data": [1.0], "indices": [0], "indptr": [0, 1, 1], "shape": [2, 2], "format": np.array("bsr")},
            {"data": [1.0], "indices": [0], "indptr": [0, 1, 1], "shape": [2, 2], "format": np.ones((2, 2))},
        ],
    )
    def test_archive_refused(self, tmp_path, file, arrays):
        np.savez(tmp_path / "x.npz", **arrays)
        assert "x.npz" in refusal(edges=file("e.csv", "0,1\n"), features=tmp_path / "x.npz")


class TestLabels:
    edges = "a,b\nb,c\nc,d\n"

    def test_classes_are_numbered_by_name(self, file):
        graph = Graph.from_files(file("e.csv", self.edges), labels=file("y.csv", "d,Öl\na,zinc\nb,Öl\n"))
        assert graph.class_names == ("zinc", "Öl")
        np.testing.assert_array_equal(graph.labels, [0, 1, -1, 1])

    def test_numeric_classes_are_ordered_by_value(self, file):
        graph = Graph.from_files(file("e.csv", self.edges), labels=file("y.csv", "a,10\nb,9\nc,10\nd,-1\n"))
        assert graph.class_names == ("9", "10")
        np.testing.assert_array_equal(graph.labels, [1, 0, 1, -1])

    def test_empty_class_is_unknown_and_repetition_is_fine(self, file):
        graph = Graph.from_files(file("e.csv", self.edges), labels=file("y.csv", "a,x\nb,\na,x\n"))
        np.testing.assert_array_equal(graph.labels, [0, -1, -1, -1])

    def test_header(self, file):
        path = file("y.csv", "node,class\na,x\n")
        assert Graph.from_files(file("e.csv", self.edges), labels=path, header="labels").class_names == ("x",)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("knoten,sorte\na,x\n", "y.csv line 1: node 'knoten' is not in the graph; if the line is a header"),
            ("a,x\nq,x\n", "y.csv line 2: node 'q' is not in the graph."),
            ("a,x\nb\n", "y.csv line 2: a label is a node id and a class, got 1 cell"),
            ("a,x,y\n", "y.csv line 1: a label is a node id and a class, got 3 cell"),
            ("a,x\na,y\n", "y.csv line 2: node 'a' has two classes, 'x' and 'y'"),
            ("a,\n", "y.csv holds no labels"),
            ("", "y.csv holds no labels"),
        ],
    )
    def test_refused(self, file, content, message):
        assert message in refusal(edges=file("e.csv", self.edges), labels=file("y.csv", content))


def test_unknown_header_kind(file):
    with pytest.raises(InputError, match="all, none or some of edges, features, labels, got 'edge'"):
        Graph.from_files(file("e.csv", "a,b\n"), header=["edge"])


def test_arguments_pass_through(file):
    graph = Graph.from_files(file("e.csv", "a,b\n"), name="mine")
    assert graph.name == "mine"


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("id,height,weight", ("height", "weight")),
        ("height,weight", ("height", "weight")),  # nothing above the node ids, as data frames write it
        ("id,height,height", None),
        ("id,height,", ("height", "3")),  # called by its place
        ("a table of members", None),
    ],
)
def test_a_header_names_the_features(tmp_path, head, names):
    (tmp_path / "links.csv").write_text("a,b\n")
    (tmp_path / "nodes.csv").write_text(f"{head}\na,1,2\nb,3,4\n")
    graph = Graph.from_files(tmp_path / "links.csv", tmp_path / "nodes.csv", header=["features"])
    assert graph.feature_names == names
    assert graph.features.tolist() == [[1, 2], [3, 4]]
