"""Large graphs in blocks: against dense oracles, interrupted, damaged, from Parquet, and on a cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.large import LargeSettings, fit_large, plan_large

TASKS = sys.modules["fishergcn.large._tasks"]

NODES, CLASSES, COLUMNS = 900, 3, 12
RUNTIME = 600_000_000  # bytes that are set aside for Python and libraries
SMALL = LargeSettings(memory=RUNTIME + 2_000_000, epochs=3, hidden=16)


def planted(weighted: bool = False) -> Graph:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, NODES)
    one = rng.integers(0, NODES, 6 * NODES)
    by_class = [np.flatnonzero(labels == each) for each in range(CLASSES)]
    same = np.array([rng.choice(by_class[labels[each]]) for each in one])
    other = np.where(rng.random(len(one)) < 0.6, same, rng.integers(0, NODES, len(one)))
    pairs = np.unique(np.sort(np.stack([one, other], axis=1)[one != other], axis=1), axis=0)
    features = rng.standard_normal((NODES, COLUMNS)).astype(np.float32)
    features[:, :CLASSES] += 0.7 * np.eye(CLASSES, dtype=np.float32)[labels]
    features *= 10.0 ** np.arange(-5, 7)  # columns of very different size
    order = rng.permutation(NODES)
    split = {"train": order[:200], "val": order[200:500], "test": order[500:900]}
    weights = rng.integers(1, 5, len(pairs)) / 2 if weighted else None
    return Graph.from_edges(pairs, num_nodes=NODES, weights=weights, features=features, labels=labels,
                            standard_split=split, name="planted")  # fmt: skip


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted()


@pytest.fixture(scope="module")
def folder(graph, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("graph") / "graph"
    graph.save(place, mapped=True)
    return place


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """Results of a run without interruption whose blocks are kept."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return fit_large(folder, out=out, settings=SMALL, keep=True), out


def blocks_of(out, stage, name):
    return np.concatenate([np.load(path) for path in sorted((out / "blocks" / stage).glob(f"*.{name}.npy"))])


def predictions(out):
    import pyarrow.parquet as parquet

    return parquet.read_table(out / "predictions")


def normalized(adjacency, loops):
    matrix = adjacency + sparse.eye_array(NODES) if loops else adjacency
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(matrix.sum(axis=1), 1e-300)))
    return (scale @ matrix @ scale).tocsr()


@pytest.mark.parametrize("weighted", [False, True])
def test_propagated_features_are_those_of_the_matrix(weighted, tmp_path):
    graph = planted(weighted)
    graph.save(tmp_path / "graph", mapped=True)
    fit_large(tmp_path / "graph", out=tmp_path / "out", settings=SMALL, keep=True)
    values = graph.features.astype(np.float64)
    values /= np.sqrt((values**2).mean(axis=0))
    matrix = normalized(graph.adjacency, loops=True)
    for hop in range(3):
        stage, name = ("hop-0", "slab0") if hop == 0 else (f"hop-{hop}.0", "values")
        found = blocks_of(tmp_path / "out", stage, name)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, values, rtol=2**-11, atol=2**-11 * (hop + 1))  # of half precision
        values = matrix @ values


def test_label_propagation_and_smoothing_are_those_of_dense_matrices(graph, whole):
    _, out = whole
    matrix, split = normalized(graph.adjacency, loops=False), graph.standard_split
    known = np.zeros((NODES, CLASSES))
    known[split["train"], graph.labels[split["train"]]] = 1

    def spread(given, share, steps):
        found = given
        for _ in range(steps):
            found = share * (matrix @ found) + (1 - share) * given
        return found

    [last] = [path.name for path in (out / "blocks").glob("classes-[1-9]*")]
    steps = int(last.removeprefix("classes-").partition(".")[0])
    np.testing.assert_allclose(blocks_of(out, last, "values"), spread(known, 0.9, steps), atol=2**-11 * 10)
    network = blocks_of(out, "network", "values").astype(np.float64)
    errors = np.where(known.any(axis=1, keepdims=True), known - network, 0)
    size = np.abs(errors).sum() / len(split["train"])
    moved = spread(errors, 0.8, 10)
    corrected = np.clip(network + size * moved / np.abs(moved).sum(axis=1, keepdims=True), 0, 1)
    corrected[split["train"]] = known[split["train"]]
    smooth = spread(corrected, 0.8, 10)
    found = blocks_of(out, "corrected-10.0", "values")
    assert np.quantile(np.abs(found - smooth), 0.99) < 0.01  # small errors have no direction in half precision
    candidates = {each.name: each for each in whole[0].candidates}
    right = (found.argmax(axis=1) == graph.labels)[split["test"]].mean()
    [name] = [each for each in candidates if "corrected" in each]
    assert candidates[name].test == pytest.approx(right, abs=1e-12)


