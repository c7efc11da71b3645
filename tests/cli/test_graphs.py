"""``fishergcn graphs``: from tables to results, and from results to a page."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry.statistics import GraphCollection, change_points, geodesic_regression, pairwise
from fishergcn.graph import read_graphs


def run(*arguments):
    outcome = CliRunner().invoke(app, ["graphs", *map(str, arguments)])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome


def parsed(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A sequence of 20 graphs on 12 named nodes that changes at day 10."""
    rng = np.random.default_rng(0)
    rows = ["day,from,to"]
    for day in range(20):
        side = np.arange(12) % 2 if day < 10 else np.arange(12) // 6
        chance = np.where(np.equal.outer(side, side), 0.8, 0.1)
        upper = np.triu(rng.random((12, 12)) < chance, 1)
        rows += [f"{day},p{i},p{j}" for i, j in np.argwhere(upper)]
    path = tmp_path_factory.mktemp("graphs") / "days.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def results(table, tmp_path_factory):
    """A folder in which several commands have kept their results."""
    folder = tmp_path_factory.mktemp("results") / "out"
    groups = table.parent / "groups.csv"
    groups.write_text("graph,half\n" + "".join(f"{day},{'first' if day < 10 else 'second'}\n" for day in range(20)))
    run("distances", table, "--out", folder)
    run("changes", table, "--out", folder, "--plot", folder.parent / "changes.svg")
    run("test", table, "--groups", groups, "--permutations", 199, "--seed", 1, "--out", folder)
    run("mean", table, "--out", folder)
    run("cluster", table, "--out", folder)
    run("embed", table, "--out", folder, "--plot", folder.parent / "map.svg")
    run("pca", table, "--out", folder)
    run("line", table, "--out", folder)
    return folder


def test_info_lists_the_graphs(table):
    facts = parsed("info", table)
    assert facts["nodes"] == 12
    assert [each["graph"] for each in facts["graphs"]] == [str(day) for day in range(20)]
    assert "20 graphs, 12 nodes in all" in run("info", table).output


def test_numbers_are_those_of_the_library(table, results):
    found = read_graphs(table)
    kept = json.loads((results / "graphs.json").read_text())
    assert np.array(kept["parts"]["distances"]["values"]) == pytest.approx(pairwise(found.graphs).values)
    changes = change_points(found.graphs)
    assert kept["parts"]["changes"]["statistics"][9] == pytest.approx(changes.statistics[9])
    assert (
        [each["step"] for each in kept["parts"]["changes"]["changes"]]
        == [each.step for each in changes.changes]
        == [10]
    )
    assert kept["parts"]["test"]["groups"] == ["first", "second"]
    assert kept["parts"]["test"]["p_value"] == 1 / 200
    assert kept["parts"]["mean"]["residual"] < 1e-8


