"""The graph file: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn._base import npz as _npz
from fishergcn.errors import DataFileError
from fishergcn.graph import Graph

FULL = Graph.from_edges(
    [(0, 1), (1, 2), (2, 2)],
    weights=[0.1, 2.5, 7],
    num_nodes=4,
    features=sparse.csr_array(np.array([[0, 1.5, 0], [1, 0, 0], [0, 0, 0], [0.1, 0, 0]])),
    labels=[0, 1, -1, 1],
    name="voll",
    node_ids=["Jörg", "b c", "", "李"],
    class_names=["x", "ÿ"],
    standard_split={"train": [2, 0], "val": [], "test": [1]},
)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "graph.npz"
    FULL.save(path)
    return path


def refusal(path):
    """Return the message, after checking that it is one sentence on one line that names the file."""
    with pytest.raises(DataFileError) as caught:
        Graph.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message
    return message


def rewrite(path, **changes):
    """Write the file again with some arrays replaced, or removed where the change is None."""
    arrays = _npz.read_arrays(path) | changes
    _npz.write_arrays(path, {name: np.asarray(array) for name, array in arrays.items() if array is not None})


class TestRoundTrip:
    def test_everything(self, saved):
        back = Graph.load(saved)
        assert back.digest == FULL.digest
        assert (back.name, back.node_ids, back.class_names) == (FULL.name, FULL.node_ids, FULL.class_names)
        assert isinstance(back.features, sparse.csr_array)
        np.testing.assert_array_equal(back.standard_split["train"], [2, 0])

    @pytest.mark.parametrize("features", [None, np.eye(3), np.asfortranarray(np.arange(6.0).reshape(3, 2))])
    def test_little(self, tmp_path, features):
        graph = Graph.from_edges([(0, 1)], num_nodes=3, features=features)
        graph.save(tmp_path / "g.npz")
        back = Graph.load(str(tmp_path / "g.npz"))
        assert back.digest == graph.digest
        assert (back.name, back.node_ids, back.class_names, back.standard_split) == (None,) * 4

    def test_no_links(self, tmp_path):
        Graph(np.zeros((2, 2))).save(tmp_path / "g.npz")
        assert Graph.load(tmp_path / "g.npz").num_links == 0

    @given(st.integers(0, 10**6))
    @settings(max_examples=20)
    def test_random_graphs(self, tmp_path_factory, seed):
        generator = np.random.default_rng(seed)
        n = int(generator.integers(2, 400))
        edges = generator.integers(0, n, (int(generator.integers(0, 3 * n)), 2))
        graph = Graph.from_edges(edges, num_nodes=n, weights=generator.random(len(edges)) + 0.1, directed="symmetrize")
        path = tmp_path_factory.mktemp("random") / "g.npz"
        graph.save(path)
        assert Graph.load(path).digest == graph.digest

    def test_equal_graphs_have_equal_bytes(self, saved, tmp_path):
        Graph.load(saved).save(tmp_path / "again.npz")
        assert (tmp_path / "again.npz").read_bytes() == saved.read_bytes()

    def test_numpy_reads_it_without_pickles(self, saved):
        with np.load(saved, allow_pickle=False) as arrays:
            assert arrays["labels"].tolist() == [0, 1, -1, 1]

    def test_saving_over_a_file_replaces_it(self, saved):
        Graph([[0, 1], [1, 0]]).save(saved)
        assert Graph.load(saved).num_nodes == 2
        assert [path.name for path in saved.parent.iterdir()] == ["graph.npz"]

    def test_unwritable_places(self, tmp_path):
        for path in (tmp_path, tmp_path / "no" / "g.npz"):
            with pytest.raises(DataFileError, match="Cannot write"):
                FULL.save(path)
        assert list(tmp_path.iterdir()) == []


class TestDamage:
    def test_missing_and_folder(self, tmp_path):
        assert "does not exist" in refusal(tmp_path / "no.npz")
        assert "not a folder of a graph" in refusal(tmp_path)
        assert "does not exist" in refusal(tmp_path / ("x" * 5000))

    @pytest.mark.parametrize("content", [b"", b"PK", b"hello, world\n", bytes(range(256)) * 40])
    def test_not_an_archive(self, tmp_path, content):
        path = tmp_path / "g.npz"
        path.write_bytes(content)
        assert "not a readable npz archive" in refusal(path)

    def test_truncated_anywhere(self, saved):
        whole = saved.read_bytes()
        for length in range(0, len(whole), 97):
            saved.write_bytes(whole[:length])
            refusal(saved)

    def test_one_byte_altered_anywhere(self, saved):
        """Every altered byte is noticed, or lies in a field of the container that is not content."""
        whole = saved.read_bytes()
        for position in range(0, len(whole), 11):
            saved.write_bytes(whole[:position] + bytes([whole[position] ^ 0x5A]) + whole[position + 1 :])
            try:
                digest = Graph.load(saved).digest
            except DataFileError:
                digest = None
            assert digest in (None, FULL.digest)

    def test_altered_content_with_a_wrong_checksum(self, tmp_path):
        path = tmp_path / "g.npz"
        buffer = io.BytesIO()
        np.save(buffer, np.arange(100))
        with zipfile.ZipFile(path, "w") as archive:  # stored, so that the bytes can be found
            archive.writestr("a.npy", buffer.getvalue())
        data = bytearray(path.read_bytes())
        data[data.index(np.arange(100).tobytes()) + 8] ^= 1
        path.write_bytes(data)
        with pytest.raises(DataFileError, match="CRC"):
            _npz.read_arrays(path)

    def test_other_archives(self, tmp_path):
        np.savez(tmp_path / "other.npz", a=np.ones(3))
        assert "not a graph file" in refusal(tmp_path / "other.npz")
        np.savez(tmp_path / "empty.npz")
        assert "not a graph file" in refusal(tmp_path / "empty.npz")


class TestHostile:
    @staticmethod
    def member(path, name, content):
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)

    @staticmethod
    def npy(header, content=b"", version=b"\x01\x00"):
        text = (header + "\n").encode("latin1")
        return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + content

    def test_a_pickle_that_would_run_a_command(self, tmp_path):
        proof = tmp_path / "ran"

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {proof}",)

        np.savez(tmp_path / "g.npz", labels=np.array([Evil()], dtype=object))
        assert "holds Python objects in 'labels.npy'" in refusal(tmp_path / "g.npz")
        (tmp_path / "h.npz").write_bytes(pickle.dumps(Evil()))
        refusal(tmp_path / "h.npz")
        self.member(tmp_path / "k.npz", "description.npy", pickle.dumps(Evil()))
        refusal(tmp_path / "k.npz")
        assert not proof.exists()

    def test_objects_inside_a_structured_type(self, tmp_path):
        np.savez(tmp_path / "g.npz", a=np.zeros(2, dtype=[("x", "i4"), ("y", "O")]))
        assert "Python objects" in refusal(tmp_path / "g.npz")

    @pytest.mark.parametrize(
        "header",
        [
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}",
            "{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,)}",
            "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': 'many'}",
            "{'descr': '<f8', 'fortran_order': False}",
            "__import__('os').system('false')",
            "((((((((((",
            "'" * 3,
            "{" * 5000,
        ],
    )
    def test_absurd_headers(self, tmp_path, header):
        self.member(tmp_path / "g.npz", "a.npy", self.npy(header, b"12345678"))
        refusal(tmp_path / "g.npz")

    def test_unknown_version_and_long_header(self, tmp_path):
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}"
        self.member(tmp_path / "g.npz", "a.npy", self.npy(header, b"12345678", version=b"\x09\x00"))
        refusal(tmp_path / "g.npz")
        padded = self.npy(header + " " * 20_000, b"12345678", version=b"\x02\x00")
        self.member(tmp_path / "h.npz", "a.npy", padded)
        refusal(tmp_path / "h.npz")

    def test_zip_bomb_is_refused_by_its_declared_size(self, tmp_path, monkeypatch):
        zeros = self.npy("{'descr': '|u1', 'fortran_order': False, 'shape': (50000000,)}", bytes(50_000_000))
        self.member(tmp_path / "bomb.npz", "a.npy", zeros)
        assert (tmp_path / "bomb.npz").stat().st_size < 100_000
        monkeypatch.setattr(_npz, "_read_member", pytest.fail)  # nothing may be unpacked
        with pytest.raises(DataFileError, match=r"declares 500000\d\d bytes of arrays; at most 10000000"):
            _npz.read_arrays(tmp_path / "bomb.npz", limit=10_000_000)

    def test_a_member_larger_than_it_declares(self, tmp_path):
        path = tmp_path / "g.npz"
        content = self.npy("{'descr': '|u1', 'fortran_order': False, 'shape': (8,)}", b"12345678" * 1000)
        self.member(path, "a.npy", content)
        true, told = len(content), len(content) - 8 * 999
        path.write_bytes(path.read_bytes().replace(true.to_bytes(4, "little"), told.to_bytes(4, "little")))
        refusal(path)

    def test_declared_gigabytes_that_are_not_there(self, tmp_path):
        path = tmp_path / "g.npz"
        content = self.npy("{'descr': '|u1', 'fortran_order': False, 'shape': (8,)}", b"12345678")
        self.member(path, "a.npy", content)
        huge = (2**32 - 2).to_bytes(4, "little")
        path.write_bytes(path.read_bytes().replace(len(content).to_bytes(4, "little"), huge))
        refusal(path)

    def test_encrypted_member(self, saved):
        data = bytearray(saved.read_bytes())
        for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            data[data.index(signature) + offset] |= 1
        saved.write_bytes(data)
        refusal(saved)


class TestInconsistent:
    """Valid archives whose arrays do not make a graph."""

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"adjacency_shape": [4, 10**18]}, "larger than"),
            ({"adjacency_shape": [10**18, 10**18]}, "larger than"),
            ({"adjacency_shape": [5, 5]}, "do not fit its shape"),
            ({"adjacency_shape": [4, 5]}, "not a valid graph file"),
            ({"adjacency_shape": [4]}, "wrong number of dimensions"),
            ({"adjacency_shape": [4, -4]}, "outside its shape"),
            ({"adjacency_shape": None}, "'adjacency_shape' is missing"),
            ({"adjacency_counts": [1, 1, 1]}, "do not fit its shape"),
            ({"adjacency_counts": [3, 1, 1, 0]}, "do not fit its shape"),
            ({"adjacency_counts": [-1, 2, 1, 1]}, "do not fit its shape"),
            ({"adjacency_counts": np.array([2**63, 2**63, 3, 0], dtype=np.uint64)}, "do not fit its shape"),
            ({"adjacency_counts": [1.0, 1.0, 1.0, 0.0]}, "not integers"),
            ({"adjacency_indices": [1, 2, 99]}, "outside its shape"),
            ({"adjacency_indices": [1, 2, -1]}, "outside its shape"),
            ({"adjacency_indices": [0, 0, 2]}, "symmetric"),
            ({"adjacency_data": [1.0, 1.0]}, "3 entries but 2 values"),
            ({"adjacency_data": [1.0, np.nan, 1.0]}, "finite"),
            ({"adjacency_data": [1.0, -1.0, 1.0]}, "non-negative"),
            ({"adjacency_data": ["a", "b", "c"]}, "not a valid graph file"),
            ({"features_data": [np.inf] * 3}, "finite"),
            ({"features_shape": [3, 3]}, "do not fit its shape"),
            ({"features": np.ones((2, 2))}, "one row for each of the 4 nodes"),
            ({"labels": [0, 1]}, "one class for each of the 4 nodes"),
            ({"labels": [0, 1, 2, 2]}, "class_names has 2"),
            ({"labels": [0.5, 1, 1, 1]}, "name each of the 1 targets"),
            ({"labels": np.zeros(4, dtype=[("x", "i4")])}, "must be integers"),
            ({"split_train": [99]}, "from 0 to 3"),
            ({"split_train": None}, "must have the parts"),
            ({"description": [1.0]}, "is not text"),
            ({"description": np.frombuffer(b"\xff\xfe", dtype=np.uint8)}, "not valid JSON"),
            ({"description": np.frombuffer(b"[" * 100_000, dtype=np.uint8)}, "not valid JSON"),
            ({"description": _npz.pack_json([1])}, "not that of a graph"),
            (
                {"description": _npz.pack_json({"format": "fishergcn-graph", "version": 99})},
                "version 99 is not 1",
            ),
        ],
    )
    def test_refused(self, saved, changes, message):
        rewrite(saved, **changes)
        assert message in refusal(saved)

    @pytest.mark.parametrize(
        "fields",
        [
            {"name": 3},
            {"node_ids": "abcd"},
            {"node_ids": [1, 2, 3, 4]},
            {"node_ids": ["a"]},
            {"class_names": {}},
        ],
    )
    def test_description_with_wrong_types(self, saved, fields):
        description = _npz.unpack_json(_npz.read_arrays(saved)["description"]) | fields
        rewrite(saved, description=_npz.pack_json(description))
        refusal(saved)

    @pytest.mark.parametrize("codes", [[0, 1, 99], [0, 1, -1], [0.0, 1.0, 0.0]])
    def test_codes_outside_the_distinct_values(self, saved, codes):
        rewrite(saved, adjacency_data=None, adjacency_data_distinct=[1.0, 2.0], adjacency_data_codes=codes)
        refusal(saved)


class TestPacking:
    @given(st.lists(st.sampled_from([0.0, 1.5, -2.0, 1e-300]), max_size=300))
    @settings(max_examples=30)
    def test_values(self, values):
        array = np.array(values)
        np.testing.assert_array_equal(_npz.unpack_values("x", _npz.pack_values("x", array)), array)

    def test_few_distinct_values_are_coded(self):
        assert set(_npz.pack_values("x", np.ones(100))) == {"x_distinct", "x_codes"}

    @given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5))
    @settings(max_examples=50)
    def test_smallest_keeps_integers(self, values):
        array = np.array(values, dtype=np.int64)
        small = _npz.smallest(array)
        assert [int(value) for value in small] == values
        assert small.nbytes <= array.nbytes