def test_the_linear_model_is_ridge_regression(graph, whole):
    result, out = whole
    split = graph.standard_split
    inputs = blocks_of(out, "hop-0", "slab0").astype(np.float64)
    train = inputs[split["train"]]
    inputs = (inputs - train.mean(axis=0)) / train.std(axis=0)
    known = np.eye(CLASSES)[graph.labels[split["train"]]]
    rights = []
    for ridge in (1e-5, 1e-3, 1e-1):
        gram = inputs[split["train"]].T @ inputs[split["train"]] + ridge * 200 * np.eye(COLUMNS)
        weight = np.linalg.solve(gram, inputs[split["train"]].T @ known)
        outputs = inputs @ weight + known.mean(axis=0)
        rights.append((outputs.argmax(axis=1) == graph.labels)[split["test"]].mean())
    [found] = [each for each in result.candidates if each.name == "linear, no links"]
    assert min(abs(found.test - each) for each in rights) <= 1 / 400


def test_links_help_here_and_the_best_on_validation_nodes_is_chosen(graph, whole):
    result, out = whole
    candidates = {each.name: each for each in result.candidates}
    assert candidates["linear"].test > candidates["linear, no links"].test
    assert candidates[result.chosen].val == max(each.val for each in result.candidates)
    table = predictions(out)
    assert table.column("node").to_pylist() == list(range(NODES))
    right = np.array(table.column("class").to_pylist(), dtype=int) == graph.labels
    assert right[graph.standard_split["test"]].mean() == pytest.approx(candidates[result.chosen].test)
    assert result.entries == graph.adjacency.nnz


@pytest.mark.slow
def test_cut_otherwise_features_are_the_same_bit_for_bit(folder, whole, tmp_path, monkeypatch):
    """Less memory: more blocks; and slabs of columns that are propagated one after the other."""
    halves = [(0, 5), (5, COLUMNS)], [(0, 1), (1, CLASSES)]
    monkeypatch.setattr("fishergcn.large._plan.Plan.slabs", lambda _, columns: halves[columns == CLASSES])
    other = LargeSettings(memory=RUNTIME + 150_000, epochs=1, hidden=8)
    assert plan_large(folder, settings=other).blocks > plan_large(folder, settings=SMALL).blocks
    fit_large(folder, out=tmp_path / "out", settings=other, workers=1, keep=True)
    found = np.hstack([blocks_of(tmp_path / "out", f"hop-2.{slab}", "values") for slab in range(2)])
    assert np.array_equal(found, blocks_of(whole[1], "hop-2.0", "values"))


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    "where", ["hop-1", *(pytest.param(each, marks=pytest.mark.slow) for each in ("train", "classes-3")), "corrected-9"]
)
def test_what_was_interrupted_goes_on(where, folder, whole, tmp_path):
    def stop(text):
        if text.startswith(where):
            raise Stop

    with pytest.raises(Stop):
        fit_large(folder, out=tmp_path / "out", settings=SMALL, progress=stop)
    assert not (tmp_path / "out" / "result.json").exists()
    lines = []
    found = fit_large(folder, out=tmp_path / "out", settings=SMALL, progress=lines.append)
    assert found.candidates == whole[0].candidates
    assert predictions(tmp_path / "out").equals(predictions(whole[1]))
    assert not any(line.startswith(where) for line in lines)  # what was done is not done again
    assert not (tmp_path / "out" / "blocks").exists()
    assert fit_large(folder, out=tmp_path / "out", settings=SMALL).candidates == found.candidates  # nothing to do


