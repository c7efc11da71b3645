"""Model folders: what is written can be read again, and nothing else is written over."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from fishergcn import Graph, TrainConfig, datasets, splits, train
from fishergcn.errors import DataFileError, InputError
from fishergcn.models import TrainedModel, best_run, load_model, load_models, save_models
from fishergcn.propagation import high_order

CONFIG = TrainConfig(max_epochs=3, hidden=(5, 4), rank=3)
from_records = TrainedModel.from_records


def make_graph(n=24, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    same = labels[:, None] == labels
    upper = np.triu(generator.random((n, n)) < np.where(same, 0.5, 0.05), 1)
    features = generator.random((n, 6)) + np.eye(3, 6)[labels]
    known = np.where(np.arange(n) < n - 3, labels, -1)
    return Graph(
        upper | upper.T,
        features,
        known,
        name="mine",
        node_ids=[f"Knoten ä, {node}" for node in range(n)],
        class_names=["rot", "grün", "1|2"],
    )


GRAPH = make_graph()
SPLIT = splits.per_class(GRAPH, 3, 2, seed=1)


@pytest.fixture(scope="module")
def records():
    return train(GRAPH, "gcn", SPLIT, 3, CONFIG, keep_weights=True)


@pytest.fixture
def folder(tmp_path, records):
    from_records(GRAPH, records[0], SPLIT).save(tmp_path / "model")
    return tmp_path / "model"


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def dense_prediction(graph, weights, propagation=None):
    """The network of the paper in dense float64."""
    loops = graph.adjacency.toarray() + np.eye(graph.num_nodes)
    scale = 1 / np.sqrt(loops.sum(axis=1))
    operator = scale[:, None] * loops * scale if propagation is None else propagation.toarray()
    hidden = np.asarray(graph.features, dtype=np.float64)
    hidden = hidden / hidden.sum(axis=1, keepdims=True)
    for layer, weight in enumerate(weights):
        hidden = operator @ (hidden if layer == 0 else np.maximum(hidden, 0)) @ weight.astype(np.float64)
    return softmax(hidden)


class TestRoundTrip:
    def test_files(self, folder):
        assert sorted(os.listdir(folder)) == [
            "README.md",
            "graph.npz",
            "model.json",
            "predictions.csv",
            "runs.json",
            "split.safetensors",
            "weights.safetensors",
        ]
        assert os.listdir(folder.parent) == ["model"]

    def test_everything_comes_back(self, folder, records):
        loaded = load_model(folder)
        assert loaded.graph.digest == GRAPH.digest
        assert (loaded.graph.node_ids, loaded.class_names) == (GRAPH.node_ids, GRAPH.class_names)
        assert (loaded.method.name, loaded.config) == ("gcn", CONFIG)
        assert loaded.record == dataclasses.replace(records[0], curves={})
        assert loaded.split_sizes == {"train": 9, "val": 6, "test": 6}
        assert [(run.split, run.seed) for run in loaded.runs] == [(SPLIT, records[0].seed)]
        assert loaded.test()[1].tolist() == pytest.approx([records[0].test_accuracy])
        network = loaded.network()
        assert list(loaded.weights) == list(records[0].weights)
        parts = (loaded.weights.values(), network.weights, records[0].weights.values())
        for found, parameter, weight in zip(*parts, strict=True):
            np.testing.assert_array_equal(found[0].numpy(), weight)
            np.testing.assert_array_equal(parameter.detach().numpy(), weight)
        assert not network.training

    def test_probabilities_are_those_of_the_plain_network(self, folder, records):
        expected = dense_prediction(GRAPH, records[0].weights.values())
        np.testing.assert_allclose(load_model(folder).probabilities(), expected, atol=1e-6)

    def test_float64_and_high_order(self, tmp_path):
        config = dataclasses.replace(CONFIG, dtype="float64", order=3, threshold=1e-3)
        [record] = train(GRAPH, "fishergcn-t", SPLIT, config=config, keep_weights=True)
        from_records(GRAPH, record, SPLIT).save(tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        expected = dense_prediction(
            GRAPH, record.weights.values(), high_order(GRAPH.adjacency, order=3, threshold=1e-3)
        )
        np.testing.assert_allclose(loaded.probabilities(), expected, atol=1e-12)
        assert loaded.record.shape == record.shape

    def test_the_tested_accuracy_can_be_had_again(self, folder, records):
        found = load_model(folder).probabilities().argmax(axis=1)
        accuracy = np.mean(found[SPLIT.test] == GRAPH.labels[SPLIT.test])
        assert accuracy == pytest.approx(records[0].test_accuracy, abs=1e-12)

    def test_predictions(self, folder):
        loaded = load_model(folder)
        text = (folder / "predictions.csv").read_text(encoding="utf-8")
        assert text == loaded.predictions_csv()
        head, *rows = csv.reader(io.StringIO(text))
        assert head == ["node", "class", "p:rot", "p:grün", "p:1|2"]
        assert tuple(row[0] for row in rows) == GRAPH.node_ids
        numbers = np.array([row[2:] for row in rows], dtype=np.float64)
        np.testing.assert_allclose(numbers, loaded.probabilities(), rtol=1e-8)
        assert [row[1] for row in rows] == [GRAPH.class_names[label] for label in numbers.argmax(axis=1)]

    def test_a_data_set_is_named_rather_than_copied(self, tmp_path):
        cora = datasets.load("cora")
        split = splits.public(cora)
        [record] = train(cora, "gcn", split, config=TrainConfig(max_epochs=1, hidden=3), keep_weights=True)
        from_records(cora, record, split).save(tmp_path / "m")
        assert not (tmp_path / "m" / "graph.npz").exists()
        assert load_model(tmp_path / "m").graph is cora

    def test_another_graph_of_the_same_name_is_copied(self, tmp_path):
        graph = GRAPH.replace(name="cora")
        [record] = train(graph, "gcn", SPLIT, config=CONFIG, keep_weights=True)
        from_records(graph, record, SPLIT).save(tmp_path / "m")
        assert load_model(tmp_path / "m").graph.num_nodes == 24

    def test_bare_graph(self, tmp_path):
        graph = Graph(GRAPH.adjacency, GRAPH.features, GRAPH.labels)
        [record] = train(graph, "gcn", SPLIT, config=CONFIG, keep_weights=True)
        from_records(graph, record, SPLIT).save(tmp_path / "m")
        lines = load_model(tmp_path / "m").predictions_csv().splitlines()
        assert lines[0] == "node,class,p:0,p:1,p:2"
        assert lines[1].startswith("0,")

    def test_loading_leaves_the_random_numbers_alone(self, folder):
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        load_model(folder)
        assert torch.equal(torch.rand(2), expected)

    def test_card(self, folder):
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert card.startswith("# gcn on mine\n")
        assert "rot, grün, 1\\|2" in card
        assert "9 training, 6 validation and 6 test nodes" in card
        assert "| hidden | (5, 4) | (64,) |" in card
        assert "This is the only run." in card

    def test_all_runs(self, tmp_path, records):
        from_records(GRAPH, best_run(records), SPLIT).save(tmp_path / "m", runs=records)
        kept = json.loads((tmp_path / "m" / "runs.json").read_text(encoding="utf-8"))
        assert kept["runs"] == [record.to_dict() for record in records]
        assert load_model(tmp_path / "m").chosen_from == 3
        assert "Chosen from 3 runs: best validation accuracy" in (tmp_path / "m" / "README.md").read_text()

    def test_the_split_may_be_named(self, tmp_path, folder, records):
        from_records(GRAPH, records[0], SPLIT.name).save(tmp_path / "named")
        assert (tmp_path / "named" / "model.json").read_bytes() == (folder / "model.json").read_bytes()

    def test_it_is_shown_in_one_line(self, folder, records):
        accuracy = f"{records[0].test_accuracy:.4f}"
        assert repr(load_model(folder)) == (
            "TrainedModel('mine', 'gcn', 'per-class:3+2:1', seed=2019, 24 nodes, 3 classes, "
            f"test_accuracy={accuracy}, chosen from 1)"
        )

    @pytest.mark.skipif(os.name != "posix", reason="modes of POSIX files")
    def test_files_have_the_mode_that_the_umask_says(self, tmp_path, records):
        before = os.umask(0o027)
        try:
            from_records(GRAPH, records[0], SPLIT).save(tmp_path / "m")
        finally:
            os.umask(before)
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()} == {0o640}

    def test_what_was_loaded_can_be_saved_again(self, tmp_path, records):
        from_records(GRAPH, best_run(records), SPLIT).save(tmp_path / "one", runs=records)
        load_model(tmp_path / "one").save(tmp_path / "two")
        for name in ("weights.safetensors", "model.json", "predictions.csv", "README.md"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

    def test_a_folder_of_version_0_1_opens(self):
        folder = Path(__file__).parent / "version-1"
        model = load_model(folder)
        assert (model.record.versions["fishergcn"], model.chosen_from) == ("0.1.0", 2)
        head, *rows = csv.reader(io.StringIO((folder / "predictions.csv").read_text(encoding="utf-8")))
        again_head, *again = csv.reader(io.StringIO(model.predictions_csv()))
        assert (head, [row[:2] for row in rows]) == (again_head, [row[:2] for row in again])
        numbers = [np.array([row[2:] for row in table], dtype=np.float64) for table in (rows, again)]
        np.testing.assert_allclose(*numbers, rtol=1e-5)


@pytest.fixture(scope="module")
def both(records):
    return [*records, *train(GRAPH, "gcn-x5", SPLIT, 2, CONFIG, keep_weights=True)]


class TestSeveralMethods:
    def test_each_has_a_folder_of_its_own(self, tmp_path, both):
        saved = save_models(tmp_path / "m", GRAPH, both, SPLIT)
        assert sorted(os.listdir(tmp_path / "m")) == ["gcn", "gcn-x5", "runs.json"]
        assert list(saved) == [tmp_path / "m" / "gcn", tmp_path / "m" / "gcn-x5"]
        kept = json.loads((tmp_path / "m" / "runs.json").read_text(encoding="utf-8"))
        assert kept["runs"] == [record.to_dict() for record in both]
        loaded = load_models(tmp_path / "m")
        assert list(loaded) == list(saved)
        for (place, model), runs in zip(loaded.items(), (both[:3], both[3:]), strict=True):
            assert model.record == dataclasses.replace(best_run(runs), curves={})
            assert model.chosen_from == len(runs)
            np.testing.assert_array_equal(model.probabilities(), saved[place].probabilities())

    def test_one_method_is_the_folder_itself(self, tmp_path, records):
        [place] = save_models(tmp_path / "m", GRAPH, records, SPLIT)
        from_records(GRAPH, best_run(records), SPLIT).save(tmp_path / "alone", runs=records)
        assert place == tmp_path / "m"
        assert list(load_models(place)) == [place]
        for path in (tmp_path / "alone").iterdir():
            assert path.read_bytes() == (place / path.name).read_bytes()

    def test_a_folder_without_models_has_none(self, tmp_path):
        assert load_models(tmp_path) == {}

    def test_what_cannot_be_saved_leaves_nothing(self, tmp_path, both):
        broken = [dataclasses.replace(record, status="diverged") for record in both[3:]]
        with pytest.raises(InputError, match="all 2 runs diverged"):
            save_models(tmp_path / "m", GRAPH, [*both[:3], *broken], SPLIT)
        assert os.listdir(tmp_path) == []


class TestBestRun:
    def test_by_validation_then_loss_and_never_by_test(self, records):
        def made(seed, accuracy, loss, test, status="ok"):
            scores = {"val_accuracy": accuracy, "val_loss": loss, "test_accuracy": test}
            return dataclasses.replace(records[0], seed=seed, status=status, scores=scores)

        runs = [
            made(1, 0.8, 0.5, 1.0),
            made(2, 0.9, 0.6, 0.1),
            made(3, 0.9, 0.4, 0.0),
            made(4, float("nan"), float("nan"), float("nan"), "diverged"),
        ]
        assert best_run(runs).seed == 3

    def test_by_another_score_which_the_folder_names(self, tmp_path, records):
        changed = [dataclasses.replace(each, scores={**each.scores, "val_cross_entropy": 9.0}) for each in records]
        worst = min(changed, key=lambda each: (each.val_accuracy, -each.val_loss))
        changed[changed.index(worst)] = dataclasses.replace(worst, scores={**worst.scores, "val_cross_entropy": 0.1})
        [(place, model)] = save_models(tmp_path / "model", GRAPH, changed, SPLIT, score="log-loss").items()
        assert (model.record.seed, model.chosen_by) == (worst.seed, "cross_entropy")
        assert load_model(place).chosen_by == "cross_entropy"
        rule = "best validation cross entropy, then least validation loss; test scores are not used"
        assert json.loads((place / "model.json").read_text())["selection"]["rule"] == rule
        assert rule in (place / "README.md").read_text()
        with pytest.raises(InputError, match=r"^score must be one of accuracy, .*, got 'luck'\.$"):
            save_models(tmp_path / "other", GRAPH, changed, SPLIT, score="luck")
        assert not (tmp_path / "other").exists()

    def test_all_diverged(self, records):
        broken = dataclasses.replace(records[0], status="diverged")
        with pytest.raises(InputError, match="all 2 runs diverged"):
            best_run([broken, broken])

    @pytest.mark.parametrize(
        ("choose", "message"),
        [
            (lambda records: records[0], "records must be a list of RunRecord, got RunRecord"),
            (lambda records: [], "at least one RunRecord, got none"),
            (lambda records: [record.to_dict() for record in records], "record must be one RunRecord, got dict"),
        ],
    )
    def test_not_records(self, records, choose, message):
        with pytest.raises(InputError, match=message):
            best_run(choose(records))


class TestRefusedToSave:
    def test_no_weights(self, tmp_path, records):
        with pytest.raises(InputError, match="keep_weights=True"):
            from_records(GRAPH, dataclasses.replace(records[0], weights=None), SPLIT).save(tmp_path / "m")
        assert os.listdir(tmp_path) == []

    def test_several_runs_or_names_of_graphs(self, tmp_path, records):
        with pytest.raises(InputError, match=r"holds 3 networks, and one is needed: model.only\(i\) takes one"):
            from_records(GRAPH, records, SPLIT).save(tmp_path / "m")
        with pytest.raises(InputError, match="graph must be a Graph, got str"):
            from_records("cora", records[0], SPLIT).save(tmp_path / "m")
        with pytest.raises(InputError, match="a split must be a Split, its name"):
            from_records(GRAPH, records[0], [None]).save(tmp_path / "m")
        assert os.listdir(tmp_path) == []

    def test_not_of_one_run(self, tmp_path, records):
        for graph, split in ((make_graph(seed=1), SPLIT), (GRAPH, splits.per_class(GRAPH, 3, 2, seed=2))):
            with pytest.raises(InputError, match="do not match"):
                from_records(graph, records[0], split).save(tmp_path / "m")
        assert os.listdir(tmp_path) == []

    def test_other_files(self, tmp_path, records):
        (tmp_path / "thesis.txt").write_text("years of work")
        for overwrite in (False, True):
            with pytest.raises(DataFileError, match="holds other files"):
                from_records(GRAPH, records[0], SPLIT).save(tmp_path, overwrite=overwrite)
        assert os.listdir(tmp_path) == ["thesis.txt"]

    @pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt"])
    def test_own_notes_in_a_model_folder(self, folder, records, name):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
        with pytest.raises(DataFileError, match="holds other files"):
            from_records(GRAPH, records[1], SPLIT).save(folder, overwrite=True)
        assert (folder / name).read_text() == "mine"

    def test_a_file(self, tmp_path, records):
        (tmp_path / "m").write_text("x")
        with pytest.raises(DataFileError, match="a file with that name exists"):
            from_records(GRAPH, records[0], SPLIT).save(tmp_path / "m", overwrite=True)
        with pytest.raises(DataFileError, match=r"Cannot write the folder .*: Not a directory"):
            from_records(GRAPH, records[0], SPLIT).save(tmp_path / "m" / "deeper" / "n")

    def test_overwrite(self, folder, records):
        with pytest.raises(DataFileError, match="holds a saved model already"):
            from_records(GRAPH, records[1], SPLIT).save(folder)
        assert load_model(folder).record.seed == 2019
        from_records(GRAPH, records[1], SPLIT).save(folder, overwrite=True)
        assert load_model(folder).record.seed == 2020
        assert os.listdir(folder.parent) == ["model"]

    def test_empty_folder_and_new_parents(self, tmp_path, records):
        (tmp_path / "empty").mkdir()
        for place in (tmp_path / "empty", tmp_path / "a" / "b"):
            from_records(GRAPH, records[0], SPLIT).save(place)
            assert load_model(place).record.seed == 2019

    def test_a_failure_leaves_what_was_there(self, folder, records, monkeypatch):
        def fail(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("safetensors.numpy.save", fail)
        with pytest.raises(DataFileError, match="No space left on device"):
            from_records(GRAPH, records[1], SPLIT).save(folder, overwrite=True)
        assert os.listdir(folder.parent) == ["model"]
        assert load_model(folder).record.seed == 2019
