"""Small helpers that every package uses, each on an example."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import TrainConfig, datasets, train
from fishergcn._base import (  # fmt: skip
    arrays,
    autograd,
    backend,
    entries,
    foreign,
    imports,
    json,
    mapped,
    matrices,
    memory,
    npz,
    provenance,
    reprs,
    tensors,
    text,
)
from fishergcn.errors import InputError


def test_ranges() -> None:
    assert arrays.ranges(np.array([5, 0]), np.array([2, 3])).tolist() == [5, 6, 0, 1, 2]
    assert tensors.tensor_ranges(torch.tensor([5, 0]), torch.tensor([2, 3])).tolist() == [5, 6, 0, 1, 2]


def test_row_blocks_have_few_entries_or_one_row() -> None:
    assert list(arrays.row_blocks(np.array([0, 2, 4, 9, 10]), entries=4)) == [(0, 2), (2, 3), (3, 4)]


def test_compressed_rows_are_checked() -> None:
    matrix = sparse.csr_array(np.eye(2))
    arrays.check_compressed("X", matrix)
    matrix.indices = np.array([0, 2], dtype=np.int32)
    with pytest.raises(InputError, match="X of 2 columns must have column numbers below that, got 0 to 2"):
        arrays.check_compressed("X", matrix)


def test_indices_are_copied_and_read_only() -> None:
    found = arrays.check_indices("train", [2, 0], count=3)
    assert found.tolist() == [2, 0]
    assert not found.flags.writeable


def test_autocast_is_noticed() -> None:
    assert not autograd.autocasts(torch.device("cpu"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert autograd.autocasts(torch.device("cpu"))


def test_kernels_exist_for_what_can_be_compiled() -> None:
    assert (backend.usable("torch"), backend.usable("no_such_package")) == (True, False)
    assert backend.backend_of(torch.zeros(1, dtype=torch.float16)) == "reference"


def test_a_broken_numba_is_told_and_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "numba_like.py").write_text("raise ImportError('Numba needs another NumPy')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match=r"numba_like is installed but cannot be imported \(Numba needs another NumPy"):
        assert not backend.usable("numba_like")


def test_entries_name_what_is_wrong() -> None:
    assert entries.Entries({"seeds": [1, 2]}, "the plan").wholes("seeds") == (1, 2)
    with pytest.raises(InputError, match=r"^'title' of the plan must be text, got 3\.$"):
        entries.Entries({"title": 3}, "the plan").text("title")


def test_numbers_that_json_cannot_say() -> None:
    assert json.plain({"loss": [0.5, math.nan]}) == {"loss": [0.5, None]}
    value, nothing = entries.with_nan({"loss": [0.5, None]})["loss"]
    assert value == 0.5
    assert math.isnan(nothing)
    assert json.parse_json('{"a": "\\ud83d\\ude00"}')["a"] == "\U0001f600"


def test_foreign_text_is_shown_and_undone() -> None:
    assert foreign.printable("\x1b[31mred\u202e\n") == r"\x1b[31mred\u202e\n"
    assert foreign.printable("Zürich π 図") == "Zürich π 図"
    assert foreign.markdown("a|b ![x](http://y) <b>") == r"a\|b ![x]\(http://y) \<b\>"
    assert foreign.json_printable('"a\u202eb\x9b"') == r'"a\u202eb\u009b"'
    shown = [foreign.for_spreadsheet(each) for each in ("=1+1", "'=1+1", "-1.5", "'tis")]
    assert shown == ["'=1+1", "''=1+1", "-1.5", "'tis"]
    for each in ("=1+1", "''@x", "'tis", "-1"):
        assert foreign.from_spreadsheet(foreign.for_spreadsheet(each)) == each


def test_optional_packages() -> None:
    assert imports.require("math", extra="report", purpose="this example").pi > 3


def test_mapped_folders(tmp_path) -> None:
    mapped.write_mapped(tmp_path / "two", {"a": np.arange(3), "b": np.zeros((0, 2))})
    found = mapped.read_mapped(tmp_path / "two")
    assert (found["a"].tolist(), found["b"].shape, found["a"].flags.writeable) == ([0, 1, 2], (0, 2), False)


def test_adjacency_must_be_symmetric() -> None:
    assert matrices.check_adjacency([[0, 1], [1, 0]]).nnz == 2
    with pytest.raises(InputError) as caught:
        matrices.check_adjacency([[0, 1], [2, 0]])
    assert str(caught.value) == "adjacency must be symmetric, but entry (0, 1) is 1 and entry (1, 0) is 2."


def test_memory() -> None:
    free = memory.free_memory()
    assert free is None or free > 0
    memory.check_memory("a small thing", 1000)
    assert (memory.lacks_memory(MemoryError()), memory.lacks_memory(ValueError())) == (True, False)


def test_integers_get_the_narrowest_type() -> None:
    assert npz.smallest(np.array([0, 300])).dtype == np.uint16


def test_the_processor_has_a_name() -> None:
    assert provenance.device_name(torch.device("cpu")).startswith("cpu")


def test_a_repr_has_sizes_in_place_of_numbers() -> None:
    @dataclasses.dataclass
    class Found:
        values: np.ndarray
        score: float
        names: tuple
        __repr__ = reprs.one_line

    found = Found(np.zeros((90, 3)), 0.5, tuple(range(100)))
    assert repr(found) == "Found(values=float64 (90, 3), score=0.5, names=100 of int)"


def test_shapes_stand_for_numbers() -> None:
    @dataclasses.dataclass
    class Found:
        values: Any
        __repr__ = reprs.one_line

    assert repr(Found(np.zeros((90, 3)))) == "Found(values=float64 (90, 3))"
    assert repr(Found(torch.zeros(5))) == "Found(values=float32 (5,))"
    assert repr(Found(np.array([1.5, 0.5]))) == "Found(values=array([1.5, 0.5]))"
    assert repr(Found(sparse.eye_array(5, format="csr"))) == "Found(values=float64 5 × 5, 5 entries)"
    assert repr(Found({str(number): number for number in range(99)})) == "Found(values=99 by name)"
    assert repr(Found(["some text"] * 99)) == "Found(values=99 of str)"
    assert repr(Found("x" * 100)) == f"Found(values='{'x' * 59}…')"
    assert repr(Found(Found(("a\nb",)))) == "Found(values=Found(values=('a\\\\nb',)))".replace("\\\\", "\\")


def test_outputs_must_be_finite() -> None:
    with pytest.raises(InputError, match=r"no finite output for node '1' \(1 of 2 nodes have none\): its weights"):
        tensors.check_outputs(torch.tensor([[0.0, 1.0], [torch.nan, 0.0]]))


def test_tables_and_numbers_as_text() -> None:
    assert text.csv_text(["a", "b"], [["x,y", 0.1]]) == 'a,b\n"x,y",0.1\n'
    made = text.markdown_table(["name", "share"], [["a|b", "3%"]], right=[1])
    assert made.splitlines() == ["| name | share |", "| --- | ---: |", r"| a\|b | 3% |"]
    spans = [text.duration(seconds) for seconds in (0.0042, 5.04, 72.4, 600, 3725, 7200, 360000)]
    assert spans == ["4.2 ms", "5 s", "72 s", "10 min", "62 min", "2 h", "100 h"]
    assert float(text.plain_digits("1e3")) == 1000.0
    signed = [text.signed_points(0.0024), text.signed_points(-0.00004), text.signed_points(-0.00004, 3)]
    assert signed == ["+0.24", "0.00", "−0.004"]


def test_seeds() -> None:
    config = TrainConfig(max_epochs=1, hidden=2)
    for given, expected in ((2, [2019, 2020]), ([7, 3], [7, 3])):
        records = train(datasets.load("cora"), "gcn", "public", given, config, "cpu", progress=False)
        assert [record.seed for record in records] == expected