@pytest.mark.parametrize("damage", ["changed", "removed", "cut"])
def test_a_damaged_block_is_found_and_made_again(damage, folder, whole, tmp_path):
    shutil.copytree(whole[1], tmp_path / "out")
    (tmp_path / "out" / "result.json").unlink()
    for stage in ("hop-1.0", "network", "parts"):
        shutil.rmtree(tmp_path / "out" / "blocks" / stage) if stage != "hop-1.0" else None
    path = sorted((tmp_path / "out" / "blocks" / "hop-1.0").glob("*.values.npy"))[2]
    if damage == "changed":  # of the same size and time: only the checksum tells
        before, data = os.stat(path), bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif damage == "cut":
        os.truncate(path, path.stat().st_size - 4)
    else:
        path.unlink()
    lines = []
    fit_large(folder, out=tmp_path / "out", settings=SMALL, progress=lines.append, keep=True)
    assert any(line.startswith("hop-1.0") for line in lines)
    assert path.read_bytes() == (whole[1] / "blocks" / "hop-1.0" / path.name).read_bytes()
    assert predictions(tmp_path / "out").equals(predictions(whole[1]))


def test_a_block_that_disappears_amid_the_work_is_named(folder, tmp_path):
    def disturb(text):
        if text.startswith("hop-0"):
            next((tmp_path / "out" / "blocks" / "hop-0").glob("00003.*.npy")).unlink()

    with pytest.raises(InputError, match=r"block 3 of stage 'hop-0' is missing or was changed .* run the same command"):
        fit_large(folder, out=tmp_path / "out", settings=SMALL, progress=disturb)
    fit_large(folder, out=tmp_path / "out", settings=SMALL)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_block_that_fails_is_tried_once_more_and_then_named(failures, folder, whole, tmp_path, monkeypatch):
    left = [failures]

    def failing(context, block, **settings):
        if block == 1 and left[0]:
            left[0] -= 1
            raise OSError("the disk is tired")
        return real(context, block, **settings)

    real = TASKS.TASKS["spread"]
    monkeypatch.setitem(TASKS.TASKS, "spread", failing)
    if failures == 2:
        with pytest.raises(FisherGCNError, match=r"block 1 of stage 'hop-1.0' failed twice \(the disk is tired\)"):
            fit_large(folder, out=tmp_path / "out", settings=SMALL)
    assert fit_large(folder, out=tmp_path / "out", settings=SMALL).candidates == whole[0].candidates


def parquet_of(graph, place, **more):
    import pyarrow
    import pyarrow.parquet as parquet

    upper = sparse.triu(graph.adjacency).tocoo()
    order = np.random.default_rng(1).permutation(upper.nnz)
    ends = {"one": upper.col[order].astype(np.int64), "other": upper.row[order].astype(np.int64)}
    columns = {f"x{at}": graph.features[:, at] for at in range(COLUMNS)}
    part = np.full(NODES, None, dtype=object)
    for name, nodes in graph.standard_split.items():
        part[nodes] = name
    table = pyarrow.table({"node": np.arange(NODES), **columns, "label": graph.labels, "part": part, **more})
    (place / "nodes").mkdir(parents=True)
    parquet.write_table(pyarrow.table(ends), place / "links.parquet", row_group_size=1000)
    parquet.write_table(table.slice(0, 500), place / "nodes" / "a.parquet", row_group_size=300)
    parquet.write_table(table.slice(500), place / "nodes" / "b.parquet", row_group_size=300)
    return {"edges": place / "links.parquet", "nodes": place / "nodes"}


def test_parquet_is_the_same_graph(graph, whole, tmp_path):
    found = fit_large(**parquet_of(graph, tmp_path), out=tmp_path / "out", settings=SMALL)
    assert found.candidates == whole[0].candidates
    assert predictions(tmp_path / "out").equals(predictions(whole[1]))


