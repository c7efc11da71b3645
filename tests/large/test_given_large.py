"""Folders and tables that ``fit-large`` is given: links, other people's files, damage, races, and what explodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import fishergcn
from fishergcn import Graph
from fishergcn._base.locks import folder_lock
from fishergcn.errors import DataFileError, FisherGCNError, InputError
from fishergcn.large import LargeFit, LargeSettings, fit_large, plan_large
from fishergcn.studies import verify_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
SMALL, VICTIM = LargeSettings(memory=700_000_000), "a thesis"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A ring whose halves are the classes; without features, so that only labels are propagated."""
    place = tmp_path_factory.mktemp("graph") / "graph"
    links = [(at, (at + step) % 64) for at in range(64) for step in (1, 3)]
    Graph.from_edges(links, num_nodes=64, labels=np.arange(64) // 32, name="ring").save(place, mapped=True)
    return place


@pytest.fixture(scope="module")
def done(graph, tmp_path_factory):
    """Finished work with its blocks."""
    place = tmp_path_factory.mktemp("done") / "out"
    fit_large(graph, out=place, settings=SMALL, keep=True)
    return place


@pytest.fixture
def half(done, tmp_path):
    """Work whose result and predictions are not there yet."""
    place = shutil.copytree(done, tmp_path / "out")
    (place / "result.json").unlink()
    shutil.rmtree(place / "blocks" / "parts")
    (tmp_path / "victim").write_text(VICTIM)
    return place


@pytest.mark.parametrize(
    "name",
    ["result.json", "runs.lock", "predictions/part-00000.parquet", "blocks/plan.json", "blocks/links/00000.json"],
)
@pytest.mark.parametrize("dangling", [True, False])
def test_no_link_is_followed(graph, half, name, dangling):
    (half / name).unlink(missing_ok=True)
    (half / name).symlink_to(half.parent / ("nowhere" if dangling else "victim"))
    with pytest.raises(DataFileError, match="is a link"):
        fit_large(graph, out=half, settings=SMALL)
    assert (half.parent / "victim").read_text() == VICTIM
    assert not (half.parent / "nowhere").exists()


@pytest.mark.parametrize("name", ["blocks", "predictions", "blocks/links"])
def test_no_link_to_a_folder_is_followed(graph, half, name):
    (half / name).rename(half.parent / "elsewhere")
    before = sorted((half.parent / "elsewhere").rglob("*"))
    (half / name).symlink_to(half.parent / "elsewhere")
    for overwrite in (False, True):
        with pytest.raises(DataFileError, match="is a link"):
            fit_large(graph, out=half, settings=SMALL, overwrite=overwrite)
    assert sorted((half.parent / "elsewhere").rglob("*")) == before


@pytest.mark.parametrize("place", ["", "predictions", "blocks", "blocks/links", "blocks/mine"])
def test_files_of_others_are_not_removed(graph, half, place):
    (half / place).mkdir(exist_ok=True)
    (half / place / "thesis.txt").write_text(VICTIM)
    for overwrite in (False, True):
        with pytest.raises(DataFileError, match="holds other files"):
            fit_large(graph, out=half, settings=SMALL, overwrite=overwrite)
    assert (half / place / "thesis.txt").read_text() == VICTIM


def test_what_a_killed_process_leaves_is_no_hindrance(graph, done, half):
    for place in ("", "predictions", "blocks", "blocks/links"):
        (half / place / f".{'ab' * 8}").write_text("half")
    found = fit_large(graph, out=half, settings=SMALL)
    assert found.to_dict()["candidates"] == LargeFit.load(done).to_dict()["candidates"]
    (half / "result.json").unlink()
    shutil.rmtree(half / "predictions")  # killed right after it began: nothing there but the lock
    again = fit_large(graph, out=half, settings=SMALL)
    assert again.to_dict()["candidates"] == found.to_dict()["candidates"]


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"a": 1, "a": 2}', '{"files": {}, "facts": {}}'])
@pytest.mark.parametrize("name", ["result.json", "blocks/plan.json", "blocks/links/00000.json"])
def test_damaged_notes_are_one_sentence(graph, half, name, text):
    (half / name).write_text(text)
    with pytest.raises(FisherGCNError) as refused:
        fit_large(graph, out=half, settings=SMALL)
    assert "\n" not in str(refused.value)


def test_a_receipt_whose_facts_were_altered_is_found(graph, half):
    path = half / "blocks" / "links" / "00000.json"
    values = json.loads(path.read_text())
    values["facts"]["train"][0] += 1
    path.write_text(json.dumps(values))
    with pytest.raises(DataFileError, match="not what its checksum says; remove it"):
        fit_large(graph, out=half, settings=SMALL)
    values["facts"]["train"][0] -= 1
    path.write_text(json.dumps(values | {"files": {"../../../victim": [1, 2, 3]}}))
    with pytest.raises(DataFileError, match=r"of each array, got '\.\./"):
        fit_large(graph, out=half, settings=SMALL)


