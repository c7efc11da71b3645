"""``fishergcn train``: options, tables, own files, saved models."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, splits
from fishergcn import train as train_runs
from fishergcn.cli import app
from fishergcn.cli._results import differences, means, reference_of
from fishergcn.cli._settings import parse_setting
from fishergcn.errors import DataFileError, InputError
from fishergcn.training import load_model

FEW = ["--epochs", 2, "--hidden", 4]


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
    return run(*options, *FEW, "--json", "--quiet")


class TestDataSet:
    def test_numbers_are_those_of_the_library(self, cora):
        from fishergcn import datasets

        graph = datasets.load("cora")
        config = TrainConfig(max_epochs=2, hidden=4)
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
        result = run("--dataset", "cora", "--method", "gcn", "--split", "shuffled:2019", "--seeds", 2, *FEW)
        lines = [line.split() for line in result.stdout.splitlines()]
        rows = [line for line in lines if line[:1] == ["gcn"]]
        assert [row[1:3] for row in rows[:2]] == [["shuffled:2019", "2019"], ["shuffled:2019", "2020"]]
        assert rows[2][1] == "2"
        assert re.fullmatch(r"\d+\.\d\d±\d+\.\d\d", rows[2][2])
        told = result.stderr.splitlines()
        assert [line.partition(",")[0] for line in told] == ["gcn: run 1 of 2", "gcn: run 2 of 2"]
        assert re.search(r"2 epochs, validation [\d.]+%, test so far [\d.]+%$", told[-1])

    def test_several_splits_and_seeds(self):
        options = ["--split", "per-class:0", "--split", "per-class:5+5:1", "--seeds", 2, "--first-seed", 7]
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
        expected = TrainConfig(
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
        (["--method", "gcn", "--method", "gcn"], "--method must name distinct methods, got gcn, gcn"),
        (["--device", "cuda:99"], "device 'cuda:99' is not there: torch sees [0-9]+ CUDA devices"),
        (["--device", "toaster"], "device must be 'cpu', 'cuda'"),
        (["--hidden", "0"], "hidden must be at least 1, got 0"),
        (["--hidden", "64;64"], "--hidden must be sizes of layers such as 64 or 64,64, got '64;64'"),
        (["--epochs", "0"], "max_epochs must be at least 1"),
        (["--lr", "nan"], "learning_rate must be finite"),
        (["--dropout", "1"], "dropout must be at least 0.0 and less than 1.0, got 1"),
        (["--stopping", "never"], "stopping must be one of"),
        (["--test-at", "best"], "test_at must be one of .*did you mean 'best-val'"),
        (["--set", "hiden=4"], "did you mean 'hidden'"),
        (["--set", "radius"], "--set must be name=value, got 'radius'"),
        (["--set", "order=many"], "order must be a whole number, got 'many'"),
        (["--set", "adversarial=1"], "adversarial must be true or false, got '1'"),
        (["--rank", "3", "--set", "rank=3"], "rank must be set once"),
        (["--method", "fishergcn-c", "--samples", "1"], "needs samples to be at least 2"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--first-seed", "-1"], "--first-seed must be at least 0"),
        (["--workers", "0"], "workers must be at least 1"),
        (["--split", "pubic"], "did you mean 'public'"),
        (["--split", "public", "--split", "public"], "distinct names"),
        (["--split", "per-class:500+1:0"], "Every class must have at least"),
        (["--labels", "l.csv"], "--labels goes with --edges, not with --dataset"),
        (
            ["--graph", "g.npz"],
            "exactly one of --dataset, --graph and --edges must be given, got --dataset and",
        ),
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


def test_no_graph():
    with pytest.raises(InputError, match="exactly one of --dataset, --graph and --edges must be given, got none"):
        run()


def planted(seed=0, size=10):
    """Three groups with dense links inside, and what a stranger's files say of them."""
    generator = np.random.default_rng(seed)
    names = ["Bär", "Öl und Gas", "Straße"]
    nodes = [f"{name} {member}" for name in names for member in range(size)]
    group = np.repeat(np.arange(3), size)
    links = [
        (nodes[i], nodes[j])
        for i in range(3 * size)
        for j in range(i)
        if generator.random() < (0.6 if group[i] == group[j] else 0.02)
    ]
    features = np.eye(3)[group] + 0.3 * generator.random((3 * size, 3))
    labels = [(nodes[name * size + member], names[name]) for name in range(3) for member in range(5)]
    return nodes, group, names, links, features, labels


