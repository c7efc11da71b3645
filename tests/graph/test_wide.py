"""Tables of very many columns are read in time that grows with the number of cells, whatever the cells hold."""

from __future__ import annotations

import time

import numpy as np
import pytest

from fishergcn import Graph
from fishergcn.errors import DataFileError

CELLS = {
    "numbers": (lambda at: f"0.{at % 97 + 1}", {}),
    "quoted": (lambda at: f'"{at % 7}"', {}),
    "gaps": (lambda at: "" if at % 3 else "1", {"empty": "fill"}),
    "texts": (lambda at: "ab"[at % 2], {"text": "one-hot"}),
}


def write_tables(folder, columns, rows, cell):
    links = "".join(f"{row},{(row + 1) % rows}\n" for row in range(rows))
    (folder / "links.csv").write_text(f"source,target\n{links}", encoding="utf-8")
    with (folder / "features.csv").open("w", encoding="utf-8") as stream:
        stream.write(",".join(["node", *(f"f{column}" for column in range(columns))]) + "\n")
        for row in range(rows):
            stream.write(",".join([str(row), *(cell(row + column) for column in range(columns))]) + "\n")


def read(folder, **options):
    begun = time.process_time()
    graph = Graph.from_files(folder / "links.csv", features=folder / "features.csv", **options)
    return graph, time.process_time() - begun


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("kind", CELLS)
def test_a_hundred_thousand_columns_take_at_most_ten_seconds(tmp_path, kind):
    cell, options = CELLS[kind]
    write_tables(tmp_path, 100_000, 100, cell)
    graph, seconds = read(tmp_path, **options)
    assert graph.features.shape == (100, 200_000 if kind == "texts" else 100_000)
    assert seconds < (30 if kind == "texts" else 10), f"{seconds:.1f} s"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("head", ["{", '"' * 101, "a{", "{}", "1,2," * 50 + "{'w': 1}"])
def test_no_first_line_makes_reading_backtrack(tmp_path, head):
    (tmp_path / "links.csv").write_text("0,1\n", encoding="utf-8")
    (tmp_path / "features.csv").write_text("0," + f"{head} ,;\t" * 20_000 + "\n1,1\n", encoding="utf-8")
    begun = time.process_time()
    with pytest.raises(DataFileError):
        Graph.from_files(tmp_path / "links.csv", features=tmp_path / "features.csv")
    assert time.process_time() - begun < 5


def test_notes_about_many_columns_are_counted_and_not_repeated(tmp_path, recwarn):
    write_tables(tmp_path, 50, 4, lambda at: "" if at % 4 == 0 else str(at))
    graph, _ = read(tmp_path, empty="fill")
    notes = [str(each.message) for each in recwarn if "filled with its mean" in str(each.message)]
    assert np.isfinite(graph.features).all()
    assert len(notes) == 20
    assert any("30 more notes of this kind" in str(each.message) for each in recwarn)
