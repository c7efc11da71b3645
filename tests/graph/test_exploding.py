"""Small Parquet and Feather files that decode to gigabytes are refused before they do."""

from __future__ import annotations

import contextlib
import resource
import time

import pytest

from fishergcn import Graph
from fishergcn.errors import DataFileError

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def refused(path, words):
    before, begun = peak(), time.process_time()
    with pytest.raises(DataFileError, match=words) as error:
        Graph.from_files(path)
    assert time.process_time() - begun < 5
    assert peak() - before < 600 << 20
    assert str(path) in str(error.value)


@pytest.fixture(scope="module")
def long_text():
    return "x" * (1 << 20)


def test_a_long_text_in_a_dictionary_that_every_row_has(tmp_path, long_text):
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array([long_text]))
    table = pa.table({"source": column, "target": column})
    parquet.write_table(table, tmp_path / "links.parquet", compression="zstd")
    assert (tmp_path / "links.parquet").stat().st_size < 50_000  # for 20 GB
    refused(tmp_path / "links.parquet", "at most 131072 characters")
    feather.write_feather(table, tmp_path / "links.feather", compression="zstd")
    refused(tmp_path / "links.feather", "at most 131072 characters")


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_many_rows_of_one_value(tmp_path, suffix):
    zeros = pa.array(memoryview(bytes(8 * 20_000_000)).cast("q"), pa.int64())
    table = pa.table({"source": zeros, "target": zeros})
    path = tmp_path / f"links.{suffix}"
    if suffix == "parquet":
        parquet.write_table(table, path, compression="zstd")
    else:
        feather.write_feather(table, path, compression="zstd", chunksize=1 << 30)
    assert path.stat().st_size < 200_000  # for 320 MB of numbers and several GB of objects
    refused(path, "decodes to too much")


def test_a_large_buffer_of_a_few_rows(tmp_path, long_text):
    table = pa.table({"source": [long_text * 80] * 2, "target": ["a", "b"]})
    feather.write_feather(table, tmp_path / "links.feather", compression="zstd")
    refused(tmp_path / "links.feather", "decodes to too much")
    parquet.write_table(table, tmp_path / "links.parquet", compression="zstd", use_dictionary=False)
    refused(tmp_path / "links.parquet", "decodes to too much")


def test_texts_that_repeat_the_ones_before(tmp_path):
    texts = ["x" * (40 * at) for at in range(1, 3000)]  # 180 MB in a file whose pages hold 120 kB
    table = pa.table({"source": texts, "target": texts})
    path = tmp_path / "links.parquet"
    parquet.write_table(table, path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    refused(path, "decodes to too much")


@pytest.mark.parametrize("kind", [pa.string_view(), pa.run_end_encoded(pa.int32(), pa.string())])
def test_types_whose_rows_may_share_a_text_are_refused(tmp_path, kind):
    column = pa.array(["a", "b"])
    column = pa.compute.run_end_encode(column) if "run_end" in str(kind) else column.cast(kind)
    with (
        pa.OSFile(str(tmp_path / "links.arrow"), "wb") as out,
        pa.ipc.new_file(out, pa.schema([("source", kind)])) as w,
    ):
        w.write_table(pa.table({"source": column}))
    with pytest.raises(DataFileError, match="must hold a number or a text"):
        Graph.from_files(tmp_path / "links.arrow")


def test_a_feather_file_without_its_last_part(tmp_path):
    path = tmp_path / "links.feather"
    names = ["a", "b"] * 50
    feather.write_feather(pa.table({"source": names, "target": [*names[1:], "c"]}), path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 8):
        path.write_bytes(whole[:end])
        with contextlib.suppress(DataFileError):  # all rows may come before what is missing
            assert Graph.from_files(path).num_nodes == 3


def test_a_column_that_lost_its_rows(tmp_path, monkeypatch):
    path = tmp_path / "links.parquet"
    parquet.write_table(pa.table({"source": ["a", "b"], "target": ["b", "c"]}), path)
    monkeypatch.setattr(  # what comes of some damaged files
        "fishergcn.graph._formats._columnar._of_batches",
        lambda path, name, batches, bound: [] if name == "source" else ["b", "c"],
    )
    with pytest.raises(DataFileError, match="column 'source' has 0 of 2 rows"):
        Graph.from_files(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_honest_tables_are_read_as_before(tmp_path, suffix):
    names = ["a", "b", "c"]
    ends = {"source": [names[at % 3] for at in range(300)], "target": [names[(at + 1) % 3] for at in range(300)]}
    links = pa.table({**ends, "weight": [0.5] * 300})
    nodes = pa.table({"id": pa.array(["a", "b", "c"]).dictionary_encode(), "x": [1, 2, 3], "kind": [" u", "v", None]})
    for name, table in {"links": links, "nodes": nodes}.items():
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "parquet":
            parquet.write_table(table, path, row_group_size=100)
        else:
            feather.write_feather(table, path, compression="lz4", chunksize=100)
    graph = Graph.from_files(
        tmp_path / f"links.{suffix}", features=tmp_path / f"nodes.{suffix}", text="one-hot", empty="fill"
    )
    assert graph.node_ids == ("a", "b", "c")
    assert graph.feature_names == ("x", "kind=u", "kind=v")
    assert graph.features.tolist() == [[1, 1, 0], [2, 0, 1], [3, 0, 0]]
