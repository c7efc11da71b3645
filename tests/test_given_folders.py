"""Folders from others: links in them are not followed, their databases run nothing, and races lose nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fishergcn
from fishergcn import Graph, TrainConfig, studies
from fishergcn._base import files
from fishergcn._base.locks import folder_lock
from fishergcn.cli import app
from fishergcn.errors import DataFileError
from fishergcn.geometry.statistics import GraphCollection, keep_results, load_results, pairwise
from fishergcn.large import plan_large
from fishergcn.studies import verify_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
VICTIM = "a thesis"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, a study, its archive and a search, each in a folder of its own."""
    place = tmp_path_factory.mktemp("given")
    cora = fishergcn.datasets.load("cora")
    short = TrainConfig(max_epochs=1)
    [record] = fishergcn.train(cora, "gcn", "public", config=short, keep_weights=True)
    fishergcn.models.TrainedModel.from_records(cora, record, "public").save(place / "model", runs=[record])
    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    with studies.run(plan, place / "study", device="cpu", workers=1) as runs:
        studies.write_archive(place / "archive", runs)
    pytest.importorskip("optuna")
    studies.tune(cora, "gcn", "public", place / "search", config=short, trials=1)
    return place


@pytest.fixture
def given(made, tmp_path):
    shutil.copytree(made, tmp_path / "given")
    (tmp_path / "victim").write_text(VICTIM)
    return tmp_path / "given"


