"""The page of a model says what its predictions are, on the nodes that it was tested on."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import shutil

import numpy as np
import pytest
from sklearn import metrics

import fishergcn
from fishergcn import TrainedModel, load_model
from fishergcn.geometry.extrinsic import node_links
from fishergcn.models import save_models
from fishergcn.report import write_report
from fishergcn.splits import Split

SECTIONS = ["headline", "candidates", "classes", "confusion", "calibration", "decisions", "uncertain", "why", "graph",
            "training", "geometry", "files", "protocol"]  # fmt: skip


def page_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def words_of(folder):
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page_of(folder), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def sections(folder):
    return re.findall(r'<section id="([a-z-]+)"', page_of(folder))


def rows_of(folder, section):
    part = page_of(folder).partition(f'<section id="{section}"')[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", part)
    return [
        [html.unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows
    ]


@pytest.fixture
def alone(tmp_path, planted_graph):
    graph, split = planted_graph
    records = fishergcn.train(graph, "gcn", split, 1, fishergcn.TrainConfig(max_epochs=5), keep_weights=True)
    TrainedModel.from_records(graph, records, split).save(tmp_path / "model")
    return tmp_path / "model"


def judged(folder):
    model = load_model(folder)
    nodes = model.runs[0].split.test
    return model, model.graph.labels[nodes], model.probabilities()[nodes]


def test_the_parts_are_in_order(model_report, alone):
    assert sections(model_report) == SECTIONS
    write_report(alone)
    assert sections(alone) == [each for each in SECTIONS if each not in ("candidates", "geometry")]


def test_the_verdict_is_the_test_accuracy(model_report):
    model, labels, probabilities = judged(model_report)
    share = metrics.accuracy_score(labels, probabilities.argmax(axis=1))
    assert share == pytest.approx(model.record.test_accuracy)
    assert f"gcn classifies {share:.1%} of the {len(labels)} test nodes correctly" in words_of(model_report)
    assert "The links help: <b>." in words_of(model_report)


def test_scores_of_classes_and_confusions(model_report):
    model, labels, probabilities = judged(model_report)
    predicted = probabilities.argmax(axis=1)
    precision, recall, f1, nodes = metrics.precision_recall_fscore_support(labels, predicted, zero_division=np.nan)
    for row, *expected in zip(
        rows_of(model_report, "classes")[1:], model.class_names, nodes, recall, precision, f1, strict=True
    ):
        name, count, found, exact, harmonic = expected
        assert row[:3] == [name, str(count), f"{100 * found:.1f}"]
        assert row[4] == ("–" if np.isnan(exact) else f"{100 * exact:.1f}")
        assert row[5] == f"{100 * harmonic:.1f}"
    matrix = metrics.confusion_matrix(labels, predicted)
    rows = rows_of(model_report, "confusion")
    assert [row[1:] for row in rows[1 : 1 + len(matrix)]] == [list(map(str, row)) for row in matrix.tolist()]


def test_the_calibration_error(model_report):
    _, labels, probabilities = judged(model_report)
    stated, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    place = np.ceil(15 * stated)
    error = sum(abs((right - stated)[place == each].sum()) for each in range(16)) / len(labels)
    assert f"Expected calibration error (ECE): {100 * error:.1f}%." in words_of(model_report)


def test_the_least_certain_nodes_and_their_links(model_report):
    model = load_model(model_report)
    stated = model.probabilities().max(axis=1)
    stated[model.runs[0].split.train] = 2
    node = int(stated.argmin())
    first = rows_of(model_report, "uncertain")[1]
    assert first[0] == model.node_names[node]
    assert first[1] == model.class_names[model.predict()[node]]
    links = node_links(model, node).links[:3]
    said = ", ".join(f"{one} – {other} ({value:+.2g})" for one, other, _, value in links) or "none"
    assert first[-1] == said.replace("(-", "(−")


def test_two_predictions_are_explained_as_the_command_explains_them(model_report):
    model, labels, stated = judged(model_report)
    nodes, outside = model.runs[0].split.test, np.setdiff1d(np.arange(120), model.runs[0].split.train)
    least = outside[model.probabilities()[outside].max(axis=1).argmin()]
    wrong = np.flatnonzero(stated.argmax(axis=1) != labels)
    surest = nodes[wrong[stated[wrong].max(axis=1).argmax()]]
    words, rows = words_of(model_report), rows_of(model_report, "why")
    for head, node in (("The least certain prediction", least), ("The surest wrong prediction", surest)):
        found = model.explain(int(node), limit=6)
        assert f"{head}: node {found.node}" in words
        assert all(each in words for each in found.sentences)
        first = max(found.evidence, key=lambda each: abs(each.change))
        kind = "link to" if first.kind == "link" else "feature"
        [row] = [each for each in rows if each[0] == f"{kind} {first.name}" and each[4] == first.predicted
                 and each[2] == f"{100 * first.probability:.1f}"]  # fmt: skip
        assert row[3].replace("\u2212", "-") == f"{-100 * first.change:+.1f}"
    assert f"fishergcn explain {model_report} --node NODE" in words


def test_the_graph(model_report):
    graph = load_model(model_report).graph
    links = graph.adjacency.tocoo()
    share = np.mean(graph.labels[links.row] == graph.labels[links.col])
    assert f"Homophily: {share:.0%} of the {graph.num_links} links" in words_of(model_report)
    assert f"{graph.num_components} component" in words_of(model_report)


def test_the_runs_and_the_files(model_report):
    rows = rows_of(model_report, "training")
    assert [row[0] for row in rows[1:]] == ["1 (chosen)", "2", "3"]
    page = page_of(model_report)
    for name in ("predictions.csv", "model.json", "weights.safetensors", "split.safetensors", "graph.npz"):
        assert f'href="./{name}"' in page
        assert (model_report / name).is_file()
    assert f"fishergcn predict {model_report}" in words_of(model_report)


def test_a_model_with_a_page_can_be_replaced(alone):
    write_report(alone)
    load_model(alone).save(alone, overwrite=True)
    assert not (alone / "report.html").exists()


def test_a_second_page_is_the_same(model_report, tmp_path):
    before = page_of(model_report)
    write_report(model_report)
    assert page_of(model_report) == before


@pytest.mark.parametrize("method", ["lp", "majority", "mlp", "gcn-t", "fishergcn"])
def test_every_method_has_a_page(tmp_path, planted_graph, method):
    graph, split = planted_graph
    config = fishergcn.TrainConfig(max_epochs=3, rank=4)
    records = fishergcn.train(graph, method, split, 1, config, keep_weights=True)
    TrainedModel.from_records(graph, records, split).save(tmp_path / "model")
    words = words_of(write_report(tmp_path / "model").parent)
    known = method in ("gcn-t", "fishergcn")
    assert ("has no derivative in the links" in words) == (not known)
    assert ("their entry of the propagation matrix" in words) == (method == "gcn-t")


def test_without_test_nodes_the_validation_nodes_are_judged_and_the_page_says_so(tmp_path, planted_graph):
    graph, split = planted_graph
    fewer = Split("no test", split.train, split.val, [])
    records = fishergcn.train(graph, "gcn", fewer, 1, fishergcn.TrainConfig(max_epochs=3), keep_weights=True)
    TrainedModel.from_records(graph, records, fewer).save(tmp_path / "model")
    words = words_of(write_report(tmp_path / "model").parent)
    assert f"of the {len(split.val)} validation nodes correctly" in words
    assert "No nodes were set aside for testing" in words


def older(folder):
    """Make of a folder what an older version would have written: without its split."""
    (folder / "split.safetensors").unlink()
    values = json.loads((folder / "model.json").read_text())
    del values["sha256"]["split.safetensors"]
    (folder / "model.json").write_text(json.dumps(values))
    return folder


def test_an_older_folder_of_an_unknown_split_says_that_there_is_no_telling(alone):
    words = words_of(write_report(older(alone)).parent)
    assert "This folder does not say which nodes those were" in words
    assert "classes" not in sections(alone)


def test_an_older_folder_whose_split_its_name_describes_is_judged(tmp_path, planted_graph):
    graph, _ = planted_graph
    name = "per-class:5+5:3"
    records = fishergcn.train(graph, "gcn", name, 1, fishergcn.TrainConfig(max_epochs=3), keep_weights=True)
    TrainedModel.from_records(graph, records, name).save(tmp_path / "new")
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    pages = [words_of(write_report(each).parent) for each in (tmp_path / "new", older(tmp_path / "old"))]
    verdicts = [re.search(r"gcn classifies .*? correctly \(.*?\)", page)[0] for page in pages]
    assert verdicts[0] == verdicts[1]


def test_many_classes_have_no_matrix_but_mistakes(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(250) % 25
    graph = fishergcn.Graph.from_edges(rng.integers(0, 250, (500, 2)), features=rng.random((250, 4)), labels=labels,
                                       num_nodes=250)  # fmt: skip
    order = rng.permutation(250)
    split = Split("s", order[:100], order[100:150], order[150:])
    records = fishergcn.train(graph, "gcn", split, 1, fishergcn.TrainConfig(max_epochs=2), keep_weights=True)
    TrainedModel.from_records(graph, records, split).save(tmp_path / "model")
    page = page_of(write_report(tmp_path / "model").parent)
    assert 'class="heat-table"' not in page
    assert "Most frequent mistakes" in page


def test_several_models_have_a_page_each_and_one_together(models_report):
    rows = rows_of(models_report, "models")
    assert [row[0] for row in rows[1:]] == ["gcn", "lp", "mlp"]
    for row in rows[1:]:
        record = load_model(models_report / row[0]).record
        assert row[4:6] == [f"{100 * record.val_accuracy:.2f}", f"{100 * record.test_accuracy:.2f}"]
        assert (models_report / row[0] / "report.html").is_file()
        assert f'href="./{row[0]}/report.html"' in page_of(models_report)
    best = max(rows[1:], key=lambda row: float(row[4]))
    assert f"{best[0]} has the best validation accuracy of 3 models" in words_of(models_report)


def test_models_of_several_graphs_lie_two_levels_down(tmp_path, planted_graph):
    graph, split = planted_graph
    for name in ("a:b", "c d"):
        named = graph.replace(name=name)
        config = fishergcn.TrainConfig(max_epochs=2)
        records = fishergcn.train(named, ["gcn", "mlp"], split, 1, config, workers=1, keep_weights=True)
        save_models(tmp_path / name, named, records, split)
    page = page_of(write_report(tmp_path).parent)
    for link in ("./a%3Ab/gcn/report.html", "./c%20d/mlp/report.html"):
        assert f'href="{link}"' in page


def test_a_selection_without_a_word_about_links(tmp_path, alone):
    model = load_model(alone)
    from fishergcn.models import Candidate, Selection

    one = Selection((Candidate("gcn", "gcn", {}, value=0.5, runs=1),), "gcn", sentences=("Only one was tried.",))
    dataclasses.replace(model, selection=one).save(tmp_path / "chosen")
    assert "Only one was tried." in words_of(write_report(tmp_path / "chosen").parent)


def test_a_folder_whose_name_is_no_text(tmp_path, alone):
    strange = tmp_path / os.fsdecode(b"caf\xe9 <b>")
    try:
        alone.rename(strange)
    except OSError:
        pytest.skip("the file system refuses the name")
    (strange.parent / "other").mkdir()
    shutil.copytree(strange, strange.parent / "second")
    page = page_of(write_report(tmp_path).parent)
    assert 'href="./caf%E9%20%3Cb%3E/report.html"' in page
    assert "caf\\udce9 &lt;b&gt;" in page
