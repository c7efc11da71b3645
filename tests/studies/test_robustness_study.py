"""A whole study on a small graph: level 0 is the plain graph, work is taken up, results are summed up."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math

import numpy as np
import pytest
import torch
from fishergcn.drawing._robustness import draw_study, write_pictures
from fishergcn.studies._robustness_points import Point, PointFile, points_csv, read_points
from fishergcn.studies._robustness_settings import ATTACKS, load_settings
from fishergcn.studies._robustness_study import run_study
from fishergcn.studies._robustness_summary import markdown, summarize, summary_csv

from fishergcn import Graph, TrainConfig, train
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import _robustness_study as module
from fishergcn.studies._resampling import estimate, paired_difference

CPU = torch.device("cpu")
LEVELS = {
    "links-added": (0.2, 0.5),
    "links-removed": (0.5,),
    "bures-ball": (0.3,),
    "prbcd": (0.1,),
    "features": (0.5,),
    "training-links": (0.5,),
}
SPLITS = "per-class:4+6:1,per-class:4+6:2"


@pytest.fixture(scope="module")
def config():
    return TrainConfig(max_epochs=10, hidden=8, rank=4, dtype="float64")


@pytest.fixture(scope="module")
def tiny(config):
    return load_settings(
        "quick", methods=("fishergcn",), splits=SPLITS, config=config, levels=LEVELS, ball_rank=4, ball_steps=5,
        prbcd_runs=1, prbcd_steps=5, prbcd_block=300,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done(tiny, graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "planted"
    lines = []
    run_study(tiny, graph, folder, CPU, lines.append)
    return folder, lines


def test_every_point_is_there_once(done, tiny, graph):
    folder, lines = done
    points = list(read_points(folder / "points.jsonl"))
    assert len({point.key for point in points}) == len(points)
    for attack in ATTACKS:
        runs = 1 if attack == "prbcd" else 2
        found = [point for point in points if point.attack == attack]
        assert {point.level for point in found} == {0.0, *LEVELS[attack]}
        assert len(found) == 2 * runs * (1 + len(LEVELS[attack]))  # the method and its control
    links = graph.num_links - graph.num_self_links
    sizes = {(point.attack, point.level): point.size for point in points}
    assert sizes["links-added", 0.2] == round(0.2 * links)
    assert 0 < sizes["prbcd", 0.1] <= round(0.1 * links)
    assert lines[-1].endswith(f"done, {len(points)} points.")


def test_level_zero_is_the_plain_graph(done, tiny, graph):
    from fishergcn import splits

    points = list(read_points(done[0] / "points.jsonl"))
    for method in tiny.methods:
        records = train(graph, method, [splits.parse(graph, name) for name in SPLITS.split(",")], 1, tiny.config)
        clean = {record.split: record.test_accuracy for record in records}
        for point in points:
            if point.method == method and point.level == 0:
                assert point.accuracy == clean[point.split]
                assert point.size == 0


def test_training_under_noise_is_training_on_that_graph(done, tiny, graph):
    from fishergcn import splits
    from fishergcn.attacks._links import add_links, count_links
    from fishergcn.streams._philox import run_key

    count = round(0.5 * count_links(graph.adjacency))
    adjacency = add_links(graph.adjacency, count, run_key("planted", "training-links", 0))
    noisy = Graph(adjacency, graph.features, graph.labels, name="planted")
    records = train(noisy, "fishergcn", splits.parse(noisy, "per-class:4+6:2"), 1, tiny.config)
    [found] = [
        point
        for point in read_points(done[0] / "points.jsonl")
        if (point.attack, point.level, point.method, point.split)
        == ("training-links", 0.5, "fishergcn", "per-class:4+6:2")
    ]
    assert found.accuracy == records[0].test_accuracy
    assert math.isclose(found.cross_entropy, records[0].test_cross_entropy, rel_tol=1e-12)


def test_an_interrupted_study_ends_the_same(done, tiny, graph, tmp_path, monkeypatch):
    whole = (done[0] / "points.jsonl").read_text().splitlines()
    append = PointFile.append
    calls = []

    def stop(self, points):
        if len(calls) == 9:
            raise KeyboardInterrupt
        calls.append(None)
        append(self, points)

    monkeypatch.setattr(PointFile, "append", stop)
    with pytest.raises(KeyboardInterrupt):
        run_study(tiny, graph, tmp_path, CPU, lambda _: None)
    monkeypatch.undo()
    with (tmp_path / "points.jsonl").open("a") as stream:
        stream.write('{"dataset": "plan')  # killed in the middle of a write
    before = (tmp_path / "points.jsonl").read_text().splitlines()[:-1]
    assert 0 < len(before) < len(whole)
    run_study(tiny, graph, tmp_path, CPU, lambda _: None)
    assert (tmp_path / "points.jsonl").read_text().splitlines()[: len(before)] == before
    assert sorted((tmp_path / "points.jsonl").read_text().splitlines()) == sorted(whole)


def test_nothing_is_trained_again_when_all_is_done(done, tiny, graph, monkeypatch):
    monkeypatch.setattr(module, "train_runs", None)  # would fail if called
    before = (done[0] / "points.jsonl").read_bytes()
    run_study(tiny, graph, done[0], CPU, lambda _: None)
    assert (done[0] / "points.jsonl").read_bytes() == before


def test_other_settings_are_refused(done, tiny, graph):
    with pytest.raises(DataFileError, match=r"other settings; now asked for: .*links-added none instead of 0.2, 0.5;"):
        run_study(tiny.only(("prbcd",)), graph, done[0], CPU, lambda _: None)
    longer = dataclasses.replace(tiny, config=dataclasses.replace(tiny.config, max_epochs=11), seeds=2)
    with pytest.raises(DataFileError, match="now asked for: max_epochs 11 instead of 10; seeds 2 instead of 1 "):
        run_study(longer, graph, done[0], CPU, lambda _: None)


def test_methods_of_both_graphs_are_refused(tiny, graph, tmp_path):
    both = dataclasses.replace(tiny, methods=("gcn", "gcn-t"))
    assert [family.methods for family in both.families()] == [("gcn",), ("gcn-t",)]
    with pytest.raises(InputError, match="share a propagation matrix"):
        run_study(both, graph, tmp_path, CPU, lambda _: None)


def test_high_order_methods(graph, config, tmp_path):
    levels = {"links-removed": (0.5,), "prbcd": (0.1,), "bures-ball": (0.5,)}
    some = load_settings(
        "quick", methods=("gcn-t",), splits="per-class:4+6:1", config=config, levels=levels, ball_rank=4,
        ball_steps=3, prbcd_steps=4, prbcd_block=300,
    )  # fmt: skip
    run_study(some, graph, tmp_path, CPU, lambda _: None)
    assert len(list(read_points(tmp_path / "points.jsonl"))) == 6


def made_up_points():
    rng = np.random.default_rng(0)
    return [
        Point("cora", method, attack, level, f"shuffled:{split}", 2019, 100 * level, float(rng.random()), 1.0)
        for method in ("gcn-x5", "fishergcn")
        for attack in ("links-added", "bures-ball")
        for level in (0.0, 0.25, 0.5)
        for split in range(5)
    ]


def test_summary_is_the_bootstrap_of_the_points():
    points = made_up_points()
    cells = summarize(points)
    assert len(cells) == 12
    [cell] = [each for each in cells if (each.attack, each.level, each.method) == ("links-added", 0.5, "fishergcn")]
    ours, theirs = (
        {
            (point.split, point.seed): point.accuracy
            for point in points
            if (point.attack, point.level, point.method) == ("links-added", 0.5, method)
        }
        for method in ("fishergcn", "gcn-x5")
    )
    assert cell.accuracy == estimate(ours)
    assert cell.difference == paired_difference(ours, theirs)[0]
    assert cell.control == "gcn-x5"
    rows = list(csv.DictReader(io.StringIO(summary_csv(cells))))
    assert float(rows[-1]["accuracy"]) == cells[-1].accuracy.mean
    text = markdown(cells)
    assert f"{100 * cell.accuracy.mean:.2f}" in text
    assert "*fishergcn − gcn-x5*" in text
    assert "D_B = 100.0000 for gcn-x5, fishergcn" in text


def test_points_survive_csv(tmp_path):
    points = made_up_points()
    path = tmp_path / "points.csv"
    path.write_text(points_csv(points))
    found = list(read_points(path))
    assert {point.key for point in found} == {point.key for point in points}
    assert all(
        abs(a.accuracy - b.accuracy) < 1e-6 for a, b in zip(found, sorted(points, key=lambda p: p.key), strict=True)
    )
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataFileError, match="does not hold points"):
        list(read_points(path))


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    cells = summarize(made_up_points())
    paths = write_pictures(cells, tmp_path)
    assert [path.name for path in paths] == ["robustness-cora-accuracy.svg", "robustness-cora-difference.svg"]
    assert "fishergcn − gcn-x5" in paths[1].read_text()
    assert json.loads(paths[0].with_suffix(".json").read_text())["title"] == "Robustness, cora"
    assert draw_study([cell for cell in cells if cell.method == "gcn-x5"], "difference") is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"levels": {"links-added": (0.5, 0.2)}}, "must ascend"),
        ({"levels": {"links-added": (0.0,)}}, "greater than 0"),
        ({"levels": {"fire": (0.1,)}}, "attack must be one of"),
        ({"methods": ("gnc",)}, "method must be one of"),
        ({"methods": ()}, "at least one data set and one method"),
        ({"seeds": 0}, "seeds must be at least 1"),
    ],
)
def test_settings_are_checked(changes, words):
    with pytest.raises(InputError, match=words):
        load_settings("quick", **changes)


def test_presets_name_every_attack_and_enough_runs():
    full = load_settings("full")
    assert set(full.levels) == set(ATTACKS)
    assert full.datasets == ("cora", "citeseer", "pubmed")
    assert int(full.splits) * full.seeds >= 10
    assert full.prbcd_runs >= 10
    assert max(full.levels["links-added"]) == max(full.levels["links-removed"]) == 0.5