def command(*arguments):
    """Return the exit status of a command and what it says."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, DataFileError | SystemExit)
    return result.exit_code, f"{result.output}{result.exception}"


@pytest.mark.parametrize(
    ("folder", "name"),
    [("model", "report.html"), ("study", "report.html"), ("study", "tables.csv"), ("study", "tables.md"),
     ("archive", "report.html"), ("search", "report.html")],
)  # fmt: skip
def test_a_report_follows_no_link(given, folder, name):
    place = given / folder
    (place / name).symlink_to("../../victim")
    status, said = command("report", place)
    assert status != 0
    assert "is a link" in said
    assert (given.parent / "victim").read_text() == VICTIM
    assert (place / name).is_symlink()


@pytest.mark.parametrize(("folder", "inside"), [("model", "a"), ("model", "a/b"), ("search", "a"), ("study", "a")])
def test_a_report_goes_into_no_folder_by_a_link(given, folder, inside):
    """Several models or searches, and the stages of a choice, in folders of a folder."""
    many = given / "many"
    (many / inside).parent.mkdir(parents=True)
    (many / inside).symlink_to(given / folder)
    if folder == "study":
        (many / "choice.json").write_text(json.dumps({"choice": "", "decisions": {}}))
    before = content(given / folder)
    assert "is a link" in command("report", many)[1]
    assert content(given / folder) == before
    if inside == "a" and folder == "model":
        with pytest.raises(DataFileError, match="is a link"):
            fishergcn.models.load_models(many)


QUICK = ("--splits", "held-out:50%:0", "--epochs", "1", "--device", "cpu", "--workers", "1", "--quiet")


@pytest.mark.parametrize("words", [("train", "--method", "gcn"), ("tune", "--method", "gcn", "--trials", "1")])
def test_names_of_graphs_are_no_paths(tmp_path, words):
    """Several graphs have a folder each, named after them: inside the one that was given, whatever they are called."""
    if words[0] == "tune":
        pytest.importorskip("optuna")
    names = ("../../outside", str(tmp_path / "absolute"), "..", "e" * 300, "plain")
    given = []
    for at, name in enumerate(names):
        ring().replace(name=name).save(tmp_path / f"{at}.npz")
        given += ["--graph", tmp_path / f"{at}.npz"]
    (tmp_path / "a" / "b").mkdir(parents=True)
    status, said = command(*words, *given, *QUICK, "--out", tmp_path / "a" / "b" / "out")
    assert status == 0, said
    made = {path.name for path in (tmp_path / "a" / "b").iterdir()} - {"out"}
    assert made == set()
    assert {path.name for path in tmp_path.iterdir()} == {"a", *(f"{at}.npz" for at in range(len(names)))}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    inside = {path.name for path in (tmp_path / "a" / "b" / "out").iterdir()}
    assert len(inside) == len(names)
    assert "plain" in inside
    assert verify_folder(tmp_path / "a" / "b" / "out").problems == {}


def test_names_of_graphs_are_no_paths_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    graph = ring().replace(name="../../outside")
    plan = studies.make_plan("quick", datasets=[graph], methods=["gcn"], splits=["held-out:50%:0"], seeds=1, epochs=1)
    studies.run(plan, tmp_path / "study", device="cpu", workers=1, tensorboard=tmp_path / "a" / "b").close()
    assert {path.name for path in tmp_path.iterdir()} == {"study", "a"}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    (tmp_path / "c").mkdir()
    [name] = [path.name for path in (tmp_path / "a" / "b").iterdir()]
    (tmp_path / "c" / name).symlink_to(tmp_path / "a")
    with pytest.raises(DataFileError, match="is a link"):
        studies.run(plan, tmp_path / "other", device="cpu", workers=1, tensorboard=tmp_path / "c").close()


def test_figures_may_be_no_link_to_a_folder(given):
    elsewhere = given.parent / "elsewhere"
    elsewhere.mkdir()
    (given / "study" / "figures").symlink_to(elsewhere)
    status, said = command("report", given / "study")
    assert status != 0
    assert "is a link" in said
    assert list(elsewhere.iterdir()) == []


def test_a_figure_may_be_no_link(given):
    assert command("report", given / "study")[0] == 0
    picture = next((given / "study" / "figures").glob("*.svg"))
    picture.unlink()
    picture.symlink_to("../../../victim")
    assert "is a link" in command("report", given / "study")[1]
    assert (given.parent / "victim").read_text() == VICTIM


@pytest.mark.parametrize("name", ["runs.lock", "runs.sqlite", "runs.sqlite-wal", "runs.sqlite-journal"])
def test_a_study_goes_on_through_no_link(given, name):
    place = given / "study"
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to("../../victim")
    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    with pytest.raises(DataFileError, match="is a link"):
        studies.run(plan, place, device="cpu", workers=1)
    assert (given.parent / "victim").read_text() == VICTIM


@pytest.mark.parametrize("name", ["tuning.json", "study.sqlite", "runs.lock"])
def test_a_search_goes_on_through_no_link(given, name):
    place = given / "search"
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to("../../victim")
    cora = fishergcn.datasets.load("cora")
    with pytest.raises(DataFileError, match="is a link"):
        studies.tune(cora, "gcn", "public", place, config=TrainConfig(max_epochs=1), trials=1)
    assert (given.parent / "victim").read_text() == VICTIM


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "split.safetensors", "runs.json"])
def test_a_model_is_read_through_no_link(given, name):
    (given / "model" / name).rename(given / name)
    (given / "model" / name).symlink_to(f"../{name}")
    with pytest.raises(DataFileError, match="is a link"):
        fishergcn.load_model(given / "model")


@pytest.mark.parametrize("name", ["plan.json", "runs.csv", "curves.csv"])
def test_an_archive_is_read_and_written_through_no_link(given, name):
    place = given / "archive"
    (place / name).rename(given / name)
    (place / name).symlink_to(f"../{name}")
    with pytest.raises(DataFileError, match="is a link"):
        studies.open_runs(place)
    with studies.open_runs(given / "study") as runs, pytest.raises(DataFileError, match="is a link"):
        studies.write_archive(place, runs)


def ring(scale=1.0):
    links = [(at, (at + step) % 24) for at in range(24) for step in (1, 3)]
    features = np.random.default_rng(0).random((24, 3)) * scale
    return Graph.from_edges(links, features=features, labels=np.arange(24) % 2, name="ring")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["row-00000.npz", "graphs.npz", "distances.json"])
def test_distances_go_on_through_no_link(tmp_path, name, workers):
    graphs, place = GraphCollection([ring().adjacency] * 4), tmp_path / "distances"
    pairwise(graphs, folder=place, workers=2)
    for row in place.glob("row-*"):
        row.unlink()
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to("../victim")
    if name != "graphs.npz" or workers > 1:  # which one process does not need
        with pytest.raises(DataFileError, match="is a link"):
            pairwise(graphs, folder=place, workers=workers)
    assert not (tmp_path / "victim").exists()


def test_folders_inside_may_be_no_links(tmp_path):
    """Those of a choice's stages and of distances, and the search beside a model."""
    place, elsewhere, table = tmp_path / "given", tmp_path / "elsewhere", tmp_path / "links.csv"
    place.mkdir()
    elsewhere.mkdir()
    for name in ("settings", "candidates", "finalists", "distances", "model-search"):
        (place / name).symlink_to(elsewhere)
    with pytest.raises(DataFileError, match="is a link"):
        fishergcn.fit(ring(), "held-out:50%:0", "cpu", methods=["lp", "majority"], ensemble=False, folder=place)
    table.write_text("day,a,b\n1,x,y\n1,y,z\n2,x,z\n2,y,z\n")
    assert "is a link" in command("graphs", "distances", table, "--out", place)[1]
    ring().save(tmp_path / "ring.npz")
    words = ("train", "--graph", tmp_path / "ring.npz", "--splits", "held-out:50%:0", "--out", place / "model")
    assert "is a link" in command(*words, "--device", "cpu", "--quiet")[1]
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("dangling", [True, False])
def test_results_on_graphs_go_on_through_no_link(tmp_path, dangling):
    graphs, place = GraphCollection([ring().adjacency] * 2), tmp_path / "results"
    keep_results(place, graphs, {}, "one", [1])
    (place / "graphs.json").rename(tmp_path / "victim")
    before = (tmp_path / "victim").read_bytes()
    (place / "graphs.json").symlink_to("../nowhere" if dangling else "../victim")
    with pytest.raises(DataFileError, match="is a link"):
        keep_results(place, graphs, {}, "two", [2])
    assert (tmp_path / "victim").read_bytes() == before
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("text", [None, "", "{", "[]", "[" * 100_000, '{"a": 1, "a": 2}', "\xff", '{"decisions": 1}'])
def test_a_choice_goes_on_through_no_link_and_from_no_damage(tmp_path, text):
    place = tmp_path / "search"
    place.mkdir()
    (tmp_path / "victim").write_text(VICTIM)
    if text is None:
        (place / "choice.json").symlink_to("../victim")
    else:
        (place / "choice.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataFileError, match="is a link" if text is None else r"is damaged; delete .* to start over\.$"):
        fishergcn.fit(ring(), "held-out:50%:0", "cpu", methods=["lp", "majority"], ensemble=False, folder=place)
    assert (tmp_path / "victim").read_text() == VICTIM


def test_decisions_that_are_none_are_damage(tmp_path):
    options = {"methods": ["lp", "majority"], "ensemble": False, "time_limit": 1000.0, "folder": tmp_path / "search"}
    fishergcn.fit(ring(), "held-out:50%:0", "cpu", **options)
    path = tmp_path / "search" / "choice.json"
    values = json.loads(path.read_text())
    for name in ("keys of candidates", "splits of finalists"):
        assert name in values["decisions"]
        for odd in (-1, [["gcn"], {}], [[["no", "such"]], {}]):
            path.write_text(json.dumps(values | {"decisions": values["decisions"] | {name: odd}}))
            with pytest.raises(DataFileError, match=r"is damaged; delete .* to start over\.$"):
                fishergcn.fit(ring(), "held-out:50%:0", "cpu", **options)


@pytest.mark.parametrize("place", ["thesis.txt", "stage/thesis.txt", "stage/weights/thesis.txt", "mine/thesis.txt"])
def test_a_search_that_holds_files_of_others_is_not_removed(tmp_path, place):
    for name in ("choice.json", "runs.lock", "stage/runs.sqlite", "stage/runs.lock", "stage/weights/0-1.npz", place):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(VICTIM)
    with pytest.raises(DataFileError, match="not part of a search: it is not removed"):
        studies.forget_choice(tmp_path)
    assert (tmp_path / "stage" / "runs.sqlite").exists()
    (tmp_path / place).unlink()
    studies.forget_choice(tmp_path)
    assert not tmp_path.exists()


def test_a_path_that_was_typed_may_be_a_link(given):
    (given / "alias").symlink_to("model")
    assert command("report", given / "alias")[0] == 0
    assert (given / "model" / "report.html").is_file()
    files.write_text(given / "alias" / "x", "new")
    (given / "typed").symlink_to("../victim")
    files.write_text(given / "typed", "new")
    assert (given.parent / "victim").read_text() == "new"


# Races


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "new"
    with pytest.raises(DataFileError, match="appeared there meanwhile"), files.atomic_folder(target) as place:  # noqa: PT012
        (place / "a").write_text("ours")
        target.mkdir()
        (target / "thesis.txt").write_text(VICTIM)
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "thesis.txt"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_in_place_of_a_new_one_is_not_replaced(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", _fail)
    new = tmp_path / "new.csv"
    with pytest.raises(DataFileError, match="appeared there meanwhile"), files.atomic_path(new, overwrite=False) as to:  # noqa: PT012
        to.write_text("ours")
        new.write_text(VICTIM)
    assert content(tmp_path) == {"new.csv": VICTIM.encode()}
    files.write_text(tmp_path / "other.csv", "ours", overwrite=False)
    files.write_text(tmp_path / "new.csv", "ours")
    assert content(tmp_path) == {"new.csv": b"ours", "other.csv": b"ours"}


def _fail(*_, **__):
    raise OSError(errno.EPERM, "no links here")


@pytest.mark.parametrize(
    "words",
    [("predict", "MODEL"), ("explain", "MODEL", "--node", "0"), ("certify", "MODEL", "--links", "0.1"),
     ("data", "import", "--edges", "LINKS")],
)  # fmt: skip
def test_no_command_replaces_a_file_that_appears_meanwhile(given, monkeypatch, words):
    """Whatever is there when a command begins to write, it was not there when it began."""
    table, out = given / "links.csv", given / ("new.npz" if words[0] == "data" else "new.csv")
    table.write_text("a,b\nb,c\n")
    monkeypatch.setattr("fishergcn.cli._options.check_new_file", lambda path, **_: path.write_text(VICTIM))
    names = {"MODEL": given / "model", "LINKS": table}
    assert "appeared there meanwhile" in command(*(names.get(word, word) for word in words), "--out", out)[1]
    assert out.read_text() == VICTIM


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "new"
    with pytest.raises(DataFileError, match="appeared there meanwhile"), files.atomic_folder(target):
        target.write_text(VICTIM)
    assert target.read_text() == VICTIM
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_replaced_is_looked_at_again(tmp_path, monkeypatch, at_once):
    if not at_once:
        monkeypatch.setattr(files, "exchange_names", lambda *_: False)
    target = tmp_path / "old"
    target.mkdir()
    (target / "model.json").write_text("ours")

    def ours(folder):
        return not (folder / "thesis.txt").exists()

    with (  # noqa: PT012
        pytest.raises(DataFileError, match="holds other files by now"),
        files.atomic_folder(target, replaces=ours) as new,
    ):
        (new / "model.json").write_text("new")
        (target / "thesis.txt").write_text(VICTIM)
    assert {path.name: path.read_text() for path in target.iterdir()} == {"model.json": "ours", "thesis.txt": VICTIM}
    with files.atomic_folder(target, replaces=lambda _: True) as new:
        (new / "model.json").write_text("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["old", "model.json"]


def in_threads(function, arguments):
    threads = [threading.Thread(target=function, args=(each,)) for each in arguments]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_those_who_try_new_folders_at_once_do_not_refuse_each_other(tmp_path):
    refused = []

    def check(_):
        for turn in range(300):
            try:
                place = tmp_path / f"results-{turn // 100}" / "a" / f"{turn % 2}"
                files.check_target(place, overwrite=False, ours=lambda _: True)
            except DataFileError as error:
                refused.append(str(error))

    in_threads(check, range(4))
    assert not refused
    assert not list(tmp_path.iterdir())


def test_of_commands_that_add_to_the_same_results_none_loses_its_part(tmp_path):
    graphs = GraphCollection([ring().adjacency] * 2)
    in_threads(
        lambda part: keep_results(tmp_path / "results", graphs, {}, part, [1]), [f"part {at}" for at in range(20)]
    )
    assert len(load_results(tmp_path / "results").parts) == 20


def test_of_two_choices_in_a_folder_one_is_refused(tmp_path):
    with folder_lock(tmp_path), pytest.raises(DataFileError, match="another runner"):
        fishergcn.fit(ring(), "held-out:50%:0", "cpu", methods=["lp", "majority"], ensemble=False, folder=tmp_path)


def test_of_two_that_write_the_same_folder_one_is_refused(tmp_path):
    target, both, outcomes = tmp_path / "new", threading.Barrier(2), []

    def write(name):
        try:
            with files.atomic_folder(files.check_target(target, overwrite=False, ours=lambda _: True)) as place:
                (place / name).write_text(name)
                both.wait(10)
            outcomes.append("written")
        except DataFileError as error:
            outcomes.append(str(error))

    in_threads(write, "ab")
    assert sorted(outcomes)[1] == "written"
    assert "appeared there meanwhile" in sorted(outcomes)[0]
    assert len(list(target.iterdir())) == 1


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_stranger_who_writes_into_a_folder_while_it_changes_loses_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("old")
    with pytest.raises(DataFileError, match="other files by now"), files.changed_folder(tmp_path / "a") as new:  # noqa: PT012
        files.write_text(new / "x", "new")
        (tmp_path / "a" / "thesis.txt").write_text("mine")
    assert content(tmp_path / "a") == {"x": b"old", "thesis.txt": b"mine"}


def test_files_are_copied_where_they_cannot_be_shared(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", _fail)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.txt").write_text("mine")
    with files.changed_folder(tmp_path / "a") as new:
        files.write_text(new / "x", "new")
    assert content(tmp_path / "a") == {"x": b"new", "thesis.txt": b"mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_working_folder_is_not_taken_away(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("old")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataFileError, match="holds the working folder"), files.changed_folder(Path()):
        pass


# Databases

HOSTILE = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
    "view": "CREATE VIEW v AS SELECT 1",
    "table": "CREATE TABLE other (a)",
    "index": "CREATE INDEX i ON runs (upper(cell))",
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("writable", [True, False])
def test_a_study_with_more_than_our_schema_is_refused(given, kind, writable):
    with sqlite3.connect(given / "study" / "runs.sqlite") as connection:
        connection.execute(HOSTILE[kind])
    connection.close()
    with pytest.raises(DataFileError, match=f"it holds the {kind}"):
        studies.open_runs(given / "study").close() if not writable else _run_again(given / "study")


def _run_again(folder):
    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    return studies.run(plan, folder, device="cpu", workers=1).close()


def test_generated_columns_are_refused_before_they_are_made(tmp_path):
    with sqlite3.connect(tmp_path / "runs.sqlite") as connection:
        connection.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.execute(
            "CREATE TABLE runs (dataset, cell, method, split, seed, status, checksum,"
            " record BLOB AS (zeroblob(900000000)), UNIQUE (dataset, cell, method, split, seed))"
        )
        connection.execute("INSERT INTO runs VALUES (1, 2, 3, 4, 5, 6, 7)")
    connection.close()
    with pytest.raises(DataFileError, match="it holds the table 'runs'"):
        studies.open_runs(tmp_path)


@pytest.mark.parametrize(
    "hostile",
    ["CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END", "CREATE VIEW studies2 AS SELECT 1",
     "CREATE TABLE trial_x (a, b AS (zeroblob(900000000)))", "CREATE INDEX i ON trials (upper(state))"],
)  # fmt: skip
def test_a_search_with_more_than_tables_is_refused(given, hostile):
    with sqlite3.connect(given / "search" / "study.sqlite") as connection:
        connection.execute(hostile)
    connection.close()
    cora = fishergcn.datasets.load("cora")
    with pytest.raises(DataFileError, match="which no search of ours makes"):
        studies.tune(cora, "gcn", "public", given / "search", config=TrainConfig(max_epochs=1), trials=1)


# Searches that go on


def test_a_search_that_was_killed_goes_on_as_it_would_have(tmp_path, monkeypatch):
    optuna = pytest.importorskip("optuna")
    cora, short = fishergcn.datasets.load("cora"), TrainConfig(max_epochs=1)
    monkeypatch.setattr("fishergcn.studies._tuning._Objective.records", _instead_of_training)
    whole = studies.tune(cora, "gcn", "public", tmp_path / "whole", config=short, trials=14)

    class Killed(BaseException):
        pass

    for until in (3, 4, 11):
        with pytest.raises(Killed):
            studies.tune(cora, "gcn", "public", tmp_path / "parts", config=short, trials=14,
                         listener=_Stops(until, Killed))  # fmt: skip
        storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/parts/study.sqlite")
        optuna.load_study(storage=storage, study_name="tune").ask()  # a trial that never ended
    parts = studies.tune(cora, "gcn", "public", tmp_path / "parts", config=short, trials=14)
    assert parts == whole


def _instead_of_training(self, settings):
    """Return a record whose score depends on the settings alone."""
    from types import SimpleNamespace

    value = sum(float(each) for each in settings.values() if not isinstance(each, str)) % 1
    return [SimpleNamespace(status="ok", val_loss=1 - value, val_accuracy=value, split="public")]


class _Stops(fishergcn.execution.Listener):
    def __init__(self, until, error):
        self.until, self.error = until, error

    def say(self, text):
        if text.startswith(f"trial {self.until} "):
            raise self.error


def test_one_process_searches_in_a_folder(tmp_path):
    cora = fishergcn.datasets.load("cora")
    Path(tmp_path / "search").mkdir()
    with folder_lock(tmp_path / "search"), pytest.raises(DataFileError, match="another runner"):
        studies.tune(cora, "gcn", "public", tmp_path / "search", config=TrainConfig(max_epochs=1), trials=1)


# Pipes and devices, which have no end


@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
@pytest.mark.parametrize("name", ["labels.npy", "description.npy", "runs.csv", "a.parquet", "preset.toml"])
def test_what_has_no_end_is_refused(given, kind, name):
    ring().save(given / "graph", mapped=True)
    place = {"labels.npy": "graph", "description.npy": "graph", "runs.csv": "archive"}.get(name, "model")
    path = given / place / name
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    read = {
        "graph": lambda: fishergcn.Graph.load(given / "graph"),
        "archive": lambda: studies.open_runs(given / "archive"),
        "model": lambda: studies.load_preset(path) if name == "preset.toml" else plan_large(edges=path, nodes=path),
    }[place]
    with ends_within(20), pytest.raises(DataFileError, match=r"not a file|is a link"):
        read()
    if place == "graph":
        with ends_within(20), pytest.raises(DataFileError, match=r"is not a file|is a link"):
            plan_large(given / "graph")


@contextlib.contextmanager
def ends_within(seconds):
    """End this process by a signal that nothing catches if something waits for ever."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