def test_one_process_works_in_a_folder(graph, half):
    with folder_lock(half), pytest.raises(DataFileError, match="another runner"):
        fit_large(graph, out=half, settings=SMALL)


def test_of_two_with_other_settings_one_is_refused(graph, tmp_path):
    outcomes, both = {}, threading.Barrier(2)

    def work(seed):
        both.wait(30)
        try:
            outcomes[seed] = fit_large(graph, out=tmp_path / "out", settings=LargeSettings(700_000_000, seed=seed))
        except FisherGCNError as error:
            outcomes[seed] = error

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    [done] = [seed for seed, found in outcomes.items() if isinstance(found, LargeFit)]
    assert json.loads((tmp_path / "out" / "result.json").read_text())["plan"]["seed"] == done


def test_verify(done, tmp_path):
    place = shutil.copytree(done, tmp_path / "out")
    found = verify_folder(place)
    assert found.problems == {}
    assert found.foreign == []
    assert "64 nodes" in found.sound["result.json"]
    (place / "predictions" / "thesis.txt").write_text(VICTIM)
    assert verify_folder(place).foreign == ["predictions/thesis.txt"]
    part = place / "predictions" / "part-00001.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:10] + b"\xff" * 8 + whole[18:])
    assert "damaged" in verify_folder(place).problems["result.json"]
    part.unlink()
    assert "must hold predictions for 64 nodes" in verify_folder(place).problems["result.json"]


@pytest.mark.slow
def test_nothing_is_left_among_temporary_files(graph, tmp_path):
    """Not even by the libraries: torch makes a folder for compiled code where it is asked for its own optimizers."""
    script = """
import sys
from fishergcn import Graph
from fishergcn.large import LargeSettings, fit_large
import numpy as np
graph = Graph.load(sys.argv[1])
features = np.random.default_rng(0).random((graph.num_nodes, 3))
Graph(graph.adjacency, features, graph.labels, name="ring").save(sys.argv[2] + "/graph", mapped=True)
fit_large(sys.argv[2] + "/graph", out=sys.argv[2] + "/out", settings=LargeSettings(700_000_000, epochs=1, hidden=2))
"""
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(fishergcn.__file__).parents[1])
    subprocess.run([sys.executable, "-c", script, str(graph), str(tmp_path)], check=True, env=environment, timeout=300)
    assert "linear" in {each.name for each in LargeFit.load(tmp_path / "out").candidates}
    assert list((tmp_path / "tmp").iterdir()) == []


# Tables that explode


def tables(place, *, ends=None, label=None, rows=64):
    import pyarrow
    from pyarrow import parquet

    ends = np.arange(rows) if ends is None else ends
    table = pyarrow.table({"a": ends, "b": ends[::-1]})
    parquet.write_table(table, place / "edges.parquet", row_group_size=len(ends), compression="zstd")
    label = np.arange(rows) // (rows // 2) if label is None else label
    parquet.write_table(pyarrow.table({"label": label}), place / "nodes.parquet", store_schema=False)
    return {"edges": place / "edges.parquet", "nodes": place / "nodes.parquet"}


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
@pytest.mark.parametrize("column", ["label", "ends"])
def test_tables_that_explode_take_no_memory(tmp_path, column):
    """A few hundred bytes that stand for gigabytes: one long text for every node, or one number for very many links."""
    import pyarrow

    more = (
        {"label": pyarrow.DictionaryArray.from_arrays([0] * 5_999 + [1], ["x" * 100_000, "y"]), "rows": 6_000}
        if column == "label"
        else {"ends": np.zeros(20_000_000, dtype=np.int64)}
    )
    made = tables(tmp_path, **more)
    assert made["nodes" if column == "label" else "edges"].stat().st_size < 300_000
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = peak()
    if column == "label":  # each text is held once
        assert plan_large(**made, settings=SMALL).classes == 2
    else:
        with pytest.raises(DataFileError, match="decodes to too much"):
            plan_large(**made, settings=SMALL)
    assert peak() - before < 200_000_000


def peak():
    with open("/proc/self/status", encoding="ascii") as stream:
        return next(1024 * int(line.split()[1]) for line in stream if line.startswith("VmHWM"))


def test_classes_in_several_dictionaries(tmp_path):
    import pyarrow
    from pyarrow import parquet

    made, label = tables(tmp_path), np.array(["one", "two", "three", "four"])[np.arange(64) // 16]
    with parquet.ParquetWriter(made["nodes"], pyarrow.schema({"label": pyarrow.string()})) as writer:
        for part in range(4):
            writer.write_table(pyarrow.table({"label": label[part * 16 : part * 16 + 16]}))
    assert plan_large(**made, settings=SMALL).class_names == ["four", "one", "three", "two"]
    found = fit_large(**made, out=tmp_path / "out", settings=SMALL)
    assert found.nodes == 64
    parquet.write_table(pyarrow.table({"label": label, "part": ["train"] * 63 + ["tset"]}), made["nodes"])
    with pytest.raises(InputError, match="column 'part' must hold train, val, test or nothing, got 'tset'"):
        fit_large(**made, out=tmp_path / "out2", settings=SMALL)
