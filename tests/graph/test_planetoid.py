from __future__ import annotations

import collections
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fishergcn.errors import DataFileError, InputError
from fishergcn.graph import Graph
from fishergcn.graph._formats import _unpickle

TRAIN, KNOWN, NODES = 4, 510, 520
TEST = [519, 512, 510, 515]  # 511, 513, 514, 516, 517 and 518 are in no file
PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph")


def contents():
    """A graph in Planetoid's parts: a ring of 520 nodes with one self-link and links listed from one end."""
    generator = np.random.default_rng(5)
    values = generator.random((KNOWN + len(TEST), 7), dtype=np.float32)
    matrix = sparse.csr_matrix(np.where(values < 0.4, values, 0))
    labels = np.eye(3, dtype=np.int32)[generator.integers(3, size=KNOWN + len(TEST))]
    graph = collections.defaultdict(list, {node: [(node + 1) % NODES] for node in range(NODES)})
    graph[3].append(3)
    graph[8].append(7)
    return {
        "x": matrix[:TRAIN],
        "y": labels[:TRAIN],
        "allx": matrix[:KNOWN],
        "ally": labels[:KNOWN],
        "tx": matrix[KNOWN:],
        "ty": labels[KNOWN:],
        "graph": graph,
        "test.index": "".join(f"{node}\n" for node in TEST),
    }


def write(folder: Path, parts) -> Path:
    for part, value in parts.items():
        data = value.encode() if isinstance(value, str) else pickle.dumps(value, protocol=4)
        (folder / f"ind.toy.{part}").write_bytes(value if isinstance(value, bytes) else data)
    return folder


@pytest.fixture
def toy(tmp_path):
    return write(tmp_path, contents())


def refused(folder, part, value, match):
    write(folder, {part: value})
    with pytest.raises(DataFileError, match=match) as caught:
        Graph.from_planetoid(folder, "toy")
    assert f"ind.toy.{part}" in str(caught.value) or f".{part}" in str(caught.value)
    return str(caught.value)


def test_reads_every_part(toy):
    graph, parts = Graph.from_planetoid(toy, "toy"), contents()
    assert graph.name == "toy"
    assert (graph.num_nodes, graph.num_links, graph.num_self_links) == (NODES, NODES, 1)
    assert (graph.adjacency.data == 1).all()
    assert graph.adjacency[7, 8] == graph.adjacency[8, 7] == graph.adjacency[519, 0] == 1
    features = graph.features.toarray()
    assert np.array_equal(features[:KNOWN], parts["allx"].toarray())
    assert np.array_equal(features[TEST], parts["tx"].toarray())
    assert np.array_equal(graph.labels[:KNOWN], parts["ally"].argmax(1))
    assert np.array_equal(graph.labels[TEST], parts["ty"].argmax(1))
    absent = [511, 513, 514, 516, 517, 518]
    assert (graph.labels[absent] == -1).all()
    assert not features[absent].any()
    split = {part: nodes.tolist() for part, nodes in graph.standard_split.items()}
    assert split == {"train": [0, 1, 2, 3], "val": list(range(4, 504)), "test": [510, 512, 515, 519]}


def test_plain_dict_and_protocol_3_are_read_alike(toy):
    digest = Graph.from_planetoid(toy, "toy").digest
    parts = contents()
    parts["graph"] = dict(parts["graph"])
    for part in PARTS:
        (toy / f"ind.toy.{part}").write_bytes(pickle.dumps(parts[part], protocol=3))
    assert Graph.from_planetoid(toy, "toy").digest == digest


def python_2_array(code: bytes, order: bytes, shape: tuple[int, int], raw: bytes, fortran: bool = False) -> bytes:
    """An array as cPickle of Python 2 wrote it: protocol 2, bytes as a string."""
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87R"
        b"(K\x01K" + bytes([shape[0]]) + b"K" + bytes([shape[1]]) + b"\x86"
        b"cnumpy\ndtype\nU\x02" + code + b"K\x00K\x01\x87R(K\x03U\x01" + order
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + (b"\x88" if fortran else b"\x89") + b"T" + struct.pack("<i", len(raw)) + raw + b"tb."
    )  # fmt: skip


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("code", ["i4", "f8", "u2"])
def test_python_2_arrays_are_read(tmp_path, code, order, fortran):
    expected = np.array([[0, 1, 200], [255, 13, 10]], dtype=order + code)
    path = tmp_path / "array"
    path.write_bytes(
        python_2_array(code.encode(), order.encode(), (2, 3), expected.tobytes("F" if fortran else "C"), fortran)
    )
    found = _unpickle.read_array(path)
    assert found.dtype == np.dtype(code)
    assert np.array_equal(found, expected)


