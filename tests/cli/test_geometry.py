"""``fishergcn geometry distance`` and ``fishergcn geometry neighborhood``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import datasets
from fishergcn.cli import app
from fishergcn.cli.geometry import histogram_lines
from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry import intrinsic
from fishergcn.graph import Graph

#: The Laplacians that make a density matrix.
DENSITIES = [kind for kind in intrinsic.LAPLACIANS if kind != "bethe-hessian"]


def run(*arguments):
    outcome = CliRunner().invoke(app, ["geometry", *map(str, arguments)])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome


def random_graph(n=40, seed=0, **options):
    links = np.triu(np.random.default_rng(seed).random((n, n)) < 0.15, 1).astype(float)
    return Graph(links + links.T, **options)


@pytest.fixture
def pair(tmp_path):
    paths = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for seed, path in enumerate(paths):
        random_graph(seed=seed).save(path)
    return paths


@pytest.mark.parametrize("kind", DENSITIES)
def test_distance_is_that_of_the_library(pair, kind):
    facts = json.loads(run("distance", *pair, "--laplacian", kind, "--rank", 3, "--json").stdout)
    laplacians = [intrinsic.graph_laplacian(Graph.load(path).adjacency, kind) for path in pair]
    first, second = map(intrinsic.density_matrix, laplacians)
    assert facts["distance"] == pytest.approx(intrinsic.bures_distance(first, second), abs=1e-12)
    assert facts["fidelity"] == pytest.approx(intrinsic.fidelity(first, second), abs=1e-12)
    assert facts["entropy"][1] == pytest.approx(intrinsic.von_neumann_entropy(second), abs=1e-12)
    top = np.linalg.eigvalsh(laplacians[0].toarray())[::-1][:3]
    np.testing.assert_allclose(facts["top_eigenvalues"][0], top, rtol=1e-10)


def test_distance_prints_a_table(pair):
    text = run("distance", *pair, "--rank", 2).stdout
    assert "renormalized Laplacian" in text
    assert "eigenvalue 2 of L" in text
    assert "eigenvalue 3 of L" not in text
    assert "Bures distance 0." in text


def test_distance_of_a_graph_to_itself_is_zero(pair):
    assert json.loads(run("distance", pair[0], pair[0], "--json").stdout)["distance"] < 1e-12


def test_distance_needs_the_same_nodes(tmp_path, pair):
    other = tmp_path / "other.npz"
    random_graph(n=20).save(other)
    with pytest.raises(InputError, match=r"same nodes.*has 40.*has 20"):
        run("distance", pair[0], other)


def test_distance_needs_the_same_order_of_nodes(tmp_path):
    names = [str(i) for i in range(40)]
    paths = [tmp_path / "straight.npz", tmp_path / "swapped.npz"]
    random_graph(node_ids=names).save(paths[0])
    random_graph(node_ids=[names[1], names[0], *names[2:]]).save(paths[1])
    with pytest.raises(InputError, match=r"node 0 is '0' .*'1'"):
        run("distance", *paths)


def test_distance_of_a_graph_too_large_for_dense_matrices(tmp_path):
    graph = datasets.load("pubmed")
    fewer = graph.adjacency.copy()
    i, j = fewer.nonzero()
    fewer[i[0], j[0]] = fewer[j[0], i[0]] = 0.0
    path = tmp_path / "fewer.npz"
    Graph(fewer, node_ids=graph.node_ids).save(path)
    facts = json.loads(run("distance", "pubmed", path, "--rank", 2, "--unit", 3, "--json").stdout)
    assert facts["method"] == "low rank"
    assert facts["distance"] == intrinsic.graph_distance(graph.adjacency, fewer).distance
    assert facts["link_distance"] == intrinsic.link_distance(graph.adjacency, links=3)
    assert facts["distance_in_links"] == pytest.approx(facts["distance"] / facts["link_distance"])


@pytest.mark.parametrize("kind", DENSITIES)
def test_distance_by_estimate(pair, kind):
    exact, found = (
        json.loads(run("distance", *pair, "--laplacian", kind, "--compute", how, "--unit", 0, "--json").stdout)
        for how in ("exact", "estimate")
    )
    assert (exact["method"], found["method"]) == ("dense", "probes")
    assert found["distance"] == pytest.approx(exact["distance"], rel=0.2)
    np.testing.assert_allclose(found["top_eigenvalues"], exact["top_eigenvalues"], rtol=1e-9)
    np.testing.assert_allclose(found["entropy"], exact["entropy"], atol=0.05)
    assert "link_distance" not in found


def test_distance_tells_its_error_and_its_size_in_links(pair):
    text = " ".join(run("distance", *pair, "--compute", "estimate").stdout.split())
    assert "the distance lies between 0." in text
    assert "removing one typical link" in text


@pytest.mark.parametrize("options", [("--rank", 0), ("--rank", 41), ("--unit", -1)])
def test_distance_refuses_bad_options(pair, options):
    with pytest.raises(InputError, match="must be"):
        run("distance", *pair, *options)


def test_distance_of_a_file_that_is_not_there(pair):
    with pytest.raises(DataFileError, match="does not exist"):
        run("distance", pair[0], "missing.npz")


def test_neighborhood_is_that_of_the_library(pair):
    from fishergcn import renormalized
    from fishergcn.perturbation import Neighborhood

    options = ("--rank", 4, "--radius", 0.3, "--samples", 50, "--seed", 7)
    facts = json.loads(run("neighborhood", pair[0], *options, "--json").stdout)
    around = Neighborhood(renormalized(Graph.load(pair[0]).adjacency), rank=4, radius=0.3, seed=7)
    phi = around.sample(50)
    assert facts["samples"] == 50
    assert facts["captured_mass"] == pytest.approx(around.captured_mass)
    assert facts["distance_mean"] == pytest.approx(float(around.distance(phi).mean()))
    assert facts["smallest_eigenvalue_after"] == pytest.approx(float(around.perturbed_eigenvalues(phi).min()))
    assert facts["distance_5%"] <= facts["distance_50%"] <= facts["distance_95%"] <= facts["distance_largest"]


def test_neighborhood_repeats_with_its_seed_and_grows_with_its_radius(pair):
    def mean(*options):
        outcome = run("neighborhood", pair[0], "--samples", 40, "--rank", 3, "--json", *options)
        return json.loads(outcome.stdout)["distance_mean"]

    assert mean("--seed", 1) == mean("--seed", 1) != mean("--seed", 2)
    assert mean("--radius", 0.01) < mean("--radius", 0.1) < mean("--radius", 0.5)
    assert mean("--high-order") != mean()


def test_neighborhood_prints_and_draws_a_histogram(pair, tmp_path):
    picture = tmp_path / "moves.png"
    text = run("neighborhood", pair[0], "--samples", 30, "--rank", 3, "--plot", picture).stdout
    assert "captured mass" in text
    assert text.count(" | ") == 16
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_neighborhood_refuses_bad_options(pair, tmp_path):
    for options in (("--rank", 0), ("--radius", -1), ("--samples", 0)):
        with pytest.raises(InputError, match="must be"):
            run("neighborhood", pair[0], *options)
    with pytest.raises(InputError, match=r"a picture must end in .pdf, .png, .svg, got 'moves.xyz'"):
        run("neighborhood", pair[0], "--rank", 3, "--plot", tmp_path / "moves.xyz")
    assert not list(tmp_path.glob("*moves*"))


def test_histogram_counts_everything_once():
    values = np.random.default_rng(0).random(500)
    counts = [int(line.split()[-1]) for line in histogram_lines(values)]
    assert sum(counts) == 500
    assert len(counts) == 16
    assert histogram_lines(np.zeros(3))[0].endswith(" 3")