def test_tables_that_cannot_be_read_are_refused(graph, tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    source = parquet_of(graph, tmp_path)
    with pytest.raises(InputError, match="must have a column 'team' of classes"):
        fit_large(**source, label="team", out=tmp_path / "out")
    words = pyarrow.table({"one": ["Ada"], "other": ["Bob"]})
    parquet.write_table(words, tmp_path / "words.parquet")
    with pytest.raises(InputError, match="column 'one' must hold whole numbers"):
        fit_large(edges=tmp_path / "words.parquet", nodes=source["nodes"], out=tmp_path / "out", settings=SMALL)
    parquet.write_table(pyarrow.table({"one": [0], "other": [NODES]}), tmp_path / "far.parquet")
    with pytest.raises(InputError, match=rf"links must join nodes from 0 to {NODES - 1}.*got {NODES}"):
        fit_large(edges=tmp_path / "far.parquet", nodes=source["nodes"], out=tmp_path / "far", settings=SMALL)
    second = source["nodes"] / "b.parquet"
    parquet.write_table(parquet.read_table(second).drop_columns(["x3"]), second)
    with pytest.raises(InputError, match=r"the same columns in all files: .*a.parquet has 15 and .*b.parquet has 14"):
        fit_large(**source, out=tmp_path / "narrow")
    assert not (tmp_path / "narrow").exists()


def test_what_cannot_be_done_is_refused_before_the_work(graph, folder, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"memory must be at least 0.60 GB for 900 nodes, got 0.1"):
        fit_large(folder, out=tmp_path / "out", settings=LargeSettings(memory=100_000_000))
    with pytest.raises(InputError, match="either graph, a mapped folder, or both edges and nodes"):
        fit_large(out=tmp_path / "out")
    with pytest.raises(InputError, match="nowhere does not exist"):
        fit_large(tmp_path / "nowhere", out=tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(InputError, match="holds other files"):
        fit_large(folder, out=tmp_path / "mine", overwrite=True)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(InputError, match=r"the work takes about 0.00 GB of disk in .* are free; fewer hops take less"):
        fit_large(folder, out=tmp_path / "full", settings=SMALL)


def test_other_data_or_settings_do_not_continue(graph, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "graph")
    fit_large(tmp_path / "graph", out=tmp_path / "out", settings=SMALL)
    with pytest.raises(InputError, match=r"other settings \(hops\); give another folder, or overwrite=True"):
        fit_large(tmp_path / "graph", out=tmp_path / "out", settings=LargeSettings(**vars(SMALL) | {"hops": 1}))

    def disturb(text):
        if text.startswith("links"):
            os.utime(tmp_path / "graph" / "labels.npy")

    with pytest.raises(InputError, match=r"labels.npy was changed amid the work"):
        fit_large(tmp_path / "graph", out=tmp_path / "out", settings=SMALL, overwrite=True, progress=disturb)


def test_an_asymmetric_matrix_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "graph")
    columns, starts = (np.load(tmp_path / "graph" / f"adjacency_{name}.npy") for name in ("indices", "indptr"))
    last = starts[1] - 1
    columns[last] += 1 if columns[last] + 1 < NODES else -1
    np.save(tmp_path / "graph" / "adjacency_indices.npy", columns)
    with pytest.raises(InputError, match="adjacency must be symmetric, and is not"):
        fit_large(tmp_path / "graph", out=tmp_path / "out", settings=SMALL)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("labels", lambda found: found[:-1], rf"labels.npy in .* must have the length {NODES}, .* got {NODES - 1}"),
        ("adjacency_data", lambda found: found[:-2], "adjacency_data.npy in .* must have the length"),
        ("features_indptr", lambda found: found[:-1], f"features_indptr.npy in .* must have the length {NODES + 1}"),
        ("features_data", lambda found: found[1:], "features_data.npy in .* must have the length"),
        ("features_indices", lambda found: found + 1, f"features must have {COLUMNS} columns in all rows"),
        ("features_indptr", lambda found: found[::-1], f"features must have {COLUMNS} columns in all rows"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(graph, tmp_path, name, damage, message):
    graph.replace(features=sparse.csr_array(graph.features)).save(tmp_path / "graph", mapped=True)
    path = tmp_path / "graph" / f"{name}.npy"
    np.save(path, damage(np.load(path)))
    with pytest.raises(InputError, match=message):
        fit_large(tmp_path / "graph", out=tmp_path / "out", settings=SMALL)
    assert not (tmp_path / "out" / "result.json").exists()


def test_no_cluster_is_one_sentence(folder, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "")
    with pytest.raises(InputError, match=r"there is no Ray cluster at '127.0.0.1:1'"):
        fit_large(folder, out=tmp_path / "out", settings=SMALL, cluster="127.0.0.1:1")
    assert not (tmp_path / "out").exists()


def test_the_command(folder, whole, tmp_path, capsys, monkeypatch):
    from fishergcn.cli import main

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fishergcn", "fit-large", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, capsys.readouterr()

    memory = ("--memory", SMALL.memory / 1e9, "--epochs", 3)
    status, shown = call(folder, "--out", tmp_path / "out", *memory, "--dry-run")
    assert (status, (tmp_path / "out").exists()) == (0, False)
    assert "900 nodes" in shown.out
    assert "GB of disk" in shown.out
    status, shown = call(folder, "--out", tmp_path / "out", *memory, "--json")
    assert status == 0
    assert json.loads(shown.out)["nodes"] == NODES
    assert "hop-2.0: done" in shown.err
    status, shown = call(folder, "--out", tmp_path / "out", *memory)
    assert "Chosen: " in shown.out
    status, shown = call("--out", tmp_path / "out")
    assert status == 2
    assert shown.err == "fishergcn: error: either GRAPH or --edges must be given, got neither.\n"


@pytest.mark.slow
def test_a_killed_process_goes_on(folder, whole, tmp_path):
    words = [sys.executable, "-m", "fishergcn", "fit-large", str(folder), "--out", str(tmp_path / "out")]
    words += ["--memory", str(SMALL.memory / 1e9), "--epochs", "3"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "hop-1" in line:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    assert (tmp_path / "out" / "blocks" / "hop-1.0").is_dir()
    subprocess.run(words, check=True)
    again = LargeSettings(memory=SMALL.memory, epochs=3)
    expected = fit_large(folder, out=tmp_path / "expected", settings=again)
    assert predictions(tmp_path / "out").equals(predictions(tmp_path / "expected"))
    assert expected.nodes == NODES


@pytest.mark.slow
def test_a_cluster_loses_a_node_and_nothing_else(folder, whole, tmp_path, monkeypatch):
    """Three nodes, one of which is removed amid the work: bit for bit the files of one process."""
    pytest.importorskip("ray")
    # Ray takes the loopback address for what it is only where it expects no cluster.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    settings = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**settings, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(**settings) for _ in range(2)]
        cluster.wait_for_nodes()
        start, out = TASKS.RayTasks.start, tmp_path / "out"

        def remove(runner, folder, stage, kind, given, block):
            task = start(runner, folder, stage, kind, given, block)
            if (stage, block) == ("hop-2.0", 4):  # blocks 0 to 4 are waiting or at work, none is done
                cluster.remove_node(nodes[1], allow_graceful=False)
            return task

        monkeypatch.setattr(TASKS.RayTasks, "start", remove)
        found = fit_large(folder, out=out, settings=SMALL, cluster=cluster.address, keep=True)
    finally:
        cluster.shutdown()
    assert found.candidates == whole[0].candidates
    assert predictions(out).equals(predictions(whole[1]))
    kept = sorted(path.relative_to(whole[1]) for path in (whole[1] / "blocks").rglob("*.npy"))
    assert len(kept) > 50
    assert [path for path in kept if (out / path).read_bytes() != (whole[1] / path).read_bytes()] == []
