"""The study of perturbations in miniature: all cells run, with control and mean, and the words count them."""

from __future__ import annotations

import csv
import html
import re

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, studies
from fishergcn.report import write_report
from fishergcn.splits import Split


def planted():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    links = np.triu(rng.random((60, 60)) < np.where(labels[:, None] == labels, 0.3, 0.05), 1).astype(float)
    features = (rng.random((60, 20)) < 0.2 + 0.2 * (np.arange(20) % 3 == labels[:, None])).astype(np.float32)
    return Graph(links + links.T, sparse.csr_array(features), labels, name="planted")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("perturbations")
    order = [np.random.default_rng(seed).permutation(60) for seed in (0, 1)]
    splits = [Split(name, each[:20], each[20:40], each[40:]) for name, each in zip("ab", order, strict=True)]
    plan = studies.make_plan("perturbations", datasets=[planted()], splits=splits, seeds=1, epochs=3)
    studies.run(plan, target, device="cpu", workers=1).close()
    return target


@pytest.fixture(scope="module")
def study(folder):
    """Return the perturbed cells by name, their differences from controls, and all runs."""
    with studies.open_runs(folder) as runs:
        cells = {cell.name: cell for cell in runs.plan.cells}
        controls = {one.cell: one for one in studies.compare(runs) if one.role == "control"}
        found = {}
        for name, run in runs.entries():
            assert run.status == "ok"
            found.setdefault(name, {})[run.split, run.seed] = run.test_accuracy
    assert set(found) == set(cells)
    return cells, {name: one for name, one in controls.items() if name.startswith("fishergcn")}, found


@pytest.fixture(scope="module")
def page(folder):
    return write_report(folder).read_text(encoding="utf-8")


def test_all_cells_run_and_have_their_references(study, page, folder):
    _, controls, _ = study
    with (folder / "figures" / "perturbations.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    swept = {"high", "low", "random", "nodes", "polynomial", "links", "link-flip", "link-drop", "spatial"}
    others = {f"{end}, {metric}" for end in ("high", "low") for metric in ("log-det", "frobenius")}
    assert {row["curve"] for row in rows} == swept | others
    for name in swept:
        radii = {float(row["place"]) for row in rows if (row["curve"], row["panel"]) == (name, "planted: noise")}
        assert {0.05, 0.2, 0.5} <= radii
        assert any(row["curve"] == name and row["panel"] == "planted: mean, no noise" for row in rows)
    for row in rows:
        if row["curve"] == "nodes" and row["panel"] == "planted: noise":
            gap = controls[f"fishergcn nodes {float(row['place']):g}"].difference
            assert (float(row["value"]), float(row["low"])) == (gap.mean, gap.low)
    references = {name: one.reference for name, one in controls.items()}
    assert references["fishergcn nodes 0.2 no-dropout"] == "gcn-x5 no-dropout"
    assert references["fishergcn nodes 0.2"] == "gcn-x5"
    assert references["fishergcn-c nodes 0.2 consistent"] == "gcn-x5-c"
    assert references["fishergcn-c nodes 0.2 consistent no-dropout"] == "gcn-x5-c no-dropout"


def test_the_paragraph_counts(study, page):
    cells, controls, runs = study
    section = page[page.index('<section id="perturbations"') :]
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", section.partition("</section>")[0])).split())
    noisy = {name: one.difference for name, one in controls.items() if cells[name].config.noise != "mean"}
    above = sum(gap.low > 0 for gap in noisy.values())
    assert " Noise gains nothing: of " in text or " are above both their control and their mean" in text
    assert f"The 95% interval lies above the control in {above} of {len(noisy)} perturbed cells" in text
    means = {name: f"{name} mean" for name in noisy if f"{name} mean" in runs}
    gains = [studies.paired_difference(runs[name], runs[mean], bounds=(0.0, 1.0))[0] for name, mean in means.items()]
    better, worse = sum(gain.low > 0 for gain in gains), sum(gain.high < 0 for gain in gains)
    said = f"without noise, it lies above in {better} of {len(gains)} cells and below in {worse}."
    assert f"Against training on the mean of the same graphs {said}" in text


def test_the_page(folder, page):
    assert "Does any perturbation help?" in page
    assert (folder / "figures" / "perturbations.svg").exists()
