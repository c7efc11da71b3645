"""``fishergcn spectrum``: the numbers of the library, as a table, as JSON, as a picture."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import FisherGCNError, MissingExtraError
from fishergcn.graph import Graph


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def ring(tmp_path):
    """Return a ring of 12 nodes: Ã is circulant with eigenvalues (1 + 2 cos 2πj/12) / 3."""
    path = tmp_path / "ring.npz"
    Graph.from_edges([(i, (i + 1) % 12) for i in range(12)], name="ring").save(path)
    return path


LAPLACIAN = np.sort(1 - (1 + 2 * np.cos(2 * np.pi * np.arange(12) / 12)) / 3)[::-1]


def test_json_against_the_closed_form(ring):
    facts = json.loads(run("spectrum", ring, "--rank", 5, "--json"))
    np.testing.assert_allclose(facts["eigenvalues"], LAPLACIAN[:5], atol=1e-12)
    assert facts["trace"] == pytest.approx(8)
    assert facts["captured_mass"] == pytest.approx(LAPLACIAN[:5].sum() / 8)
    assert facts["residual"] < 1e-8


def test_table(ring):
    text = run("spectrum", ring, "--rank", 3)
    assert "ring, renormalized propagation" in text
    for value in LAPLACIAN[:3]:
        assert f"{value:.8f}" in text


def test_high_order_differs(ring):
    plain = json.loads(run("spectrum", ring, "--rank", 3, "--json"))
    high = json.loads(run("spectrum", ring, "--rank", 3, "--json", "--high-order", "--order", 3))
    assert not np.allclose(plain["eigenvalues"], high["eigenvalues"])


@pytest.mark.parametrize(("suffix", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_plot(ring, suffix, begin):
    pytest.importorskip("matplotlib")
    picture = ring.with_name(f"spectrum.{suffix}")
    assert str(picture) in run("spectrum", ring, "--rank", 3, "--plot", picture).replace("\n", "")
    assert picture.read_bytes().startswith(begin)


def test_plot_without_matplotlib(ring, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"fishergcn\[report\]"):
        run("spectrum", ring, "--rank", 3, "--plot", ring.with_name("s.png"))
    assert [path.name for path in ring.parent.iterdir()] == ["ring.npz"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rank", 12], "rank"),
        (["--rank", 0], "rank"),
        (["--rank", 3, "--seed", -1], "seed"),
        (["--rank", 3, "--high-order", "--threshold", 1], "threshold"),
        (["--rank", 3, "--high-order", "--order", 0], "order"),
        (["--rank", 3, "--plot", "s.xyz"], "a picture must end in .pdf, .png, .svg, got 's.xyz'"),
        (["--rank", 3, "--plot", "s"], "a picture must end in"),
        (["--rank", 3, "--plot", "no/s.png"], "Cannot write"),
    ],
)
def test_refused_and_nothing_written(ring, monkeypatch, options, message):
    monkeypatch.chdir(ring.parent)
    with pytest.raises(FisherGCNError, match=message) as caught:
        run("spectrum", ring, *options)
    assert "\n" not in str(caught.value)
    assert [path.name for path in ring.parent.iterdir()] == ["ring.npz"]
