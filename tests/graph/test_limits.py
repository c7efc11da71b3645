"""What would take memory or time without end is refused before it does, in one sentence."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fishergcn
from fishergcn import Graph
from fishergcn.errors import DataFileError, InputError

SOURCE = Path(fishergcn.__file__).parents[1]


class TestNumbersOfNodes:
    def test_one_link_does_not_decide_how_much_memory_is_taken(self):
        with pytest.raises(InputError, match="makes 1000000001 nodes for 1 link"):
            Graph.from_edges([(0, 10**9)])

    def test_neither_does_a_number_that_is_given(self, monkeypatch):
        monkeypatch.setattr("fishergcn._base.memory.free_memory", lambda: 8 << 30)
        with pytest.raises(InputError, match="a graph of 2000000000 nodes needs about 128 GB of memory, and 9 GB are"):
            Graph.from_edges([(0, 1)], num_nodes=2 * 10**9)

    def test_gaps_between_the_numbers_of_nodes_are_fine(self):
        assert Graph.from_edges([(0, 5_000)]).num_nodes == 5_001


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.coo_array, sparse.csc_array, sparse.lil_array])
@pytest.mark.parametrize("number", [1e-300, -1e-46])
def test_features_that_would_become_zero_are_refused(kind, number):
    features = kind(np.array([[1.0, 0.0], [number, 2.0]]))
    with pytest.raises(InputError, match=f"0 or at least 1.4e-45 in size, the least of float32, got {abs(number):.3g}"):
        Graph.from_edges([(0, 1)], features=features)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1e-300", "column '2' must be 0 or at least 1.4e-45, the least of float32, got '1e-300' in line 2"),
        ("1e-400", "column '2' must be 0 or at least 1.4e-45, the least of float32, got '1e-400' in line 2"),
        ("0." + 400 * "0" + "1", "column '2' must be 0 or at least 1.4e-45"),
        ("1_000", "column '2' holds text such as '1_000' in line 2"),
        ("٣", "column '2' holds text such as '٣' in line 2"),
        ("1２", "column '2' holds text such as '1２' in line 2"),
        ("1e999", "column '2' must be finite in float32, got '1e999' in line 2"),
    ],
)
def test_what_is_not_a_number_of_float32_in_a_table(tmp_path, cell, message):
    edges, features = tmp_path / "e.csv", tmp_path / "x.csv"
    edges.write_text("a,b\n")
    features.write_text(f"a,1\nb,{cell}\n", encoding="utf-8")
    with pytest.raises(DataFileError) as caught:
        Graph.from_files(edges, features)
    assert message in str(caught.value)


@pytest.mark.parametrize("weight", ["1_0", "٣", "1e-400"])
def test_what_is_not_a_number_is_no_weight(tmp_path, weight):
    (tmp_path / "e.csv").write_text(f"a,b,1\nb,c,{weight}\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="line 2: cell 3 must be a number"):
        Graph.from_files(tmp_path / "e.csv", header=[])


class TestSources:
    @pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs devices")
    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
    def test_a_device_is_refused(self, device):
        with pytest.raises(DataFileError, match="must be a file, but it is a device or a pipe"):
            Graph.from_files(device)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_refused_without_waiting_for_its_writer(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        caught = []

        def read():
            with pytest.raises(DataFileError, match="for standard input give -") as error:
                Graph.from_files(tmp_path / "pipe")
            caught.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(30)
        assert len(caught) == 1

    def test_standard_input_is_read_by_its_name(self, monkeypatch, tmp_path):
        given = io.TextIOWrapper(io.BytesIO("\ufeffZoë;b\nb;c\n".encode()))
        monkeypatch.setattr(sys, "stdin", given)
        (tmp_path / "y.csv").write_text("b;1\nc;0\n")
        graph = Graph.from_files("-", labels=tmp_path / "y.csv")
        assert graph.node_ids == ("Zoë", "b", "c")

    def test_errors_name_standard_input(self, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\nc\n")))
        with pytest.raises(DataFileError, match=r"^standard input line 2: expected 2 cells"):
            Graph.from_files("-")

    def test_standard_input_is_read_once(self):
        with pytest.raises(InputError, match="only one of edges, features and labels can be it"):
            Graph.from_files("-", "-")

    def test_the_command_reads_standard_input(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "fishergcn", "data", "import", "--edges", "-", "--out", "g.npz"],
            input=b"a,b\nb,c\n", cwd=tmp_path, capture_output=True, timeout=120, check=False,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert Graph.load(tmp_path / "g.npz").num_links == 2

    def test_a_file_over_the_limit_is_refused(self, monkeypatch, tmp_path):
        monkeypatch.setattr("fishergcn.graph._formats._source._LARGEST_FILE", 10)
        (tmp_path / "e.csv").write_text("a,b\n" * 3)
        with pytest.raises(DataFileError, match=r"GiB as text, and has more; larger graphs are read from \.npz"):
            Graph.from_files(tmp_path / "e.csv")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n" * 3)))
        with pytest.raises(DataFileError, match=r"^standard input must have at most"):
            Graph.from_files("-")

    @pytest.mark.parametrize("content", [b"x", b"0,", b"\xc3\xa4"])
    def test_a_line_without_end_is_refused_in_little_memory(self, content):
        """A gigabyte in one line, in a process that may not have half of one."""
        code = (
            "import resource, sys; import fishergcn\n"
            "now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
            "resource.setrlimit(resource.RLIMIT_AS, (now + (200 << 20),) * 2)\n"
            "fishergcn.Graph.from_files(sys.argv[1])\n"
        )
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(content * ((40 << 20) // len(content)))
            file.flush()
            os.truncate(file.name, 1 << 30) if content == b"x" else None
            done = subprocess.run(
                [sys.executable, "-c", code, file.name], capture_output=True, text=True, timeout=120, check=False,
                env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        assert "DataFileError" in done.stderr, done.stderr
        assert "line 1: a line must have at most 16 MiB, and this has more" in done.stderr