class Call:
    """Pickles as a call of ``function``."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def payloads(marker: Path):
    touch, code = f"touch {marker}", f"open({str(marker)!r}, 'w').close()"
    system = Call(os.system, touch)
    poisoned = sparse.csr_matrix(np.eye(2))
    poisoned.__dict__["extra"] = system
    yield "system", pickle.dumps(system, 2), "system"
    yield "system, text protocol", pickle.dumps(system, 0), "system"
    yield "system, protocol 5", pickle.dumps(system, 5), "system"
    yield "eval", pickle.dumps(Call(eval, code), 2), r"__builtin__\.eval"
    yield "exec", pickle.dumps(Call(exec, code), 4), r"builtins\.exec"
    yield "open", pickle.dumps(Call(open, str(marker), "w"), 4), r"io\.open|_io"
    yield "getattr", pickle.dumps(Call(getattr, Call(__import__, "os"), "system"), 2), "getattr"
    yield "dotted name", b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.", r"numpy\.dtype\.__init__"
    yield "nested in a list", pickle.dumps({0: [1, [system]]}, 2), "system"
    yield "nested in a matrix", pickle.dumps(poisoned, 4), "system"
    yield "inside an object array", pickle.dumps(np.array([system], dtype=object), 4), "system"
    yield "default of a dict", pickle.dumps(collections.defaultdict(os.getcwd), 2), "getcwd"
    yield "instance opcode", b"(S'" + touch.encode() + b"'\nios\nsystem\n.", r"os\.system"
    yield "numpy that runs code", b"\x80\x02cnumpy.testing._private.utils\nrunstring\n.", "runstring"
    yield "numpy loader", b"\x80\x02cnumpy\nload\n.", r"numpy\.load"


@pytest.mark.parametrize("part", ["x", "y", "graph"])
def test_code_is_refused_and_not_run(toy, tmp_path, part):
    marker = tmp_path / "it-ran"
    for _, payload, named in payloads(marker):
        message = refused(toy, part, payload, named)
        assert "nothing in it was run" in message
        assert not marker.exists()


def test_the_payloads_would_run_elsewhere(tmp_path):
    marker = tmp_path / "it-ran"
    for label, payload, _ in payloads(marker):
        if label.startswith(("system", "eval", "exec", "open", "instance", "inside", "nested")):
            pickle.loads(payload)
            assert marker.exists(), label
            marker.unlink()


@pytest.mark.parametrize(
    ("payload", "match"),
    [
        (b"\x80\x02P1\n.", "opcode PERSID"),
        (b"\x80\x02\x82\x01.", "opcode EXT1"),
        (b"\x80\x02(o.", "opcode OBJ"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "2147483647 places"),
        (b"\x80\x02)" + b"\x85" * 2000 + b".", "2000 tuples"),
        (b"\x80\x02B\xff\xff\xff\x7fabc.", "damaged"),
        (b"\x80\x02T\xff\xff\xff\x7fabc.", "damaged"),
        (b"\x80\x63.", "damaged"),
        (b"", "damaged"),
        (b"plain text", "damaged|opcode"),
        (b"\x80\x02R.", "damaged"),
    ],
)
def test_hostile_or_broken_pickles_are_refused(toy, payload, match):
    refused(toy, "x", payload, match)


@pytest.mark.parametrize("name", ["dtype", "ndarray"])
def test_stand_ins_cannot_be_altered_by_a_file(toy, name):
    """BUILD on a class would set its attributes: state = (None, {"__setstate__": None})."""
    poison = f"\x80\x02cnumpy\n{name}\nN}}U\x0c__setstate__Ns\x86b.".encode("latin1")
    refused(toy, "x", poison, "damaged")
    write(toy, contents())
    assert Graph.from_planetoid(toy, "toy").num_nodes == NODES


@pytest.mark.parametrize("part", PARTS)
def test_truncated_files_are_refused(toy, part):
    data = (toy / f"ind.toy.{part}").read_bytes()
    for length in (1, len(data) // 2, len(data) - 1):
        refused(toy, part, data[:length], "damaged")


@pytest.mark.parametrize("part", [*PARTS, "test.index"])
def test_missing_files_are_named(toy, part):
    (toy / f"ind.toy.{part}").unlink()
    with pytest.raises(DataFileError, match=rf"ind\.toy\.{part} does not exist or is not a file"):
        Graph.from_planetoid(toy, "toy")


def test_large_files_are_refused_before_reading(toy):
    with open(toy / "ind.toy.x", "wb") as file:
        file.truncate(_unpickle.MAX_FILE_BYTES + 1)  # sparse: takes no room on the disk
    with pytest.raises(DataFileError, match="at most 1073741824 bytes"):
        Graph.from_planetoid(toy, "toy")


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.array([[1, None]], dtype=object), "plain numbers"),
        (np.array([["a"]]), "plain numbers"),
        (np.array([[1j]]), "plain numbers"),
        (np.zeros(2, dtype=[("a", "i4")]), "plain numbers"),
        (np.zeros((2, 2), dtype="M8[s]"), "plain numbers"),
        ([1, 2], "NumPy array"),
        ({"a": 1}, "NumPy array"),
        (np.zeros((1, 2, 3)), "shape"),
        (np.array([1, 0]), "one-hot"),
        (np.full((4, 3), 2), "one-hot"),
        (np.full((4, 3), np.nan), "one-hot"),
        (np.ones((4, 3)), "one class"),
        (np.eye(3), "equally many rows"),
        (np.eye(4), "begin with the rows"),
    ],
)
def test_wrong_arrays_are_refused(toy, array, match):
    refused(toy, "y", array, match)


@pytest.mark.parametrize(
    ("shape", "raw", "code"),
    [((2, 3), b"\0" * 23, b"i4"), ((2, 3), b"\0" * 25, b"i4"), ((255, 255), b"\0" * 8, b"f8")],
)
def test_arrays_whose_length_does_not_fit_are_refused(toy, shape, raw, code):
    refused(toy, "y", python_2_array(code, b"<", shape, raw), "do not agree")


def damaged_matrix(**changes):
    matrix = contents()["x"]
    matrix.__dict__.update(changes)
    return matrix


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"indices": np.full(contents()["x"].nnz, 7, dtype=np.int32)}, "damaged CSR"),
        ({"indices": np.full(contents()["x"].nnz, -1, dtype=np.int32)}, "damaged CSR"),
        ({"indptr": np.array([0, 1, 2, 3, 10**6], dtype=np.int32)}, "damaged CSR"),
        ({"indptr": np.array([0, 3, 1, 3, contents()["x"].nnz], dtype=np.int32)}, "damaged CSR"),
        ({"indptr": np.array([0.0, 1.0])}, "signed integers"),
        ({"data": np.zeros(2, dtype=object)}, "plain numbers"),
        ({"data": np.full(contents()["x"].nnz, np.inf)}, "finite"),
        ({"data": np.zeros(1)}, "damaged CSR"),
        ({"_shape": (4,)}, "two dimensions"),
        ({"_shape": (4, -7)}, "two dimensions"),
        ({"_shape": (10**12, 7)}, "damaged CSR"),
        ({"_shape": "ab"}, "two dimensions"),
    ],
)
def test_damaged_matrices_are_refused(toy, changes, match):
    refused(toy, "x", damaged_matrix(**changes), match)


def changed_graph(**changes):
    graph = dict(contents()["graph"])
    graph.update({int(key[1:]): value for key, value in changes.items()})
    return graph


@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (changed_graph(n5=[NODES]), f"got node {NODES}"),
        (changed_graph(n5=[-1]), "got node -1"),
        (changed_graph(n5=[10**30]), "got node 1000"),
        (changed_graph(n777=[0]), "got node 777"),
        (changed_graph(n5=[1.5]), "opcode BINFLOAT"),
        (changed_graph(n5=[True]), "entry 5 does not"),
        (changed_graph(n5="6"), "entry 5 does not"),
        (changed_graph(n5=[[6]]), "entry 5 does not"),
        ({"a": [1]}, "entry 'a' does not"),
        ([[1], [0]], "dict of lists"),
    ],
)
def test_wrong_links_are_refused(toy, graph, match):
    refused(toy, "graph", graph, match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("510\n510\n512\n515\n", "repeated"),
        ("510\n511\n512\n520\n", "from 510 to 519, got '520' as entry 4"),
        ("510\n509\n", "got '509' as entry 2"),
        ("510\nx\n", "got 'x'"),
        ("510\n-3\n", "got '-3'"),
        ("9" * 40, "got '99999999999999999999'"),
        ("510 é", "got"),
    ],
)
def test_wrong_test_nodes_are_refused(toy, text, match):
    refused(toy, "test.index", text, match)


def test_row_counts_must_fit(toy):
    write(toy, {"test.index": "510\n"})
    with pytest.raises(DataFileError, match=r"ind\.toy\.tx must have 1 rows, one per test node"):
        Graph.from_planetoid(toy, "toy")
    write(toy, contents())
    refused(toy, "allx", contents()["allx"][:503], "equally many rows")
    write(toy, {"ally": contents()["ally"][:503]})
    with pytest.raises(DataFileError, match="at least 504 rows"):
        Graph.from_planetoid(toy, "toy")


@pytest.mark.parametrize("name", ["", "../toy", "a/b", "toy.x", None, 3, "toy\n"])
def test_name_is_checked(toy, name):
    with pytest.raises(InputError, match="letters, digits"):
        Graph.from_planetoid(toy, name)
