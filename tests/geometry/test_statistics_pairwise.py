"""Collections of graphs and all their distances, against the distance of two density matrices."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse

from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry import intrinsic
from fishergcn.geometry.statistics import GraphCollection, pairwise
from fishergcn.graph import Graph


def random_graphs(count: int, nodes: int, seed: int = 0, share: float = 0.3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    upper = [np.triu((rng.random((nodes, nodes)) < share) * rng.random((nodes, nodes)), 1) for _ in range(count)]
    return [each + each.T for each in upper]


@pytest.fixture(scope="module")
def graphs() -> list[np.ndarray]:
    """Connected and not, with nodes that are isolated in one graph and others that are so in all."""
    made = random_graphs(5, 14)
    for graph in made:
        graph[[3, 9]] = graph[:, [3, 9]] = 0.0
    made[1][[0, 5]] = made[1][:, [0, 5]] = 0.0
    return made


def density(graph: np.ndarray, geometry: str, laplacian: str) -> np.ndarray:
    matrix = intrinsic.graph_laplacian(graph, laplacian).toarray()
    if geometry == "pseudoinverse":
        matrix = np.linalg.pinv(matrix, hermitian=True)
    return matrix / np.trace(matrix)


@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized", "renormalized"])
@pytest.mark.parametrize("geometry", ["laplacian", "pseudoinverse"])
def test_bures_distances_are_those_of_the_density_matrices(
    graphs: list[np.ndarray], geometry: str, laplacian: str
) -> None:
    found = pairwise(graphs, geometry=geometry, laplacian=laplacian)
    rhos = [density(graph, geometry, laplacian) for graph in graphs]
    wanted = [[intrinsic.bures_distance(one, other) if one is not other else 0.0 for other in rhos] for one in rhos]
    np.testing.assert_allclose(found.values, wanted, atol=3e-7)  # singular matrices: D² is good to about 1e-8
    assert found.method == "exact"
    assert (found.low == found.values).all()


def test_graphs_that_are_close_keep_their_digits(graphs: list[np.ndarray]) -> None:
    moved = graphs[0] * (1 + 1e-7 * np.random.default_rng(1).random(graphs[0].shape))
    moved = (moved + moved.T) / 2
    wanted = intrinsic.bures_distance(density(graphs[0], "laplacian", "combinatorial"),
                                      density(moved, "laplacian", "combinatorial"))  # fmt: skip
    assert 0 < wanted < 1e-6
    assert abs(pairwise([graphs[0], moved]).values[0, 1] / wanted - 1) < 1e-3


@pytest.mark.parametrize("geometry", ["laplacian", "pseudoinverse"])
def test_jensen_shannon_and_entropy(graphs: list[np.ndarray], geometry: str) -> None:
    rhos = [density(graph, geometry, "combinatorial") for graph in graphs]
    entropies = [intrinsic.von_neumann_entropy(rho) for rho in rhos]
    mixed = intrinsic.von_neumann_entropy((rhos[0] + rhos[1]) / 2)
    found = pairwise(graphs, measure="jensen-shannon", geometry=geometry)
    assert abs(found.values[0, 1] ** 2 - (mixed - sum(entropies[:2]) / 2)) < 1e-12
    found = pairwise(graphs, measure="entropy", geometry=geometry)
    assert abs(found.values[2, 3] - abs(entropies[2] - entropies[3])) < 1e-12


@pytest.mark.parametrize("geometry", ["laplacian", "pseudoinverse"])
def test_wasserstein_distances_are_those_of_gaussians(graphs: list[np.ndarray], geometry: str) -> None:
    graphs = [graphs[0], 2 * graphs[0], graphs[1]]
    matrices = [intrinsic.graph_laplacian(graph, "combinatorial").toarray() for graph in graphs]
    if geometry == "pseudoinverse":
        matrices = [np.linalg.pinv(matrix, hermitian=True) for matrix in matrices]

    def squared(one: np.ndarray, other: np.ndarray) -> float:
        root = np.real(scipy.linalg.sqrtm(one + 1e-13 * np.eye(14)))
        inner = np.linalg.eigvalsh(root @ other @ root)
        return float(np.trace(one) + np.trace(other) - 2 * np.sqrt(np.maximum(inner, 0)).sum())

    found = pairwise(graphs, measure="wasserstein", geometry=geometry).values
    assert found[0, 1] ** 2 == pytest.approx((np.sqrt(2) - 1) ** 2 * np.trace(matrices[0] if geometry == "laplacian"
                                                                            else matrices[1]))  # fmt: skip
    for one, other in ((0, 2), (1, 2)):
        assert found[one, other] ** 2 == pytest.approx(squared(matrices[one], matrices[other]), rel=1e-5)


def test_wasserstein_distances_carry_bounds_and_error_bars(graphs: list[np.ndarray], tmp_path) -> None:
    plain = pairwise(graphs, compute="estimate", probes=4, folder=tmp_path / "kept")
    found = pairwise(graphs, measure="wasserstein", compute="estimate", probes=4, folder=tmp_path / "kept")
    traces = np.sqrt([graph.sum() for graph in graphs])
    off, product = np.subtract.outer(traces, traces) ** 2, np.outer(traces, traces)
    for name in ("values", "low", "high"):
        wanted = np.sqrt(off + product * getattr(plain, name) ** 2)
        np.testing.assert_allclose(getattr(found, name), wanted)


@pytest.mark.parametrize("measure", ["bures", "wasserstein", "jensen-shannon"])
def test_distances_are_a_metric_that_does_not_know_names(graphs: list[np.ndarray], measure: str) -> None:
    found = pairwise(graphs, measure=measure).values
    assert (found[:, :, None] + found[None] - found[:, None] >= -1e-12).all()
    order = np.random.default_rng(2).permutation(14)
    renamed = pairwise([graph[np.ix_(order, order)] for graph in graphs], measure=measure).values
    np.testing.assert_allclose(renamed, found, atol=1e-7)


def test_nodes_are_matched_by_their_names() -> None:
    one = Graph.from_edges([(0, 1), (1, 2)], node_ids=["a", "b", "c"])
    two = Graph.from_edges([(0, 1), (0, 2)], weights=[2.0, 3.0], node_ids=["d", "c", "b"])
    matched = GraphCollection([one, two], names=["x", "y"])
    assert matched.node_ids == ("a", "b", "c", "d")
    wanted = np.zeros((4, 4))
    wanted[3, 2] = wanted[2, 3] = 2.0
    wanted[3, 1] = wanted[1, 3] = 3.0
    np.testing.assert_array_equal(matched.adjacencies[1].toarray(), wanted)
    assert matched[0].node_ids == matched.node_ids
    assert [graph.name for graph in matched] == ["x", "y"]
    assert matched[[1]].names == ("y",)


def test_times_sort() -> None:
    made = GraphCollection(random_graphs(3, 5), times=[3, 1, 2])
    assert made.in_time().names == ("1", "2", "0")
    assert made.in_time().times == (1.0, 2.0, 3.0)
    assert made[:2].times == (3.0, 1.0)


def test_rows_are_kept_and_resumed(graphs: list[np.ndarray], tmp_path) -> None:
    wanted = pairwise(graphs)
    folder = tmp_path / "distances"
    np.testing.assert_array_equal(pairwise(graphs, folder=folder, workers=2).values, wanted.values)
    (folder / "row-00001.npz").unlink()
    before = (folder / "row-00000.npz").stat().st_mtime_ns
    np.testing.assert_array_equal(pairwise(graphs, folder=folder).values, wanted.values)
    assert (folder / "row-00000.npz").stat().st_mtime_ns == before
    with pytest.raises(InputError, match="holds distances of other geometry"):
        pairwise(graphs, folder=folder, geometry="pseudoinverse")
    with pytest.raises(InputError, match="holds distances of other graphs"):
        pairwise(graphs[::-1], folder=folder)
    (folder / "row-00002.npz").write_bytes(b"damaged")
    with pytest.raises(DataFileError, match=r"row-00002.npz is not a readable npz archive"):
        pairwise(graphs, folder=folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("notes")
    with pytest.raises(InputError, match="must be empty or hold distances"):
        pairwise(graphs, folder=tmp_path / "mine")


NAMED = [Graph.from_edges([(0, 1)], node_ids=ids) for ids in (["a", "b"], ["c", "d"])]
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(("graphs", "message"), [
    ([], "graphs must hold at least one graph, got none"),
    (PAIR, "graphs must be several graphs in a list, got a single one"),
    ([PAIR], "graphs must hold at least 2 graphs for a distance, got 1"),
    ([PAIR, 0 * PAIR], "graph '1' must have a link between two nodes, got none"),
    ([PAIR, sparse.eye_array(2)], "graph '1' must have a link between two nodes, got none"),
    ([PAIR, -PAIR], r"graph '1' must be non-negative, but entry \(0, 1\) is -1"),
    ({"a": PAIR, "b": PAIR * np.nan}, r"graph 'b' must be finite, but entry \(0, 0\) is nan"),
    ([PAIR, np.ones((3, 3))], "must have the same number of nodes, but '0' has 2 and '1' has 3"),
    (NAMED, "graph '0' must have nodes in common with the others, but none of its 2 node ids occurs in another"),
    ([NAMED[0], PAIR], "must all have node ids or none of them, but '0' has them and '1' has none"),
])  # fmt: skip
def test_bad_graphs_are_refused(graphs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pairwise(graphs)


def test_bad_names_and_times_are_refused() -> None:
    with pytest.raises(InputError, match="names must all be different, but 'a' occurs more than once"):
        GraphCollection([PAIR, PAIR], names=["a", "a"])
    with pytest.raises(InputError, match=r"times\[1\] must be finite, got nan"):
        GraphCollection([PAIR, PAIR], times=[1, np.nan])
    with pytest.raises(InputError, match="times must be one for each graph, 2, got 1"):
        GraphCollection([PAIR, PAIR], times=[1])
    with pytest.raises(InputError, match="times must all be different, but '0' and '1' are both at 1"):
        GraphCollection([PAIR, PAIR], times=[1, 1]).in_time()
    with pytest.raises(InputError, match="must have times to be sorted"):
        GraphCollection([PAIR, PAIR]).in_time()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends processes with their parent on Linux")
@pytest.mark.slow
def test_worker_processes_end_with_their_parent(tmp_path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import numpy as np\n"
        "from fishergcn.geometry.statistics import pairwise\n"
        "upper = [np.triu(np.random.default_rng(s).random((2500, 2500)) < 0.01, 1) * 1.0 for s in range(4)]\n"
        f"pairwise([u + u.T for u in upper], compute='exact', workers=2, folder={str(tmp_path / 'rows')!r})\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "OMP_NUM_THREADS": "1"})

    def workers() -> list[int]:
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = place.read_bytes()
                if b"statistics._worker" in words and str(tmp_path).encode() in words:
                    found.append(int(place.parent.name))
        return found

    try:
        until = time.monotonic() + 60
        while not (len(workers()) == 2 and (tmp_path / "rows" / "graphs.npz").exists()) and time.monotonic() < until:
            time.sleep(0.05)
        assert len(workers()) == 2
        time.sleep(3)  # inside a decomposition, which takes many seconds
    finally:
        parent.kill()
        parent.wait()
    time.sleep(2)
    assert workers() == []
