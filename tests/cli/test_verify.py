"""``fishergcn verify``: what is sound is named, and every kind of damage, link and stranger is found."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import fishergcn
from fishergcn import Graph, TrainConfig, studies
from fishergcn.cli import app
from fishergcn.errors import DataFileError
from fishergcn.studies import verify_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links of POSIX")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model and a study with its archive, in folders of one folder."""
    place = tmp_path_factory.mktemp("made") / "given"
    rng = np.random.default_rng(0)
    links = [(at, (at + step) % 40) for at in range(40) for step in (1, 3)]
    graph = Graph.from_edges(links, features=rng.random((40, 3)), labels=np.arange(40) % 2, name="ring")
    [record] = fishergcn.train(graph, "gcn", "held-out:50%:0", config=TrainConfig(max_epochs=1), keep_weights=True)
    fishergcn.models.TrainedModel.from_records(graph, record, "held-out:50%:0").save(place / "model", runs=[record])
    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=2, epochs=1)
    with studies.run(plan, place / "study", device="cpu", workers=1) as runs:
        studies.write_archive(place / "archive", runs)
    return place


@pytest.fixture
def given(made, tmp_path):
    return shutil.copytree(made, tmp_path / "given")


def test_what_is_sound(given):
    found = verify_folder(given)
    assert found.problems == {}
    assert found.foreign == []
    assert found.sound["study/runs.sqlite"] == "study: 2 runs, each as its checksum says"
    assert sorted(found.sound) == ["archive/plan.json", "model/model.json", "model/runs.json", "study/runs.sqlite"]
    done = CliRunner().invoke(app, ["verify", str(given), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["sound"] == found.sound


@pytest.mark.parametrize("name", ["weights.safetensors", "graph.npz", "split.safetensors", "model.json"])
def test_every_damaged_file_of_a_model(given, name):
    path = given / "model" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    assert [*verify_folder(given).problems] == ["model/model.json"]
    assert CliRunner().invoke(app, ["verify", str(given)]).exit_code == 1


def test_a_damaged_run_and_a_damaged_archive(given):
    with sqlite3.connect(given / "study" / "runs.sqlite") as connection:
        connection.execute("UPDATE runs SET seed = seed + 100")
    connection.close()
    (given / "archive" / "runs.csv").write_text("dataset\n")
    (given / "model" / "runs.json").write_text("{}")
    assert sorted(verify_folder(given).problems) == ["archive/plan.json", "model/runs.json", "study/runs.sqlite"]


def test_a_database_that_would_run_something(given):
    with sqlite3.connect(given / "study" / "runs.sqlite") as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END")
    connection.close()
    assert "holds the trigger" in verify_folder(given).problems["study/runs.sqlite"]


def test_links_pipes_and_strangers(given):
    (given / "model" / "report.html").symlink_to("/etc/passwd")
    (given / "elsewhere").symlink_to(given / "study")
    os.mkfifo(given / "study" / "pipe")
    (given / "model" / "sitecustomize.py").write_text("raise SystemExit")
    (given / "model" / "\x1b[2J").write_text("")
    found = verify_folder(given)
    assert {"elsewhere", "model/report.html", "study/pipe"} <= {*found.problems}
    assert sorted(found.foreign) == ["model/\x1b[2J", "model/sitecustomize.py"]
    done = CliRunner().invoke(app, ["verify", str(given)])
    assert done.exit_code == 1
    assert "\x1b" not in done.stdout
    assert "foreign  model/sitecustomize.py" in done.stdout


def test_a_model_that_is_a_link(given):
    (given / "model" / "model.json").rename(given / "model.txt")
    (given / "model" / "model.json").symlink_to("../model.txt")
    assert verify_folder(given / "model").problems == {"model.json": "is a link"}


@pytest.mark.slow
def test_what_commands_leave_in_folders_of_every_kind(tmp_path):
    """Distances, results on graphs, a mapped graph, a choice with its studies and weights, and pages of them."""
    from fishergcn.geometry.statistics import GraphCollection, keep_results, pairwise

    links = [(at, (at + step) % 24) for at in range(24) for step in (1, 3)]
    graph = Graph.from_edges(links, labels=np.arange(24) // 12, name="ring")
    graph.save(tmp_path / "graph", mapped=True)
    graphs = GraphCollection([graph.adjacency] * 3)
    found = pairwise(graphs, folder=tmp_path / "graphs" / "distances", workers=2)
    facts = {"names": list(found.names), "method": found.method, "values": found.values.tolist()}
    keep_results(tmp_path / "graphs", graphs, {"measure": "bures"}, "distances", facts)
    fishergcn.fit(graph, "held-out:50%:0", "cpu", methods=["lp", "majority"], folder=tmp_path / "model-search")
    for name in ("graphs", "model-search"):
        assert CliRunner().invoke(app, ["report", str(tmp_path / name)]).exit_code == 0
    found = verify_folder(tmp_path)
    assert found.problems == {}
    assert found.foreign == []
    kinds = {name: words.partition(":")[0] for name, words in found.sound.items() if "study" not in words}
    assert kinds == {
        "graph/description.npy": "graph", "graphs/graphs.json": "results on graphs",
        "graphs/distances/distances.json": "distances of graphs", "model-search/choice.json": "choice of a model",
    }  # fmt: skip
    assert {name: words for name, words in found.sound.items() if "study" in words}
    path = tmp_path / "graphs" / "distances" / "row-00000.npz"
    path.write_bytes(path.read_bytes()[:-30])
    (tmp_path / "graph" / "labels.npy").write_bytes(b"x")
    (tmp_path / "graphs" / "distances" / "thesis.txt").write_text("mine")
    found = verify_folder(tmp_path)
    assert sorted(found.problems) == ["graph/description.npy", "graphs/distances/distances.json"]
    assert found.foreign == ["graphs/distances/thesis.txt"]


@pytest.mark.parametrize("place", ["nowhere", "empty", "file"])
def test_what_is_no_folder_of_ours(tmp_path, place):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFileError):
        verify_folder(tmp_path / place)
    assert CliRunner().invoke(app, ["verify", str(tmp_path / place)]).exit_code != 0


def test_folders_inside_each_other_have_an_end(tmp_path):
    (tmp_path / "/".join("abcdefgh")).mkdir(parents=True)
    with pytest.raises(DataFileError, match="at most 4 levels"):
        verify_folder(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_time_is_bounded(given):
    """A reader that never ends is ended."""
    script = f"""
import sys, time
import fishergcn.studies as studies
studies.verify_folder = lambda _: time.sleep(60)
from fishergcn.cli import main
sys.argv = ["fishergcn", "verify", {str(given)!r}, "--time-limit", "1"]
main()
"""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "fishergcn: error: the folder was not checked within 1 s; see --time-limit.\n"
    assert time.monotonic() - begun < 50