def test_a_change_has_nodes_and_links(results):
    change = json.loads((results / "graphs.json").read_text())["parts"]["changes"]["changes"][0]
    shares = [each["share"] for each in change["nodes"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)  # all of the 12 nodes
    assert all(each["before"] != each["after"] for each in change["links"][:5])
    assert (results.parent / "changes.svg").read_text().startswith("<?xml")


def test_the_page_shows_map_tree_time_line_and_what_changed(results):
    outcome = CliRunner().invoke(app, ["report", str(results)])
    assert outcome.exit_code == 0
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "The sequence changed at 10 (level 0.05)." in page
    for name in ("map", "tree", "changes", "change-1", "component-1", "component-2", "line"):
        assert f'data-chart="{name}"' in page
    for words in (
        "What changed at 10",
        "Changes over time",
        "The mean",
        "Clusters",
        "A line through the graphs",
        "p = 0.005",
        "distances.csv",
    ):
        assert words in page


def test_results_of_other_graphs_and_settings_are_refused(table, results, tmp_path):
    before = (results / "graphs.json").read_bytes()
    other = tmp_path / "other.csv"
    other.write_text("day,from,to\n" + "".join(f"{day},a,b\n{day},b,c\n" for day in range(8)))
    with pytest.raises(InputError, match="holds distances of other graphs"):
        run("distances", other, "--out", results)
    with pytest.raises(InputError, match="holds results on other graphs"):
        run("mean", other, "--out", results)
    with pytest.raises(InputError, match="holds results on other settings"):
        run("mean", table, "--out", results, "--laplacian", "normalized")
    assert (results / "graphs.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}', '{"format": 7}', "[]", '{"format": 1, "names": [1]}'])
def test_damaged_results_are_one_sentence(tmp_path, text):
    (tmp_path / "graphs.json").write_text(text)
    outcome = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(outcome.exception, DataFileError)
    assert "is damaged" in str(outcome.exception)


@pytest.mark.parametrize("part", [{"distances": {"values": [[1]]}}, {"changes": {}}, {"changes": []}, {"mean": {}},
                                  {"cluster": {}}, {"pca": {}}, {"line": {}}])  # fmt: skip
def test_damaged_parts_are_one_sentence(results, tmp_path, part):
    kept = json.loads((results / "graphs.json").read_text())
    (tmp_path / "graphs.json").write_text(json.dumps(kept | {"parts": part}))
    outcome = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(outcome.exception, DataFileError)
    assert "is damaged" in str(outcome.exception)


def test_numbers_are_tested_by_the_distance_correlation(table, tmp_path):
    ages = tmp_path / "ages.csv"
    ages.write_text("".join(f"{day},{day * 1.5}\n" for day in range(20)))
    facts = parsed("test", table, "--groups", ages, "--permutations", 99)
    assert facts["kind"] == "IndependenceTest"
    assert facts["p_value"] == 0.01
    ages.write_text("".join(f"{day},1\n" for day in range(20)))
    with pytest.raises(InputError, match="at least two different values"):
        run("test", table, "--groups", ages)


def test_a_short_sequence_has_ranks_and_no_level(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("year,from,to\n" + "".join(f"{year},a,b\n{year},b,{'c' if year < 2003 else 'd'}\n"
                                                for year in range(2000, 2006)))  # fmt: skip
    outcome = run("changes", path)
    assert "too few graphs for a level" in outcome.stdout
    assert "too few for a level of 0.05" in outcome.stderr
    assert parsed("changes", path)["level"] is None


def test_one_graph_and_graphs_without_common_nodes(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("graph,from,to\nx,a,b\n")
    with pytest.raises(InputError, match="at least 2 graphs"):
        run("distances", path)
    path.write_text("graph,from,to\nx,a,b\ny,c,d\n")
    with pytest.raises(InputError, match="nodes in common"):
        run("distances", path)


def test_clusters_maps_components_and_lines(table, results):
    parts = json.loads((results / "graphs.json").read_text())["parts"]
    assert parts["cluster"]["labels"] in ([1] * 10 + [2] * 10, [2] * 10 + [1] * 10)
    assert parts["cluster"]["around"] == "means"
    assert "2 clusters around means" in run("cluster", table).output
    assert len(parts["embed"]["coordinates"]) == 20
    assert (results.parent / "map.svg").read_text().startswith("<?xml")
    scores = parts["pca"]["components"][0]["scores"]
    assert max(scores[:10]) < min(scores[10:]) or min(scores[:10]) > max(scores[10:])
    assert parts["pca"]["components"][0]["links"][0]["share"] == 1.0
    assert parts["line"]["p_value"] <= 0.01
    assert 0.1 < parts["line"]["explained"] < 1
    found = read_graphs(table)
    line = geodesic_regression(GraphCollection(found.graphs, times=found.times))
    ids, [row, *_] = GraphCollection(found.graphs).node_ids, parts["line"]["links"]
    for time, name in ((0.0, "before"), (19.0, "after")):
        weight = -line.at(time)[ids.index(row["node"]), ids.index(row["other"])]
        assert row[name] == pytest.approx(max(0.0, weight), abs=1e-9)
    assert all(each[name] >= 0 for each in parts["line"]["links"] for name in ("before", "after"))
    assert parsed("cluster", table, "--clusters", 3, "--measure", "entropy")["around"] == "medoids"
    for words in ("Component 1", "% of the variance"):
        assert words in run("pca", table).output
    assert "The line explains" in run("line", table).output
    assert "dimension 1 (" in run("embed", table, "--dimensions", 1).output


def test_spectra_need_no_common_nodes(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("graph,from,to\nx,a,b\nx,b,c\ny,d,e\ny,e,f\nz,g,h\nz,h,i\nz,i,g\n")
    facts = parsed("spectra", path)
    assert facts["names"] == ["x", "y", "z"]
    assert facts["values"][0][1] == pytest.approx(0, abs=1e-7)
    assert facts["values"][0][2] > 0.1
    assert "distances of spectra, exact" in run("spectra", path).output


def test_two_graphs_have_one_dimension_and_one_component(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("graph,from,to\nx,a,b\nx,b,c\ny,a,b\ny,a,c\n")
    assert len(parsed("embed", path)["coordinates"][0]) == 1
    assert len(parsed("pca", path)["components"]) == 1
    with pytest.raises(InputError, match="--dimensions must be between 1 and 1, got 2"):
        run("embed", path, "--dimensions", 2)


def test_sums_of_weights_count_with_wasserstein_distances(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("day,from,to,weight\n1,a,b,1\n1,b,c,1\n2,a,b,4\n2,b,c,4\n")
    assert parsed("distances", path)["values"][0][1] == pytest.approx(0, abs=1e-7)
    assert parsed("distances", path, "--measure", "wasserstein")["values"][0][1] == pytest.approx(2.0)
    with pytest.raises(InputError, match="--measure must be bures for line"):
        run("line", path, "--measure", "wasserstein")


def test_measures_without_a_mean_are_refused(table):
    for command in ("pca", "line"):
        with pytest.raises(InputError, match=f"--measure must be bures for {command}, got entropy"):
            run(command, table, "--measure", "entropy")
    with pytest.raises(InputError, match="--around must be medoids with --measure entropy, got means"):
        run("cluster", table, "--measure", "entropy", "--around", "means")
