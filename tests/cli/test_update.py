"""``fishergcn train … --update``: the same choice on more labels and other links, in the folder of the model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph
from fishergcn.cli import app
from fishergcn.cli._data import Tables
from fishergcn.errors import InputError
from fishergcn.execution import train
from fishergcn.models import Ensemble, _refit, load_model

FEW = ["--workers", "1", "--device", "cpu", "--quiet"]
PAIRS = [(node, (node + step) % 60) for node in range(60) for step in (2, 4)]


def run(*words):
    result = CliRunner().invoke(app, ["train", *map(str, words), *FEW], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def write(folder, name, labels=30, pairs=PAIRS):
    """Write tables of two groups, in which a column of numbers means nothing; return the options that name them."""
    rng, group = np.random.default_rng(0), ["zero", "one"] * 30
    (folder / "links.csv").write_text("from,to\n" + "".join(f"n{one},n{other}\n" for one, other in pairs))
    rows = (
        f"n{at},{rng.random() + (group[at] == 'one'):.4f},{'red' if at % 3 else 'blue'},{at},"
        f"{group[at] if at < labels else ''}\n"
        for at in range(60)
    )
    (folder / name).write_text("id,size,color,code,kind\n" + "".join(rows))
    return ["--edges", folder / "links.csv", "--features", folder / name]


READ = ["--label", "kind", "--drop", "code", "--column", "color=one-hot"]


@pytest.fixture(scope="module", params=["gcn", "an ensemble"])
def trained(request, tmp_path_factory):
    """Return a folder with a model and its tables, read with choices that later tables follow."""
    place = tmp_path_factory.mktemp("first")
    known = [*write(place, "nodes.csv"), *READ, "--epochs", 4, "--hidden", 4]
    run(*known, "--method", "gcn", "--out", place / "model")
    if request.param == "an ensemble":
        run(*known, "--method", "mlp", "--out", place / "model-b")
        parts = [load_model(place / name) for name in ("model", "model-b")]
        Ensemble.from_models(parts, [0.5, 0.5], [1.0, 1.0]).save(place / "model", overwrite=True)
    return place


def bytes_of(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_more_labels_and_other_links_are_read_as_before(trained):
    before = load_model(trained / "model")
    known = write(trained, "more.csv", labels=50, pairs=PAIRS[:-10])
    run(*known, "--out", trained / "model", "--update")
    after = load_model(trained / "model")
    assert after.graph.feature_names == before.graph.feature_names == ("size", "color=blue", "color=red")
    assert (before.split_sizes["train"], after.split_sizes["train"]) == (24, 40)
    assert after.graph.num_links == before.graph.num_links - 10
    assert type(after) is type(before)
    parts = [each.members if isinstance(each, Ensemble) else [each] for each in (before, after)]
    for old, new in zip(*parts, strict=True):
        assert (new.record.method, new.record.seed, new.config) == (old.record.method, old.record.seed, old.config)
    expected = before.refit(after.graph)
    assert np.array_equal(after.probabilities(), expected.probabilities())
    assert not np.array_equal(after.probabilities(), before.probabilities())


def test_what_is_refused_leaves_the_old_model(trained):
    old, folder = bytes_of(trained / "model"), trained / "model"
    other = write(trained, "other.csv", labels=40)
    text = (trained / "other.csv").read_text()
    (trained / "other.csv").write_text(text.replace("zero\n", "third\n", 3))
    with pytest.raises(InputError, match=r"the classes must be those of the model, one, zero, got one, third, zero\."):
        run(*other, "--out", folder, "--update")
    (trained / "other.csv").write_text(text.replace("size", "weight", 1))
    with pytest.raises(InputError, match="size"):
        run(*other, "--out", folder, "--update")
    with pytest.raises(InputError, match="--update takes one graph and one split, got 1 and 2"):
        run(
            *write(trained, "more.csv"), "--out", folder, "--update", "--splits", "shuffled:1", "--splits", "shuffled:2"
        )
    assert bytes_of(folder) == old
    assert not [each for each in trained.iterdir() if each.is_dir() and not each.name.startswith("model")]


def test_a_training_that_fails_leaves_the_old_model(trained, monkeypatch):
    def diverged(*arguments, **options):
        return [dataclasses.replace(each, status="diverged") for each in train(*arguments, **options)]

    old = bytes_of(trained / "model")
    monkeypatch.setattr(_refit, "train", diverged)
    with pytest.raises(InputError, match=r"again failed \(diverged\); the old model is as it was\."):
        run(*write(trained, "more.csv", labels=50), "--out", trained / "model", "--update")
    assert bytes_of(trained / "model") == old


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--update trains the model in --out again: it needs --out and goes without --method"),
        (["--out", "m", "--method", "gcn"], "it needs --out and goes without --method"),
        (["--out", "m", "--coverage", "0.9"], "--update keeps the coverage that the model has"),
    ],
)
def test_options_that_do_not_go_together(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        run(*write(tmp_path, "nodes.csv"), "--label", "kind", *options, "--update")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["links.csv", "nodes.csv"]


@pytest.mark.parametrize(("head", "label", "part"), [("id,size,kind,use\n", "kind", "use"), ("", 3, 4)])
def test_columns_of_labels_and_parts_are_those_of_before(tmp_path, head, label, part):
    rows = "".join(f"n{at},{at},{'ab'[at % 2]},{('train', 'val', '')[at % 3]}\n" for at in range(12))
    (tmp_path / "nodes.csv").write_text(head + rows)
    (tmp_path / "links.csv").write_text("n0,n1\nn1,n2\n")
    (tmp_path / "labels.csv").write_text("n0,a\nn1,b\n")
    known = Graph.from_files(tmp_path / "links.csv", features=tmp_path / "nodes.csv", label=label, parts=part)
    found = Tables(features=tmp_path / "nodes.csv").completed(known).read(tmp_path / "links.csv", like=known)
    assert np.array_equal(found.labels, known.labels)
    assert found.num_features == known.num_features == 1
    assert [*found.standard_split["train"]] == [*known.standard_split["train"]] == [0, 3, 6, 9]
    apart = Tables(features=tmp_path / "nodes.csv", labels=tmp_path / "labels.csv").completed(known)
    assert (apart.read(tmp_path / "links.csv", like=known).labels >= 0).sum() == 2