@pytest.fixture
def files(tmp_path):
    nodes, _, _, links, features, labels = planted()
    links = [*links, links[0], links[1][::-1]]  # repeated, and reversed
    text = "".join(f"{one};{other}\r\n" for one, other in links)
    (tmp_path / "links.csv").write_bytes(text.encode("utf-8-sig"))
    rows = "".join(f"{node}\t" + "\t".join(map(str, row)) + "\n" for node, row in zip(nodes, features, strict=True))
    (tmp_path / "nodes.csv").write_text("id\tx\ty\tz\n" + rows, encoding="utf-8")
    (tmp_path / "labels.csv").write_text("".join(f"{node},{name}\n" for node, name in labels), encoding="utf-8")
    return tmp_path


def own(files, *options):
    names = [
        "--edges",
        files / "links.csv",
        "--features",
        files / "nodes.csv",
        "--labels",
        files / "labels.csv",
    ]
    return run(*names, "--header", "features", *options)


class TestOwnData:
    def test_from_files_to_predictions(self, files):
        options = ["--out", files / "model", "--epochs", 60, "--hidden", 8, "--lr", 0.05, "--rank", 4]
        told = own(files, *options).stderr
        assert "3 of 15 labeled nodes are held out for validation" in told
        result = CliRunner().invoke(
            app, ["predict", str(files / "model"), "--out", str(files / "p.csv")], catch_exceptions=False
        )
        assert result.exit_code == 0
        nodes, group, names, *_ = planted()
        with open(files / "p.csv", encoding="utf-8", newline="") as stream:
            head, *rows = csv.reader(stream)
        assert head == ["node", "class", *(f"p:{name}" for name in sorted(names))]
        assert [row[0] for row in rows] == nodes
        assert [row[1] for row in rows] == [names[each] for each in group]  # the groups are easily told apart

    def test_without_test_nodes_nothing_is_tested(self, files):
        result = own(files, "--method", "gcn", *FEW, "--out", files / "model")
        assert "test" not in result.stdout
        assert "validation so far" in result.stderr
        record = load_model(files / "model").record
        assert np.isnan([record.test_accuracy, record.test_loss, record.test_cross_entropy]).all()
        assert np.isfinite([record.val_accuracy, record.val_loss]).all()
        values = json.loads((files / "model" / "model.json").read_text(encoding="utf-8"))
        assert values["run"]["test_accuracy"] is None
        assert values["split_sizes"] == {"train": 12, "val": 3, "test": 0}
        assert "No nodes were set aside for testing" in (files / "model" / "README.md").read_text(encoding="utf-8")

    def test_graph_file(self, files):
        own(files, "--method", "gcn", *FEW, "--json", "--name", "g", "--out", files / "one")
        graph = load_model(files / "one").graph
        graph.save(files / "g.npz")
        for option in ("--graph", "--dataset"):
            run(option, files / "g.npz", "--method", "gcn", *FEW, "--out", files / option)
            assert load_model(files / option).record.val_loss == load_model(files / "one").record.val_loss

    def test_no_features(self, files):
        options = ["--edges", files / "links.csv", "--labels", files / "labels.csv", "--method", "gcn"]
        result = run(*options, *FEW, "--out", files / "model")
        assert "there are no features: each of the 30 nodes gets one of its own" in result.stderr
        np.testing.assert_array_equal(load_model(files / "model").graph.features.toarray(), np.eye(30))

    def test_negative_features_are_not_divided_by_their_sum(self, files):
        text = (files / "nodes.csv").read_text(encoding="utf-8")
        (files / "nodes.csv").write_text(text.replace("\t1.", "\t-1."), encoding="utf-8")
        for options, expected in (([], False), (["--set", "normalize_features=true"], True)):
            result = own(files, "--method", "gcn", *FEW, *options, "--overwrite", "--out", files / "m")
            assert ("some features are negative" in result.stderr) is not expected
            assert load_model(files / "m").config.normalize_features is expected

    def test_a_class_with_one_member(self, files):
        with open(files / "labels.csv", "a", encoding="utf-8") as stream:
            stream.write("Bär 7,selten\n")
        result = own(files, "--method", "gcn", *FEW, "--out", files / "m")
        assert "with one labeled node, a class is learned but not validated: 'selten'" in result.stderr
        assert load_model(files / "m").class_names == ("Bär", "Straße", "selten", "Öl und Gas")

    def test_every_class_with_one_member(self, files):
        (files / "labels.csv").write_text("Bär 1,a\nStraße 1,b\n", encoding="utf-8")
        with pytest.raises(InputError, match="needs a class with two labeled nodes or more"):
            own(files)

    def test_one_class(self, files):
        (files / "labels.csv").write_text("Bär 1,a\nStraße 1,a\n", encoding="utf-8")
        with pytest.raises(InputError, match="labels must name at least two classes, got only 'a'"):
            own(files)

    def test_a_class_without_training_nodes_is_a_warning(self, files):
        graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], labels=[0, 0, 1, 1], features=np.eye(4))
        parts = {"train": [0], "val": [2], "test": [1]}
        graph.replace(standard_split=parts).save(files / "g.npz")
        told = run("--graph", files / "g.npz", "--method", "gcn", *FEW).stderr
        assert "fishergcn: warning: split 'public' has no training node of class 1." in told
        assert ".py" not in told

    def test_labels_are_needed(self, files):
        with pytest.raises(InputError, match="--labels must be given with --edges"):
            run("--edges", files / "links.csv")
        Graph.from_edges([(0, 1)], name="pair").save(files / "g.npz")
        with pytest.raises(InputError, match="graph 'pair' has no labels to learn from"):
            run("--graph", files / "g.npz")

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("labels.csv", "Bär 1,a\nNiemand,b\n", r"labels\.csv line 2: node 'Niemand' is not in the graph"),
            ("labels.csv", "Bär 1,a\nBär 1,b\n", r"labels\.csv line 2: node 'Bär 1' has two classes"),
            ("labels.csv", "", r"labels\.csv holds no labels"),
            ("nodes.csv", "id,x\nBär 0,1\nBär 1,\n", r"nodes\.csv line 3: cell 2"),
            ("nodes.csv", "id,x\nBär 0,1\nBär 1,nan\n", r"nodes\.csv line 3: cell 2"),
            ("nodes.csv", "id,x\nBär 0,1\nBär 0,2\n", r"nodes\.csv line 3: node 'Bär 0' has a row in line 2"),
            ("links.csv", "Bär 0;Bär 1\nBär 1;Wer\n", r"links\.csv line 2: node 'Wer' has no row in"),
            ("links.csv", "Bär 0;Bär 1\nBär 1\n", r"links\.csv line 2"),
        ],
    )
    def test_a_stranger_is_told_file_and_line(self, files, name, text, message):
        (files / name).write_text(text, encoding="utf-8")
        with pytest.raises(DataFileError, match=message) as caught:
            own(files, "--out", files / "m")
        assert str(caught.value).endswith(".")
        assert "\n" not in str(caught.value)
        assert not (files / "m").exists()

    def test_a_graph_smaller_than_the_rank(self, files):
        (files / "links.csv").write_text("a,b\nb,c\nc,a\nc,d\n")
        (files / "labels.csv").write_text("a,x\nb,x\nc,y\nd,y\n")
        with pytest.raises(InputError, match="rank must be between 1 and 3"):
            run("--edges", files / "links.csv", "--labels", files / "labels.csv", "--quiet")


