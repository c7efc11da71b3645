"""A whole study of attacks on a small graph: level 0 is the plain graph, and work is taken up where it was."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.attacks import add_links, count_links
from fishergcn.errors import DataFileError
from fishergcn.execution import _training as training
from fishergcn.streams import run_key
from fishergcn.studies import (
    ATTACKS,
    RunStore,
    _attack,
    compare,
    estimate,
    load_preset,
    make_plan,
    open_runs,
    paired_difference,
    run,
    summarize,
    write_archive,
)

LEVELS = {
    "links-added": (0.2, 0.5),
    "links-removed": (0.5,),
    "bures-ball": (0.3,),
    "prbcd": (0.1,),
    "features": (0.5,),
    "training-links": (0.5,),
}
SPLITS = ("per-class:4+6:1", "per-class:4+6:2")
SMALLER = {"bures-ball": {"rank": 4, "steps": 5}, "prbcd": {"runs": 1, "steps": 5, "block": 300}}


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(3)
    nodes, classes = 60, 3
    labels = np.arange(nodes) % classes
    links = np.triu(rng.random((nodes, nodes)) < np.where(labels[:, None] == labels, 0.15, 0.02), 1)
    links[0, 0] = True  # a link from a node to itself
    words = rng.random((nodes, 24)) < np.where(np.arange(24)[None] % classes == labels[:, None], 0.3, 0.1)
    adjacency = (links | links.T).astype(np.float64)
    return Graph(adjacency, sparse.csr_array(words.astype(np.float32)), labels, name="planted")


@pytest.fixture(scope="module")
def preset():
    quick = load_preset("robustness-quick")
    attacks = {
        name: {**values, "levels": LEVELS[name], **SMALLER.get(name, {})} for name, values in quick.attacks.items()
    }
    config = TrainConfig(max_epochs=10, hidden=8, rank=4, dtype="float64")
    return dataclasses.replace(quick, attacks=attacks, config=config)


@pytest.fixture(scope="module")
def plan(preset, graph):
    return make_plan(preset, datasets=[graph], methods=["fishergcn"], splits=SPLITS)


def do(plan, folder, **options):
    with run(plan, folder, **{"device": "cpu", "workers": 1, **options}) as runs:
        return runs.counts()


@pytest.fixture(scope="module")
def done(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    assert do(plan, folder) == {"ok": len(plan)}
    return folder


def table(folder):
    with open_runs(folder) as runs:
        return [(name, dataclasses.replace(record, seconds=0.0)) for name, record in runs.entries()]


def test_every_run_is_there_once_with_the_size_of_its_change(done, plan, graph):
    found = table(done)
    for attack in ATTACKS:
        here = [record for _, record in found if record.extra["attack"] == attack]
        assert {record.extra["level"] for record in here} == {0.0, *LEVELS[attack]}
        runs = 1 if attack == "prbcd" else 2
        assert len(here) == 3 * runs * (1 + len(LEVELS[attack]))  # the method, its control and the baseline
    assert len(found) == len(plan) == len({(name, record.split, record.seed) for name, record in found})
    sizes = {(record.extra["attack"], record.extra["level"]): record.extra["size"] for _, record in found}
    links = graph.num_links - graph.num_self_links
    assert sizes["links-added", 0.2] == round(0.2 * links)
    assert 0 < sizes["prbcd", 0.1] <= round(0.1 * links)
    assert all(math.isnan(record.val_accuracy) and record.curves == {} for _, record in found)


def test_level_zero_is_the_plain_graph(done, plan, graph):
    chosen = [splits.parse(graph, name) for name in SPLITS]
    for method in plan.methods:
        records = train(graph, method, chosen, 1, plan.cells[0].config, device="cpu")
        clean = {record.split: record.test_accuracy for record in records}
        for _, record in table(done):
            if record.method == method and record.extra["level"] == 0:
                assert record.test_accuracy == clean[record.split]
                assert record.extra["size"] == 0


def test_training_under_noise_is_training_on_that_graph(done, plan, graph):
    count = round(0.5 * count_links(graph.adjacency))
    adjacency = add_links(graph.adjacency, count, run_key("planted", "training-links", 0))
    noisy = Graph(adjacency, graph.features, graph.labels, name="planted")
    split = splits.parse(noisy, SPLITS[1])
    [expected] = train(noisy, "fishergcn", split, 1, plan.cells[0].config, device="cpu")
    [found] = [
        record for name, record in table(done) if (name, record.split) == ("fishergcn training-links 0.5", split.name)
    ]
    assert found.test_accuracy == expected.test_accuracy
    assert math.isclose(found.test_cross_entropy, expected.test_cross_entropy, rel_tol=1e-12)


@pytest.mark.slow
def test_worker_processes_find_the_same(done, plan, tmp_path):
    assert do(plan, tmp_path, workers=2) == {"ok": len(plan)}
    assert table(tmp_path) == table(done)


def test_an_interrupted_study_ends_the_same(done, plan, tmp_path, monkeypatch):
    add, calls = RunStore.add, []

    def stop(self, cell, records):
        if len(calls) == 20:
            raise KeyboardInterrupt
        calls.append(cell)
        add(self, cell, records)

    monkeypatch.setattr(RunStore, "add", stop)
    with pytest.raises(KeyboardInterrupt):
        do(plan, tmp_path)
    monkeypatch.undo()
    before = table(tmp_path)
    assert 0 < len(before) < len(plan)
    # A cell of which one run is lost is measured again as a whole, with the same numbers.
    with RunStore(tmp_path, writable=True) as store, store._connection:
        store._connection.execute("DELETE FROM runs WHERE cell = 'gcn bures-ball 0.3' AND split = ?", (SPLITS[0],))
    assert do(plan, tmp_path) == {"ok": len(plan)}
    assert table(tmp_path) == table(done)


def test_nothing_is_trained_again_when_all_is_done(done, plan, monkeypatch):
    monkeypatch.setattr(training, "train_chunk", None)  # would fail if called
    before = table(done)
    assert do(plan, done) == {"ok": len(plan)}
    assert table(done) == before


def test_other_settings_are_refused(done, preset, graph):
    with pytest.raises(
        DataFileError, match=r"other settings; you asked for: cells none instead of gcn links-added 0, "
    ):
        do(make_plan(preset, datasets=[graph], methods=["fishergcn"], splits=SPLITS, attacks=["prbcd"]), done)
    attacks = {**preset.attacks, "links-added": {**preset.attacks["links-added"], "draws": 3}}
    harder = dataclasses.replace(preset, attacks=attacks)
    with pytest.raises(DataFileError, match="you asked for: draws 3 instead of 2 "):
        do(make_plan(harder, datasets=[graph], methods=["fishergcn"], splits=SPLITS), done)
    with pytest.raises(DataFileError, match="you asked for: measure training instead of attack; preset quick"):
        do(make_plan("quick", epochs=1), done)


def test_an_attack_that_breaks_leaves_the_others(plan, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(_attack, "worst_in_ball", broken)
    counts = do(plan, tmp_path)
    assert counts["failed"] > 0
    failed = {name for name, record in table(tmp_path) if record.status == "failed: RuntimeError: out of luck"}
    fine = {name for name, record in table(tmp_path) if record.status == "ok"}
    assert {"gcn bures-ball 0", "gcn bures-ball 0.3"} <= failed
    assert {"gcn links-added 0.5", "gcn links-removed 0.5"} <= fine
    assert not failed & fine
    assert sum(name == "gcn prbcd 0.1" for name, _ in table(tmp_path)) <= 1  # one run is planned
    monkeypatch.undo()
    assert do(plan, tmp_path) == {"ok": len(plan)}


def test_a_network_that_diverged_has_nothing_to_attack(plan, tmp_path, monkeypatch):
    real = training.train_chunk

    def diverging(problem, runs, *rest, **options):
        records = real(problem, runs, *rest, **options)
        return [dataclasses.replace(each, status="diverged") if each.split == SPLITS[0] else each for each in records]

    monkeypatch.setattr(training, "train_chunk", diverging)
    some = dataclasses.replace(plan, cells=tuple(cell for cell in plan.cells if cell.method == "gcn"))
    counts = do(some, tmp_path)
    assert counts["diverged"] == sum(split == SPLITS[0] for cell in some.cells for split, _ in some.runs(cell))
    assert counts["ok"] == len(some) - counts["diverged"]
    for name, record in table(tmp_path):
        if record.status == "ok" and "training" not in name:
            assert 0 <= record.test_accuracy <= 1


def test_high_order_methods(preset, graph, tmp_path):
    some = make_plan(
        preset, datasets=[graph], methods=["gcn-t"], splits=SPLITS[:1], attacks=["links-removed", "prbcd", "bures-ball"]
    )
    assert do(some, tmp_path) == {"ok": 12}


def test_statistics_are_those_of_training_studies(done, tmp_path):
    with open_runs(done) as runs:
        cells, compared = summarize(runs), compare(runs)
        values = {
            name: {(record.split, record.seed): record.test_accuracy for _, record in runs.entries("planted", name)}
            for name in ("gcn links-added 0.5", "gcn-x5 links-added 0.5", "fishergcn links-added 0.5")
        }
        write_archive(tmp_path / "copy", runs)
        with open_runs(tmp_path / "copy") as kept:
            assert (summarize(kept), compare(kept)) == (cells, compared)
            assert (kept.plan, kept.facts) == (runs.plan, runs.facts)
            assert list(kept.records()) == [
                dataclasses.replace(each, seconds=round(each.seconds, 3)) for each in runs.records()
            ]
    plain, control, perturbed = values
    [found] = [each for each in cells if each.cell == perturbed]
    assert found.accuracy == estimate(values[perturbed], bounds=(0.0, 1.0))
    assert found.loss is None
    assert found.options == {"attack": "links-added", "level": 0.5, "draws": 2}
    assert found.extra == {"size": 58.0}
    roles = {(each.cell, each.reference): each for each in compared}
    assert roles[perturbed, control].role == "control"
    assert roles[perturbed, control].difference == paired_difference(values[perturbed], values[control])[0]
    assert roles[perturbed, plain].role == "baseline"
    assert all(each.cell.split()[1:] == each.reference.split()[1:] for each in compared)


@pytest.mark.parametrize(("samples", "control"), [(1, "gcn"), (3, "gcn-x3"), (5, "gcn-x5")])
def test_the_control_follows_the_number_of_samples(preset, graph, samples, control):
    plan = make_plan(preset, datasets=[graph], methods=["fishergcn"], splits=SPLITS, samples=samples)
    assert set(plan.methods) == {"gcn", control, "fishergcn"}
    for cell in plan.cells:
        if cell.method == "fishergcn":
            [found] = [other for other, role in plan.references(cell).items() if role == "control"]
            assert (found.method, found.options) == (control, cell.options)
