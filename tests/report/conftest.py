"""Folders with made-up runs, and the reports written from them (once, since drawing takes seconds)."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

import fishergcn
from fishergcn import Graph, datasets
from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks
from fishergcn.models import Candidate, Selection, TrainedModel, save_models
from fishergcn.report import write_report
from fishergcn.splits import Split
from fishergcn.studies import Cell, Plan, Published, RunStore
from fishergcn.training import RunRecord, TrainConfig

HOSTILE = "<script>window.hacked = 1</script>"
EIGENVALUES = (1.8 * 0.97 ** np.arange(12)).tolist()
SCORES = [f"{part}_{name}" for part in ("test", "val") for name in ("accuracy", "loss", "cross_entropy")]
GAINS = {"gcn": 0.0, "gcn-x5": 0.002, "fishergcn": 0.0022}


def _plan(names, *, published=(), variants=(), title="A small experiment", splits=5, seeds=2, methods=GAINS):
    base = TrainConfig(max_epochs=12, rank=4)
    cells = []
    for name in names:
        cells += [Cell(name, method, method, "", base) for method in methods]
        cells += [
            Cell(name, f"fishergcn {label}", "fishergcn", label, TrainConfig(max_epochs=12, **{"rank": 4, **change}))
            for label, change in variants
        ]
    digests = {name: datasets.load(name).digest if name in datasets.available() else "ab" * 32 for name in names}
    splits = tuple(f"shuffled:{seed}" for seed in range(2019, 2019 + splits))
    seeds = tuple(range(2019, 2019 + seeds))
    return Plan("made-up", title, "Nowhere", ("A note.",), tuple(cells), splits, seeds, digests, tuple(published))


def _record(cell, split, seed, digest, status="ok"):
    rng = np.random.default_rng([split_seed(split), seed, *cell.name.encode()])
    luck = np.random.default_rng(split_seed(split)).normal(0, 0.02)
    accuracy = 0.8 + luck + GAINS.get(cell.method, 0.0) + rng.normal(0, 0.003) - 0.01 * max(0.0, cell.config.radius - 1)
    epochs = int(rng.integers(8, 13))
    falling = np.exp(-np.arange(epochs) / 4)
    curves = {
        "train_loss": (0.7 + falling + 0.02 * rng.random(epochs)).tolist(),
        "train_accuracy": (0.95 - 0.6 * falling).tolist(),
        "val_loss": (1.0 + falling + 0.02 * rng.random(epochs)).tolist(),
        "val_accuracy": (accuracy - 0.5 * falling).tolist(),
    }
    values = (accuracy, 1.05 + rng.normal(0, 0.02), 0.7, accuracy, 1.0, 0.7)
    scores = dict(zip(SCORES, values, strict=True)) if status == "ok" else {}
    shape = (cell.config.radius * rng.random(4)).tolist() if cell.method == "fishergcn" else []
    versions = {"fishergcn": "0.1.0", "torch": "2.13"}
    return RunRecord(
        cell.dataset, cell.method, split, seed, status, epochs, scores, curves, shape, 0.5, "cpu", versions,
        cell.config.to_dict(), digest,
    )  # fmt: skip


def split_seed(split):
    return int(split.rpartition(":")[2])


def _fill(folder, plan, *, failing=None, spectra=True, **remarks):
    folder.mkdir(parents=True, exist_ok=True)
    with RunStore(folder, writable=True) as store:
        store.begin(plan, **remarks)
        for name in plan.datasets if spectra else ():
            store.remember(f"spectrum {name} renormalized", lambda: EIGENVALUES)
        for cell in plan.cells:
            records = [_record(cell, split, seed, plan.digests[cell.dataset]) for split, seed in plan.runs()]
            if failing is not None and cell == plan.cells[-1]:
                split, seed = plan.splits[-1], plan.seeds[-1]
                records[-1] = _record(cell, split, seed, plan.digests[cell.dataset], failing)
            store.add(cell, records)
    return folder


@pytest.fixture(scope="session")
def make_plan():
    return _plan


@pytest.fixture(scope="session")
def fill():
    return _fill


@pytest.fixture(scope="session")
def charts_of():
    """Return a function that returns the charts of a page by name, as its script reads them."""

    def read(folder):
        page = (folder / "report.html").read_text(encoding="utf-8")
        found = re.search(r'<script type="application/json" id="charts-data">(.*?)</script>', page)
        return {chart["name"]: chart for chart in json.loads(found[1])}

    return read


@pytest.fixture(scope="session")
def hostile_name():
    return HOSTILE


@pytest.fixture(scope="session")
def plain_report(tmp_path_factory):
    """Return the folder of a report on Cora with published numbers."""
    published = Published("cora", "gcn", "paper", accuracy=0.8, accuracy_std=0.02, loss=1.1)
    folder = _fill(
        tmp_path_factory.mktemp("plain"), _plan(["cora"], published=[published]), command="fishergcn reproduce x"
    )
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def hostile_report(tmp_path_factory):
    """Return the folder of a report in which every text from outside tries to be markup."""
    plan = _plan([HOSTILE, "$x_{$ & </style>"], title="</title><script>window.hacked = 2</script>")
    command = "x </code><img src=x onerror='window.hacked=3'> --out \"a & b\""
    folder = _fill(tmp_path_factory.mktemp("hostile"), plan, failing="failed: <b onclick=x>boom</b>", command=command)
    links = NodeLinks(HOSTILE, HOSTILE, 0.9, ((HOSTILE, "]]>", True, 0.5),), {HOSTILE: 0, "]]>": 1})
    record = GeometryRecord(HOSTILE, (2.0,), (1.0, -1.0), 0.1, (0.2,), (), links)
    (folder / "<b>").mkdir()
    record.save(folder / "<b>" / "geometry.json")
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def ablation_report(tmp_path_factory):
    """Return the folder of a report with variants: three more radii, and one that changes a word."""
    variants = [(f"radius={radius:g}", {"radius": radius}) for radius in (2.0, 0.5, 1.0)]
    variants += [("noise=gaussian", {"noise": "gaussian"}), ("rank=3 radius=2", {"rank": 3, "radius": 2.0})]
    folder = _fill(tmp_path_factory.mktemp("ablation"), _plan(["cora"], variants=variants))
    write_report(folder)
    return folder


def planted(nodes=120, classes=3, name=HOSTILE):
    """Return a graph of a few groups, with names that try to be markup, and a split of its nodes."""
    rng = np.random.default_rng(0)
    labels = np.arange(nodes) % classes
    likely = np.where(labels[:, None] == labels, 0.12, 0.02)
    links = np.argwhere(np.triu(rng.random((nodes, nodes)) < likely, 1))
    features = rng.random((nodes, 6)) + 0.4 * np.eye(6)[labels]
    names = [HOSTILE, "]]> & <b>", *(f"class {each}" for each in range(2, classes))]
    ids = [f"<i>{each}" for each in range(nodes)]
    options = {"features": features, "labels": labels, "class_names": names, "node_ids": ids, "name": name}
    order = rng.permutation(nodes)
    split = Split("mine <b>", order[: nodes // 3], order[nodes // 3 : nodes // 2], order[nodes // 2 :])
    return Graph.from_edges(links, **options), split


SHORT = fishergcn.TrainConfig(max_epochs=8, scaling="none")


SENTENCES = (
    "Expected accuracy on nodes without a label: 81.0%.",
    "gcn was chosen from 2 candidates.",
    "The links help: <b>.",
)


def _selection(sentences=SENTENCES, majority_low=0.3):
    settings = {"scaling": "none", "bias": True, HOSTILE: 1}
    found = (
        Candidate("majority", "majority", {}, "the most frequent class", 0.34, 0.2, 0.5, 1.1, 3, 0.1),
        Candidate("gcn", "gcn", settings, f"graph convolutions, {HOSTILE}", 0.81, 0.7, 0.9, 0.6, 3, 2.0, 1.0),
        Candidate("gcn-t", "gcn-t", {}, "over walks of several steps", left_out="it would take too long <b>"),
    )
    known = {"value": 0.8, "low": 0.7, "high": 0.9, "majority": 0.34, "majority_low": majority_low}
    return Selection(found, "gcn", **known, judges=60, splits=3, sentences=sentences, seconds=12.0)


@pytest.fixture(scope="session")
def model_report(tmp_path_factory):
    """Return the folder of a model of a hostile graph, with candidates, geometry and a page."""
    graph, split = planted()
    records = fishergcn.train(graph, "gcn", split, 3, SHORT, workers=1, keep_weights=True)
    model = TrainedModel.from_records(graph, records[0], split)
    folder = tmp_path_factory.mktemp("model") / "model"
    dataclasses.replace(model, selection=_selection()).save(folder, runs=records)
    links = NodeLinks(HOSTILE, HOSTILE, 0.9, ((HOSTILE, "]]>", True, 0.5), ("]]>", "c", False, -0.2)),
                      {HOSTILE: 0, "]]>": 1, "c": 0})  # fmt: skip
    GeometryRecord(HOSTILE, (2.0, 1.0), (1.0, -1.0), 0.1, (0.2, 0.1), (0.05, 0.1, 0.07), links).save(
        folder / "geometry.json"
    )
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def models_report(tmp_path_factory):
    """Return a folder with models of three methods and their pages."""
    graph, split = planted()
    records = fishergcn.train(graph, ["gcn", "mlp", "lp"], split, 2, SHORT, workers=1, keep_weights=True)
    folder = tmp_path_factory.mktemp("models") / "models"
    save_models(folder, graph, records, split)
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def tuning_report(tmp_path_factory):
    """Return the folder of a search for settings, with its page."""
    graph, split = planted()
    folder = tmp_path_factory.mktemp("tuning")
    fishergcn.studies.tune(graph, "fishergcn", split, folder, config=SHORT, trials=6)
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def search_report(tmp_path_factory):
    """Return the folder in which ``fit`` kept its runs, with its page."""
    graph, split = planted()
    folder = tmp_path_factory.mktemp("search")
    settings = {"max_epochs": 8}
    fishergcn.fit(graph, split, "cpu", methods=["majority", "mlp", "gcn"], settings=settings, workers=1, folder=folder)
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def robustness_report(tmp_path_factory):
    """Return the folder of a robustness study of made-up runs, with its page."""
    config = fishergcn.TrainConfig()
    cells = [
        Cell(HOSTILE, f"{method} {attack} {level}", method, "", config, {"attack": attack, "level": level})
        for method in GAINS
        for attack in ("links-added", "bures-ball")
        for level in (0.0, 0.25, 0.5)
    ]
    splits = tuple(f"shuffled:{seed}" for seed in range(7))
    plan = Plan("robustness", "Robustness <b>", "Here", (), tuple(cells), splits, (2019,), {HOSTILE: "ab" * 32},
                measure="attack")  # fmt: skip
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("robustness")
    with RunStore(folder, writable=True) as store:
        store.begin(plan, command="fishergcn robustness --out x")
        for cell in cells:
            level = cell.options["level"]
            extra = {**cell.options, "size": 0.04 * level}
            store.add(cell, [
                RunRecord(HOSTILE, cell.method, split, seed, "ok", 9,
                          {"test_accuracy": float(0.8 - 0.6 * level + 0.02 * rng.random())}, {}, [], 0.1, "cpu",
                          {"torch": "2"}, config.to_dict(), "ab" * 32, extra)
                for split, seed in plan.runs()
            ])  # fmt: skip
    write_report(folder)
    return folder


EVERY_KIND = ("plain_report", "hostile_report", "ablation_report", "robustness_report", "model_report",
              "models_report", "tuning_report", "search_report")  # fmt: skip


@pytest.fixture(scope="session", params=EVERY_KIND)
def any_report(request):
    """Return the folder of a page, of each kind in turn."""
    return request.getfixturevalue(request.param)


# The browser: headless Chromium, offline.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed (tools/install_chromium.sh)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra dev)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    yield made
    made.quit()


@pytest.fixture
def show(browser):
    """Return a function that opens a report at a width and in a color scheme, and checks the console."""

    def opened(folder, *, width=1200, scheme="light"):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        browser.get((folder / "report.html").as_uri())
        return browser

    yield opened
    assert browser.get_log("browser") == []


@pytest.fixture(scope="session")
def planted_graph():
    """Return a small graph of a few groups with hostile names, and a split of it."""
    return planted()
