"""Model folders that were damaged or altered: refused, with one sentence that says what is wrong."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import fishergcn
from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.errors import DataFileError, InputError
from fishergcn.models import TrainedModel, load_model, load_runs

from_records = TrainedModel.from_records


def make_graph(seed=0):
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.random((12, 12)) < 0.4, 1)
    features = generator.random((12, 6))
    return Graph(upper | upper.T, features, np.arange(12) % 3, name="mine", class_names=["rot", "grün", "blau"])


GRAPH = make_graph()
SPLIT = splits.per_class(GRAPH, 2, 1, seed=1)


@pytest.fixture(scope="module")
def records():
    return train(GRAPH, "gcn", SPLIT, 2, TrainConfig(max_epochs=3, hidden=(5, 4)), keep_weights=True)


@pytest.fixture
def folder(tmp_path, records):
    from_records(GRAPH, records[0], SPLIT).save(tmp_path / "model")
    return tmp_path / "model"


def refused(folder, message):
    with pytest.raises(DataFileError) as caught:
        load_model(folder)
    sentence = str(caught.value)
    assert re.search(message, sentence), sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert str(folder) in sentence


def change(folder, edit, *, sums=False):
    path = folder / "model.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    edit(values)
    if sums:
        for name in values["sha256"]:
            values["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(values), encoding="utf-8")


class TestDamagedWeights:
    """Every sum is made to fit, so that what is tested is the check behind it."""

    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda data: data[:-7], "damaged or truncated"),
            (lambda data: data + b"more", "damaged or truncated"),
            (lambda data: data[:5], "its header does not fit"),
            (lambda data: b"", "its header does not fit"),
            (lambda data: (1 << 62).to_bytes(8, "little") + data[8:], "its header does not fit"),
            (lambda data: (len(data)).to_bytes(8, "little") + data[8:], "its header does not fit"),
            (lambda data: data[:8] + b"x" + data[9:], "its header is not JSON"),
            (lambda data: (2).to_bytes(8, "little") + b"[]" + data, "not a JSON object"),
            (lambda data: data + bytes(2 << 20), "must have at most .* bytes"),
        ],
    )
    def test_bytes(self, folder, edit, message):
        path = folder / "weights.safetensors"
        path.write_bytes(edit(path.read_bytes()))
        change(folder, lambda values: None, sums=True)
        refused(folder, message)

    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda w: w.update({"weights.1": w["weights.1"][:, :-1]}), r"must be F32 of shape \[5, 4\]"),
            (lambda w: w.update({"weights.0": w["weights.0"].astype(np.float64)}), "must be F32 .* got F64"),
            (lambda w: w.pop("weights.2"), r"weights.2 must be F32 of shape \[4, 3\], got None"),
            (lambda w: w.update({"weights.3": w["weights.2"]}), "the network does not have: weights.3"),
            (lambda w: w["weights.2"].fill(np.nan), "weights.2 must be finite"),
            (lambda w: w["weights.0"].fill(np.inf), "weights.0 must be finite"),
        ],
    )
    def test_tensors(self, folder, edit, message):
        path = folder / "weights.safetensors"
        weights = {name: array.copy() for name, array in load_file(path).items()}
        edit(weights)
        save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, path)
        change(folder, lambda values: None, sums=True)
        refused(folder, message)

    def test_overlapping_offsets(self, folder):
        path = folder / "weights.safetensors"
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header["weights.0"]["data_offsets"] = [0, 10**15]
        head = json.dumps(header).encode()
        path.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + length :])
        change(folder, lambda values: None, sums=True)
        refused(folder, "damaged or truncated")

    def test_other_weights_of_the_same_shape(self, folder, tmp_path, records):
        from_records(GRAPH, records[1], SPLIT).save(tmp_path / "other")
        shutil.copy(tmp_path / "other" / "weights.safetensors", folder)
        refused(folder, "its SHA-256 is not that in model.json")


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "graph.npz"])
def test_missing_file(folder, name):
    (folder / name).unlink()
    refused(folder, "is not a model folder" if name == "model.json" else f"{name} does not exist")


def test_files_for_people_are_not_needed(folder):
    for name in ("README.md", "predictions.csv", "runs.json"):
        (folder / name).unlink()
    assert load_model(folder).probabilities().shape[0] > 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX pipes")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder):
    (folder / "weights.safetensors").unlink()
    os.mkfifo(folder / "weights.safetensors")
    refused(folder, "does not exist or is not a file")


def test_folder_of_models(folder):
    refused(folder.parent, "has no model.json; its subfolders model are")


class TestAlteredGraph:
    def test_another_file(self, folder):
        make_graph(seed=5).save(folder / "graph.npz")
        refused(folder, "graph.npz is damaged or was altered")

    def test_another_graph_with_its_sum(self, folder):
        make_graph(seed=5).save(folder / "graph.npz")
        change(folder, lambda values: None, sums=True)
        refused(folder, "its digest differs")

    def test_renamed_classes(self, folder):
        GRAPH.replace(class_names=["a", "b", "c"]).save(folder / "graph.npz")
        change(folder, lambda values: None, sums=True)
        refused(folder, "classes of the graph are not those")

    def test_a_data_set_that_it_was_not_trained_on(self, folder):
        change(folder, lambda values: (values.update(graph="embedded"), values["run"].update(dataset="cora")))
        refused(folder, "its digest differs")


class TestAlteredDescription:
    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda v: v.update(format="other"), "format must be 'fishergcn-model'"),
            (lambda v: v.update(version=3), "version 3 of the model format, written by fishergcn .*: update fishergcn"),
            (lambda v: v.pop("run"), "'run' of the model is missing"),
            (lambda v: v["run"].pop("seed"), "wrong fields"),
            (lambda v: v["run"].update(more=1), "wrong fields"),
            (lambda v: v["run"].update(method="gnc"), "did you mean 'gcn'"),
            (lambda v: v["run"]["config"].update(hidden=[7, 4]), r"must be F32 of shape \[6, 7\]"),
            (lambda v: v["run"]["config"].update(hidden=[10**12]), "hidden must be between 1 and 65536"),
            (lambda v: v["run"]["config"].update(hidden=[0]), "hidden must be between 1 and 65536"),
            (lambda v: v["run"]["config"].update(colour=1), "unknown setting 'colour'"),
            (lambda v: v["run"]["config"].update(dtype="float16"), "dtype must be one of"),
            (lambda v: v["run"].update(seed="1"), "seed must be int, got '1'"),
            (lambda v: v["run"].update(epochs=True), "epochs must be int, got True"),
            (lambda v: v.update(graph="../../secret.npz"), "graph must be one of 'embedded', 'graph.npz'"),
            (lambda v: v.update(graph="embedded"), "'mine' is not an embedded data set"),
            (lambda v: v.update(class_names=["a", "b"]), "classes of the graph are not those"),
            (lambda v: v.update(class_names=[1, 2, 3]), "'class_names' of the model must be text, got 1"),
            (lambda v: v.update(num_features=7), "has 6 features, the model 7"),
            (lambda v: v["run"].update(graph_digest="0"), "its digest differs"),
            (lambda v: v["sha256"].clear(), "graph.npz is damaged or was altered"),
            (lambda v: v["split_sizes"].pop("val"), "'val' of 'split_sizes' of the model is missing"),
        ],
    )
    def test_entry(self, folder, edit, message):
        change(folder, edit)
        refused(folder, message)

    @pytest.mark.parametrize("made_by", ["0.9.2", None, 7, {"a": 1}])
    def test_a_later_version_says_who_wrote_it_and_what_to_do(self, folder, made_by):
        change(folder, lambda values: (values.update(version=3), values["run"]["versions"].update(fishergcn=made_by)))
        writer = "fishergcn 0.9.2" if made_by == "0.9.2" else "an unknown version of fishergcn"
        here = f"cannot be read by fishergcn {fishergcn.__version__}, which reads versions 1 and 2"
        refused(folder, f"version 3 of the model format, written by {writer}, {here}: update fishergcn, or train the")

    @pytest.mark.parametrize("text", ["", "[]", "{", "null", "\xff", "[" * 100_000, '{"format": NaN}', "1" * 10_000])
    def test_not_a_description(self, folder, text):
        (folder / "model.json").write_bytes(text.encode("latin-1"))
        refused(folder, r"model\.json")

    def test_too_large(self, folder, monkeypatch):
        monkeypatch.setattr("fishergcn.models._facts._LARGEST", 1000)
        refused(folder, "must have at most 1000 bytes")

    def test_any_entry_replaced_by_anything(self, folder):
        """Loading succeeds or says what is wrong; it never breaks in another way."""
        original = json.loads((folder / "model.json").read_text(encoding="utf-8"))

        def places(value, path=()):
            yield path
            if isinstance(value, dict):
                for key, item in value.items():
                    yield from places(item, (*path, key))

        found = [path for path in places(original) if path]

        @settings(max_examples=50)
        @given(
            st.sampled_from(found),
            st.sampled_from([None, True, -1, 10**30, 0.5, "x", "", [], {}, [[]], [None]]),
        )
        def check(path, value):
            changed = json.loads(json.dumps(original))
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            (folder / "model.json").write_text(json.dumps(changed), encoding="utf-8")
            with contextlib.suppress(DataFileError):
                load_model(folder)

        check()


@pytest.mark.parametrize("size", [3e38, -3e38])
def test_finite_weights_whose_outputs_are_not_are_refused_with_the_node(tmp_path, size):
    """A class must not be read off NaN: ``argmax`` would name one all the same."""
    import torch

    from fishergcn import GCN, Graph, TrainedModel

    links = [(node, (node + 1) % 60) for node in range(60)]
    graph = Graph.from_edges(links, features=np.eye(60, 5, dtype=np.float32), labels=[node % 3 for node in range(60)])
    network = GCN(5, (4,), 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for weights in network.weights:
            weights.fill_(size).view(-1)[::2] = 3e38
    model = TrainedModel.from_network(network, graph.replace(node_ids=[f"n{node}" for node in range(60)]))
    words = r"the network has no finite output for node 'n\d+' \(\d+ of 60 nodes have none\)"
    for use in (model.probabilities, model.predict, model.predictions_csv, model.logits):
        with pytest.raises(InputError, match=words):
            use()
    with pytest.raises(InputError, match=words):
        model.predict(model.graph.replace(labels=None))


class TestDamagedSplit:
    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda s: s.update(val=s["train"][: len(s["val"])]), "train and val must be disjoint"),
            (lambda s: s["test"].__setitem__(0, 99), "must list nodes below 12, got 99"),
            (lambda s: s["test"].__setitem__(0, -1), "split.safetensors"),
            (lambda s: s.update(test=s["test"][:-1]), r"test must be I64 of shape \[3\], got I64 of shape \[2\]"),
            (lambda s: s.pop("val"), "val must be I64"),
        ],
    )
    def test_nodes(self, folder, edit, message):
        path = folder / "split.safetensors"
        parts = load_file(path)
        edit(parts)
        save_file(parts, path)
        change(folder, lambda values: None, sums=True)
        refused(folder, message)

    def test_an_altered_file_and_one_that_is_gone(self, folder):
        path = folder / "split.safetensors"
        parts = load_file(path)
        parts["test"] = parts["test"][::-1].copy()
        save_file(parts, path)
        refused(folder, "is damaged or was altered")
        path.unlink()
        refused(folder, "split.safetensors")

    def test_a_folder_of_an_older_version_has_none(self, folder):
        (folder / "split.safetensors").unlink()
        change(folder, lambda values: values["sha256"].pop("split.safetensors"))
        assert load_model(folder).runs == ()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"runs": 1}', '{"runs": [1]}', '{"runs": [{}]}', "[" * 100_000, '{"other": []}']
)
def test_damaged_runs_are_one_sentence(folder, text):
    (folder / "runs.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=r"runs\.json") as caught:
        load_runs(folder)
    assert "\n" not in str(caught.value)


def test_runs_come_back(tmp_path, records):
    from_records(GRAPH, records[0], SPLIT).save(tmp_path / "m", runs=records)
    assert [record.to_dict() for record in load_runs(tmp_path / "m")] == [record.to_dict() for record in records]
