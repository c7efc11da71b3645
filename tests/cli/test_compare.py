"""``fishergcn compare``: methods beside their controls on one's own graphs."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import open_runs

FEW = ["--epochs", "2", "--set", "hidden=4", "--workers", "1", "--device", "cpu", "--quiet"]


def run(*arguments, status=0):
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result


@pytest.fixture
def place(tmp_path):
    """Two graphs with masks, one in each form of a file."""
    rng = np.random.default_rng(0)
    links = np.array([(node, (node + 1) % 12) for node in range(12)])
    parts = np.zeros((3, 2, 12), dtype=bool)
    for number in range(2):
        order = rng.permutation(12)
        for part in range(3):
            parts[part, number, order[4 * part : 4 * part + 4]] = True
    masks = dict(zip(("train", "val", "test"), parts, strict=True))
    plain = {f"{part}_masks": rows for part, rows in masks.items()}
    labels = np.arange(12) % 2
    x = {"x_shape": [12, 1], "x_indptr": np.arange(13), "x_indices": np.zeros(12, int), "x_data": np.arange(12.0)}
    np.savez(tmp_path / "plain.npz", edges=links, labels=labels, **x, **plain)
    Graph.from_edges(links, features=rng.random((12, 2)), labels=labels, masks=masks, name="ours").save(
        tmp_path / "ours.npz"
    )
    return tmp_path


def test_two_graphs_with_masks(place):
    graphs = ["--graph", place / "plain.npz", "--graph", place / "ours.npz"]
    command = [*graphs, "--method", "gcn-x2-c", "--seeds", 2, *FEW, "--out", place / "out"]
    shown = run(*command).stdout
    assert "Comparison: plain" in shown
    assert "Comparison: ours" in shown
    assert "gcn-x2 (control)" in shown
    assert "mlp-x2-c (without links)" in shown
    assert "published" not in shown.lower()
    with open_runs(place / "out") as runs:
        assert runs.counts() == {"ok": 40}
        assert runs.plan.splits == ("mask:0", "mask:1")
        assert runs.plan.cells[0].config.hidden == (4,)
    assert run(*command).stdout.count("4/4") == 10  # nothing is left to do
    with pytest.raises(DataFileError, match="splits mask:0 instead of"):
        run(*command, "--splits", 1)
    report = CliRunner().invoke(app, ["report", str(place / "out")], catch_exceptions=False)
    assert report.exit_code == 0
    assert (place / "out" / "report.html").is_file()


def test_text_files_beside_a_graph_file(place):
    (place / "links.csv").write_text("".join(f"n{node},n{(node + 1) % 9}\n" for node in range(9)))
    (place / "nodes.csv").write_text("".join(f"n{node},{node % 3},1\n" for node in range(9)))
    (place / "labels.csv").write_text("".join(f"n{node},c{node % 2}\n" for node in range(8)))
    files = ["--edges", place / "links.csv", "--features", place / "nodes.csv", "--labels", place / "labels.csv"]
    shown = run(*files, "--graph", place / "ours.npz", "--method", "gcn", "--splits", "held-out:25%:0", *FEW,
                "--out", place / "out").stdout  # fmt: skip
    assert "Comparison: links" in shown
    assert "Comparison: ours" in shown


def test_refused_before_anything_is_written(place):
    with pytest.raises(InputError, match=r"a GRAPH .* or --edges must be given, got neither"):
        run("--method", "gcn", "--out", place / "out")
    with pytest.raises(InputError, match="graphs must have distinct names, got ours, ours"):
        run("--graph", place / "ours.npz", "--graph", place / "ours.npz", "--out", place / "out")
    with pytest.raises(InputError, match="comes with the masks 0 to 1"):
        run("--graph", place / "ours.npz", "--splits", 3, "--out", place / "out")
    with pytest.raises(InputError, match="--set must name a setting"):
        run("--graph", place / "ours.npz", "--set", "speed=3", "--out", place / "out")
    assert not (place / "out").exists()
