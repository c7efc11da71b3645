"""The study of perturbations in miniature: all cells run, with control and mean, and the words count them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, studies
from fishergcn.report import write_report
from fishergcn.report._outcome import read_outcome
from fishergcn.report._perturbations import draw_perturbations, judge, paragraph
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
def outcome(folder):
    with studies.open_runs(folder) as runs:
        return read_outcome(runs)


def test_all_cells_run_and_have_their_references(outcome):
    assert not outcome.failed
    judged = judge(outcome)
    names = {each.neighborhood for each in judged}
    swept = {"high", "low", "random", "nodes", "polynomial", "links", "link-flip", "link-drop", "spatial"}
    assert names == swept | {f"{end}, {metric}" for end in ("high", "low") for metric in ("log-det", "frobenius")}
    for name in swept:
        radii = {each.radius for each in judged if each.neighborhood == name and each.plain and each.noisy}
        assert {0.05, 0.2, 0.5} <= radii
        assert any(each.mean for each in judged if each.neighborhood == name)
    controls = {one.cell: one.reference for one in outcome.comparisons if one.role == "control"}
    assert controls["fishergcn nodes 0.2 no-dropout"] == "gcn-x5 no-dropout"
    assert controls["fishergcn nodes 0.2"] == "gcn-x5"
    assert controls["fishergcn-c nodes 0.2 consistent"] == "gcn-x5-c"
    assert controls["fishergcn-c nodes 0.2 consistent no-dropout"] == "gcn-x5-c no-dropout"


def test_differences_from_the_mean_are_paired(outcome):
    [found] = [each for each in judge(outcome) if each.cell.name == "fishergcn links 0.5"]
    ours, theirs = (
        np.array([record.test_accuracy for record in outcome.runs[outcome.cells("planted")[name]]])
        for name in ("fishergcn links 0.5", "fishergcn links 0.5 mean")
    )
    assert found.mean.mean == pytest.approx((ours - theirs).mean())


def test_the_paragraph_counts(outcome):
    judged = judge(outcome)
    noisy = [each for each in judged if each.noisy]
    above = sum(each.control.low > 0 for each in noisy)
    text = paragraph(judged)
    assert text.startswith("Noise gains nothing: of ") or " are above their control and above" in text
    assert (f"The 95% interval lies above the control in {above} of {len(noisy)} perturbed cells") in text
    assert "mean of the same graphs without noise" in text
    assert paragraph([]) == "No perturbed cell has a control to compare with."


def test_the_picture_and_the_page(folder, outcome):
    picture = draw_perturbations(judge(outcome))
    curves = {line.split(",")[1] for line in picture.data.splitlines()[1:]}
    assert {"nodes", "polynomial", "links", "link-drop"} <= curves
    page = write_report(folder).read_text(encoding="utf-8")
    assert "Does any perturbation help?" in page
    assert (folder / "figures" / "perturbations.svg").exists()