def test_all_diverged_saves_nothing(files):
    with pytest.raises(InputError, match="there is no run to choose: 1 of 1 diverged"):
        own(files, "--method", "gcn", "--lr", "1e38", "--epochs", 20, "--out", files / "m", "--quiet")
    assert not (files / "m").exists()
    assert not [name for name in os.listdir(files) if name.startswith(".")]


def test_as_a_program(tmp_path):
    command = [sys.executable, "-m", "fishergcn", "train", "--dataset", "cora", "--method", "fishergnc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fishergcn: error: method must be one of")
    assert done.stderr.count("\n") == 1


class TestHelpers:
    def test_reference(self):
        methods = ["gcn", "gcn-x5", "fishergcn", "fishergcn-t"]
        assert [reference_of(method, methods) for method in methods] == [None, "gcn", "gcn-x5", "gcn"]
        assert reference_of("fishergcn", ["fishergcn", "gcn-x5"]) == "gcn-x5"

    def test_setting(self):
        assert parse_setting("hidden=64,32") == ("hidden", (64, 32))
        assert parse_setting(" normalize-features = False ") == ("normalize_features", False)
        assert parse_setting("stopping=none") == ("stopping", "none")

    def test_diverged_runs_are_counted_and_left_out(self):
        from fishergcn import RunRecord

        def record(method, seed, accuracy):
            status = "ok" if accuracy == accuracy else "diverged"
            scores = [accuracy] * 6
            return RunRecord("d", method, "s", seed, status, 3, *scores, {}, [], 1.0, "cpu", {}, {}, "")

        results = {
            "gcn": [record("gcn", 1, 0.5), record("gcn", 2, 0.7)],
            "gcn-x5": [record("gcn-x5", 1, 0.8), record("gcn-x5", 2, float("nan"))],
        }
        facts = means(results)
        assert [fact["diverged"] for fact in facts] == [0, 1]
        assert facts[1]["test_accuracy"] == {"mean": 0.8, "std": None}
        [difference] = differences(results)
        assert difference["mean"] == pytest.approx(0.3)
        assert difference["low"] is None
