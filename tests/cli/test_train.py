"""``fishergcn train`` on data sets: options, tables, saved models."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fishergcn import RunRecord, TrainConfig, splits
from fishergcn import train as train_runs
from fishergcn._base.text import signed_points
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.models import load_model

FEW = ["--epochs", 2, "--hidden", 4, "--workers", 1]


def run(*arguments):
    result = CliRunner().invoke(app, ["train", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def cora():
    """One small comparison, used by several tests."""
    options = [
        "--dataset",
        "cora",
        "--method",
        "gcn",
        "--method",
        "gcn-x5",
        "--method",
        "fishergcn",
        "--seeds",
        2,
    ]
    return run(*options, *FEW, "--workers", 2, "--json", "--quiet")


class TestDataSet:
    def test_numbers_are_those_of_the_library(self, cora):
        from fishergcn import datasets

        graph = datasets.load("cora")
        config = TrainConfig.named("general", max_epochs=2, hidden=4)
        expected = train_runs(graph, "gcn-x5", splits.public(graph), 2, config)
        found = [each for each in json.loads(cora.stdout)["runs"] if each["method"] == "gcn-x5"]
        assert [each["seed"] for each in found] == [2019, 2020]
        for one, other in zip(found, expected, strict=True):
            assert one["test_accuracy"] == other.test_accuracy
            assert one["test_loss"] == pytest.approx(other.test_loss, rel=1e-6)
            assert one["config"] == other.config

    def test_means_and_differences(self, cora):
        facts = json.loads(cora.stdout)
        runs = {(each["method"], each["seed"]): each["test_accuracy"] for each in facts["runs"]}
        for fact in facts["methods"]:
            values = [value for (method, _), value in runs.items() if method == fact["method"]]
            assert fact["runs"] == 2
            assert fact["test_accuracy"]["mean"] == pytest.approx(np.mean(values))
            assert fact["test_accuracy"]["std"] == pytest.approx(np.std(values, ddof=1))
        pairs = {(each["method"], each["reference"]): each["mean"] for each in facts["differences"]}
        assert set(pairs) == {("gcn-x5", "gcn"), ("fishergcn", "gcn-x5")}
        for (method, reference), mean in pairs.items():
            gaps = [runs[method, seed] - runs[reference, seed] for seed in (2019, 2020)]
            assert mean == pytest.approx(np.mean(gaps), abs=1e-12)

    def test_tables_and_progress(self):
        result = run("--dataset", "cora", "--method", "gcn", "--splits", "shuffled:2019", "--seeds", 2, *FEW)
        lines = [line.split() for line in result.stdout.splitlines()]
        rows = [line for line in lines if line[:1] == ["gcn"]]
        assert [row[1:3] for row in rows[:2]] == [["shuffled:2019", "2019"], ["shuffled:2019", "2020"]]
        assert rows[2][1] == "2"
        assert re.fullmatch(r"\d+\.\d\d±\d+\.\d\d", rows[2][2])
        told = result.stderr.splitlines()
        assert [re.split(":|,", line)[1].strip() for line in told] == ["gcn", "1/2 runs done", "2/2 runs done"]
        assert re.search(r"; gcn on cora: 2 epochs, validation [\d.]+%, test so far [\d.]+%$", told[-1])

    def test_several_splits_and_seeds(self):
        options = ["--splits", "per-class:0", "--splits", "per-class:5+5:1", "--seeds", 2, "--first-seed", 7]
        facts = json.loads(run("--dataset", "cora", "--method", "gcn", *options, *FEW, "--json", "--quiet").stdout)
        assert [(each["split"], each["seed"]) for each in facts["runs"]] == [
            ("per-class:20+30:0", 7),
            ("per-class:20+30:0", 8),
            ("per-class:5+5:1", 7),
            ("per-class:5+5:1", 8),
        ]

    def test_settings(self):
        options = {
            "--epochs": 1,
            "--hidden": "4,3",
            "--lr": 0.02,
            "--dropout": 0.1,
            "--weight-decay": 0.001,
            "--stopping": "patience",
            "--patience": 7,
            "--test-at": "best-val",
            "--samples": 2,
            "--rank": 3,
            "--radius": 0.2,
        }
        flat = [part for pair in options.items() for part in pair]
        more = ["--set", "noise=gaussian", "--set", "adversarial=false", "--set", "link-rate=0.1"]
        more += ["--set", "order=4"]
        text = run("--dataset", "cora", "--method", "fishergcn", *flat, *more, "--json", "--quiet").stdout
        expected = TrainConfig.named(
            "general",
            max_epochs=1,
            hidden=(4, 3),
            learning_rate=0.02,
            dropout=0.1,
            weight_decay=0.001,
            stopping="patience",
            patience=7,
            test_at="best-val",
            samples=2,
            rank=3,
            radius=0.2,
            noise="gaussian",
            adversarial=False,
            link_rate=0.1,
            order=4,
        )
        assert json.loads(text)["runs"][0]["config"] == expected.to_dict()

    def test_save_the_best_by_validation(self, tmp_path):
        out = tmp_path / "model"
        options = ["--dataset", "cora", "--method", "gcn", "--seeds", 3, *FEW, "--quiet"]
        told = run(*options, "--out", out).stderr
        runs = json.loads((out / "runs.json").read_text(encoding="utf-8"))["runs"]
        best = max(runs, key=lambda each: (each["val_accuracy"], -each["val_loss"]))
        assert len(runs) == 3
        loaded = load_model(out)
        assert loaded.record.seed == best["seed"]
        assert f"seed {best['seed']}, the best of 3 by validation accuracy" in told
        with pytest.raises(DataFileError, match="holds a saved model already; --overwrite"):
            run(*options, "--out", out)
        run(*options, "--first-seed", 5, "--out", out, "--overwrite")
        assert load_model(out).record.seed in (5, 6, 7)

    def test_several_methods_go_to_a_folder_each(self, tmp_path):
        options = ["--dataset", "cora", "--method", "gcn", "--method", "gcn-x2", *FEW, "--quiet"]
        for _ in range(2):
            run(*options, "--out", tmp_path / "both", "--overwrite")
        assert sorted(os.listdir(tmp_path / "both")) == ["gcn", "gcn-x2", "runs.json"]
        assert os.listdir(tmp_path) == ["both"]
        for method in ("gcn", "gcn-x2"):
            assert load_model(tmp_path / "both" / method).record.method == method

    @pytest.mark.slow
    def test_workers_give_the_same(self, tmp_path):
        options = ["--dataset", "cora", "--method", "gcn", "--seeds", 2, *FEW, "--json", "--quiet"]
        one, two = (
            json.loads(run(*options, "--workers", workers, "--out", tmp_path / str(workers)).stdout)["runs"]
            for workers in (1, 2)
        )
        assert [each["test_accuracy"] for each in one] == [each["test_accuracy"] for each in two]
        weights = [(tmp_path / str(workers) / "weights.safetensors").read_bytes() for workers in (1, 2)]
        assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "fishergnc"], "method must be one of .*did you mean 'fishergcn'"),
        (["--method", "gcn", "--method", "gcn"], "methods must be distinct, got gcn, gcn"),
        (["--device", "cuda:99"], "device 'cuda:99' is not available: torch sees [0-9]+ CUDA devices"),
        (["--device", "toaster"], "device must be 'cpu', 'cuda'"),
        (["--hidden", "0"], "hidden must be between 1 and 65536, got 0"),
        (["--hidden", "64;64"], "--hidden must be sizes of layers such as 64 or 64,64, got '64;64'"),
        (["--epochs", "0"], "--epochs must be at least 1"),
        (["--lr", "nan"], "--lr must be finite"),
        (["--dropout", "1"], "dropout must be at least 0.0 and less than 1.0, got 1"),
        (["--set", "stopping=never"], "stopping must be one of"),
        (["--set", "test_at=best"], "--test-at must be one of .*did you mean 'best-val'"),
        (["--set", "hiden=4"], "did you mean 'hidden'"),
        (["--set", "radius"], "--set must be name=value, got 'radius'"),
        (["--set", "order=many"], "order must be a whole number, got 'many'"),
        (["--set", "adversarial=1"], "adversarial must be true or false, got '1'"),
        (["--rank", "3", "--set", "rank=3"], "rank must be set once"),
        (["--method", "fishergcn-c", "--samples", "1"], "needs samples to be at least 2"),
        (["--seeds", "0"], "seeds must be at least 1"),
        (["--first-seed", "-1"], "the first seed must be at least 0"),
        (["--workers", "0"], "workers must be at least 1"),
        (["--splits", "0"], "splits must be at least 1, got 0"),
        (["--splits", "pubic"], "did you mean 'public'"),
        (["--splits", "held-out:20:0"], "needs a percent sign: 'held-out:20%:0'"),
        (["--splits", "public", "--splits", "public"], "distinct names"),
        (["--splits", "per-class:500+1:0"], "Every class must have at least"),
        (["--labels", "l.csv"], "--labels goes with --edges, not with --dataset"),
        (["--id", "name"], "--id goes with --edges, not with --dataset"),
        (["--edges", "e.csv"], "either a GRAPH .* or --edges must be given, got both"),
        (["--out", "there"], "The folder there holds other files"),
    ],
)
def test_refused_before_any_work(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_text("x")
    with pytest.raises(InputError, match=message) as caught:
        run("--dataset", "cora", "--quiet", *([] if "--out" in options else ["--out", "new"]), *options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["there"]


def test_a_folder_that_cannot_be_made_is_found_before_the_work(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("fishergcn.execution.train", lambda *_, **__: pytest.fail("the work has begun"))
    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(DataFileError, match=r"Cannot write the folder '.*/new/m': Read-only file system"):
        run("--dataset", "cora", "--out", tmp_path / "new" / "m")


def test_ctrl_c_is_one_line(monkeypatch, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fishergcn.execution.train", stop)
    result = CliRunner().invoke(
        app, ["train", "--dataset", "cora", "--method", "gcn", "--out", str(tmp_path / "new" / "m")]
    )
    assert result.exit_code == 130
    assert result.output == "fishergcn: stopped by SIGINT; nothing was saved.\n"
    assert os.listdir(tmp_path) == []


def test_no_graph():
    with pytest.raises(InputError, match=r"either a GRAPH .* or --edges must be given, got neither"):
        run()


def test_as_a_program(tmp_path):
    command = [sys.executable, "-m", "fishergcn", "train", "--dataset", "cora", "--method", "fishergnc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fishergcn: error: --method must be one of")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("samples", "control"), [(1, "gcn"), (3, "gcn-x3"), (5, "gcn-x5")])
def test_the_difference_follows_the_number_of_samples(samples, control):
    methods = [word for name in dict.fromkeys(["gcn", control, "fishergcn"]) for word in ("--method", name)]
    options = ["--dataset", "cora", *methods, "--samples", samples, "--splits", 2, *FEW, "--workers", 1, "--quiet"]
    facts = json.loads(run(*options, "--json").stdout)
    references = {each["method"]: each["reference"] for each in facts["differences"]}
    assert references["fishergcn"] == control
    values = {(each["method"], each["split"]): each["test_accuracy"] for each in facts["runs"]}
    gaps = [values["fishergcn", split] - values[control, split] for split in ("shuffled:2019", "shuffled:2020")]
    [found] = [each["mean"] for each in facts["differences"] if each["method"] == "fishergcn"]
    assert found == pytest.approx(np.mean(gaps), abs=1e-12)
    shown = [line.split() for line in run(*options).stdout.splitlines()]
    assert ["fishergcn", control, signed_points(found)] in [line[:3] for line in shown]


def test_several_data_sets(tmp_path):
    options = ["--dataset", "cora", "--dataset", "citeseer", "--method", "gcn", "--method", "gcn-x2", *FEW, "--quiet"]
    facts = json.loads(run(*options, "--json", "--out", tmp_path / "all").stdout)
    assert [(each["dataset"], each["method"]) for each in facts["methods"]] == [
        ("cora", "gcn"), ("cora", "gcn-x2"), ("citeseer", "gcn"), ("citeseer", "gcn-x2")
    ]  # fmt: skip
    assert load_model(tmp_path / "all" / "citeseer" / "gcn-x2").record.dataset == "citeseer"
    with pytest.raises(InputError, match="graphs must have distinct names, got cora, cora"):
        run("--dataset", "cora", "--dataset", "cora")


def fabricated(monkeypatch, runs, *options):
    """Return the facts of a command whose runs have these test accuracies, by method and seed."""
    records = [
        RunRecord(
            "cora", method, "public", seed, "ok" if accuracy == accuracy else "diverged", 3,
            {"test_accuracy": accuracy}, {}, [], 1.0, "cpu", {}, {}, "",
        )
        for (method, seed), accuracy in runs.items()
    ]  # fmt: skip
    monkeypatch.setattr("fishergcn.execution.train", lambda *_, **__: records)
    methods = [word for method in dict.fromkeys(method for method, _ in runs) for word in ("--method", method)]
    return json.loads(run("--dataset", "cora", *methods, "--json", *options).stdout)


@pytest.mark.parametrize(
    ("methods", "references"),
    [
        (
            ["gcn", "gcn-x5", "fishergcn", "fishergcn-t"],
            [("gcn-x5", "gcn"), ("fishergcn", "gcn-x5"), ("fishergcn-t", "gcn")],
        ),
        (["fishergcn", "gcn-x5"], [("fishergcn", "gcn-x5"), ("gcn-x5", "fishergcn")]),
    ],
)
def test_methods_are_compared_with_their_control_or_the_first(monkeypatch, methods, references):
    facts = fabricated(monkeypatch, {(method, 1): 0.5 for method in methods})
    assert [(each["method"], each["reference"]) for each in facts["differences"]] == references


def test_diverged_runs_are_counted_and_left_out(monkeypatch):
    runs = {("gcn", 1): 0.5, ("gcn", 2): 0.7, ("gcn-x5", 1): 0.8, ("gcn-x5", 2): float("nan")}
    facts = fabricated(monkeypatch, runs)
    assert [fact["diverged"] for fact in facts["methods"]] == [0, 1]
    assert facts["methods"][1]["test_accuracy"] == {"mean": 0.8, "std": None}
    [difference] = facts["differences"]
    assert difference["mean"] == pytest.approx(0.3)
    assert difference["low"] is None


def test_settings_by_name():
    given = [
        "hidden=4,2",
        " adversarial = False ",
        "class-weight=balanced",
        "stopping=none",
        "radius=0.5",
        "max_epochs=1",
    ]
    words = [word for text in given for word in ("--set", text)]
    [found] = json.loads(run("--dataset", "cora", "--method", "gcn", *words, "--json", "--quiet").stdout)["runs"]
    expected = {"hidden": [4, 2], "adversarial": False, "class_weight": "balanced", "stopping": "none", "radius": 0.5}
    assert expected.items() <= found["config"].items()
    assert found["epochs"] == found["config"]["max_epochs"] == 1


def test_the_help_shows_the_defaults_of_the_configuration():
    """They stand in the help as text, since a setting that is not given is left to the configuration."""
    names = {"epochs": "max_epochs", "lr": "learning_rate"}
    shown = {
        names.get(parameter.name, parameter.name): parameter.help.partition(" [default: ")[2].rstrip("]")
        for parameter in typer.main.get_command(app).commands["train"].params
        if " [default: " in (getattr(parameter, "help", None) or "")
    }
    assert len(shown) == 16
    for name, text in shown.items():
        general, paper = (getattr(TrainConfig.named(each), name) for each in ("general", "paper"))
        if isinstance(general, bool):
            general, paper = ("yes" if each else "no" for each in (general, paper))
        both = str(general) if general == paper else f"{general}; paper: {paper}"
        assert text == ("64" if name == "hidden" else both), name
