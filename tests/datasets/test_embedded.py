from __future__ import annotations

import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fishergcn import datasets
from fishergcn.datasets import _embedded
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph import Graph

RAW = Path(__file__).resolve().parents[2] / "../shared/data/planetoid"
NAMES = ("cora", "citeseer", "pubmed")

needs_raw_files = pytest.mark.skipif(not RAW.is_dir(), reason="the original Planetoid files are not here")


def raw(name: str, part: str):
    with warnings.catch_warnings(), open(RAW / f"ind.{name}.{part}", "rb") as file:
        warnings.simplefilter("ignore")
        return pickle.load(file, encoding="latin1")


def raw_graph(name: str):
    """Assemble the graph densely, node by node, as an oracle that shares no code with the package."""
    x, allx, tx = (raw(name, part).toarray() for part in ("x", "allx", "tx"))
    ally, ty, links = raw(name, "ally"), raw(name, "ty"), raw(name, "graph")
    test = [int(line) for line in (RAW / f"ind.{name}.test.index").read_text().split()]
    n = max(links) + 1
    features = np.zeros((n, allx.shape[1]), dtype=np.float32)
    labels = np.full(n, -1)
    features[: len(allx)] = allx
    labels[: len(ally)] = ally.argmax(1)
    for row, node in enumerate(test):
        features[node] = tx[row]
        labels[node] = ty[row].argmax()
    pairs = {pair for node, others in links.items() for other in others for pair in ((node, other), (other, node))}
    split = {"train": list(range(len(x))), "val": list(range(len(x), len(x) + 500)), "test": sorted(test)}
    return pairs, features, labels, split


@needs_raw_files
@pytest.mark.parametrize("name", NAMES)
def test_embedded_graph_equals_the_raw_files_entry_by_entry(name):
    graph = datasets.load(name)
    pairs, features, labels, split = raw_graph(name)
    found = graph.adjacency.tocoo()
    assert (found.data == 1).all()
    assert len(pairs) == found.nnz
    assert set(zip(found.row.tolist(), found.col.tolist(), strict=True)) == pairs
    assert graph.features.dtype == np.float32
    assert np.array_equal(graph.features.toarray(), features)
    assert np.array_equal(graph.labels, labels)
    assert {part: graph.standard_split[part].tolist() for part in split} == split


@needs_raw_files
@pytest.mark.parametrize("name", NAMES)
def test_read_planetoid_gives_the_embedded_graph(name):
    graph = Graph.from_planetoid(RAW, name)
    assert graph.digest == datasets.load(name).digest
    assert graph.name == name


@pytest.mark.parametrize(
    ("name", "nodes", "links", "self_links", "components", "features", "classes", "train", "nonzeros"),
    [
        ("cora", 2708, 5278, 0, 78, 1433, 7, 140, 49216),
        ("citeseer", 3327, 4552, 124, 438, 3703, 6, 120, 105165),
        ("pubmed", 19717, 44324, 3, 1, 500, 3, 60, 988031),
    ],
)
def test_sizes(name, nodes, links, self_links, components, features, classes, train, nonzeros):
    graph = datasets.load(name)
    assert graph.name == name
    assert (graph.num_nodes, graph.num_links, graph.num_self_links) == (nodes, links, self_links)
    assert graph.has_self_links == (self_links > 0)
    assert graph.num_components == components
    assert (graph.num_features, graph.num_classes) == (features, classes)
    assert graph.features.nnz == np.count_nonzero(graph.features.data) == nonzeros
    assert [graph.standard_split[part].size for part in ("train", "val", "test")] == [train, 500, 1000]


def test_public_training_nodes_are_balanced():
    for name in NAMES:
        graph = datasets.load(name)
        assert np.bincount(graph.labels[graph.standard_split["train"]]).tolist() == [20] * graph.num_classes


def test_citeseer_nodes_without_label_have_no_features_and_are_in_no_split():
    graph = datasets.load("citeseer")
    unknown = np.flatnonzero(graph.labels == -1)
    assert unknown.size == 15
    assert graph.features[unknown].nnz == 0
    assert not np.isin(unknown, np.concatenate(list(graph.standard_split.values()))).any()
    assert (datasets.load("cora").labels >= 0).all()
    assert (datasets.load("pubmed").labels >= 0).all()


def test_cora_has_class_names():
    graph = datasets.load("cora")
    assert graph.class_names[0] == "Theory"
    assert np.bincount(graph.labels).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert dict(zip(graph.class_names, np.bincount(graph.labels).tolist(), strict=True))["Neural_Networks"] == 818


def test_load_returns_the_same_object():
    assert datasets.load("cora") is datasets.load("cora")


def test_available():
    assert datasets.available() == NAMES


@pytest.mark.parametrize(("name", "hint"), [("coar", "'cora'"), ("Cora", "'cora'"), ("pubmd", "'pubmed'")])
def test_unknown_name_suggests_the_near_one(name, hint):
    with pytest.raises(InputError, match=rf"did you mean {hint}.*cora, citeseer, pubmed"):
        datasets.load(name)


def test_far_name_lists_the_known_ones():
    with pytest.raises(InputError, match="cora, citeseer, pubmed") as caught:
        datasets.load("../../etc/passwd")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", [None, 3, b"cora", ["cora"], Path("cora")])
def test_name_must_be_a_string(name):
    with pytest.raises(InputError, match="must be a string"):
        datasets.load(name)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    shutil.copytree(Path(_embedded.__file__).parent / "files", folder)
    return folder


@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 0.9999])
def test_altered_byte_is_refused(files, place):
    path = files / "cora.npz"
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataFileError, match=r"cora\.npz is damaged: its SHA-256 must be"):
        _embedded._read_checked(files, "cora.npz")


def test_truncated_file_is_refused(files):
    path = files / "cora.npz"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataFileError, match="damaged"):
        _embedded._read_checked(files, "cora.npz")


@pytest.mark.parametrize("lost", ["cora.npz", "SHA256SUMS"])
def test_missing_file_is_reported(files, lost):
    (files / lost).unlink()
    with pytest.raises(DataFileError, match=r"Cannot read the embedded data set cora\.npz"):
        _embedded._read_checked(files, "cora.npz")


def test_file_without_a_digest_is_refused(files):
    shutil.copy(files / "cora.npz", files / "other.npz")
    with pytest.raises(DataFileError, match="damaged"):
        _embedded._read_checked(files, "other.npz")


def test_files_are_small_and_hold_no_objects():
    folder = Path(_embedded.__file__).parent / "files"
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS",
        *sorted(f"{name}.npz" for name in NAMES),
    ]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6_000_000
    for name in NAMES:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as archive:
            assert all(archive[key].dtype.kind in "iuf" for key in archive.files)


def test_saving_again_gives_the_same_graph_file_content(tmp_path):
    graph = datasets.load("citeseer")
    graph.save(tmp_path / "once.npz")
    graph.save(tmp_path / "twice.npz")
    assert (tmp_path / "once.npz").read_bytes() == (tmp_path / "twice.npz").read_bytes()
    assert Graph.load(tmp_path / "once.npz").digest == graph.digest


def test_loaded_arrays_are_read_only():
    graph = datasets.load("cora")
    assert sparse.issparse(graph.features)
    for array in (graph.adjacency.data, graph.features.data, graph.labels, graph.standard_split["train"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
