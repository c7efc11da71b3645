"""The command as a program: version, help, exit status, and what goes wrong in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fishergcn import __version__


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fishergcn", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fishergcn {__version__}\n", "")


def test_help_lists_the_commands():
    done = run("-h")
    assert done.returncode == 0
    for command in ("data", "spectrum", "geometry"):
        assert command in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["spectrum", "coar"], "data set 'coar' is unknown (did you mean 'cora'?)"),
        (["data", "info", "no.npz"], "no.npz does not exist"),
        (["data", "import", "--edges", "e.csv", "--out", "g.npz"], "e.csv line 2: expected 2 cells"),
        (["data", "info", "bad.npz"], "bad.npz is not a readable npz archive"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_written(tmp_path, arguments, message):
    (tmp_path / "e.csv").write_text("a,b\nc\n")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fishergcn: error: ")
    assert done.stderr.endswith(".\n")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.npz", "e.csv"]


def test_unknown_option():
    done = run("spectrum", "cora", "--rnak", "3")
    assert done.returncode == 2
    assert "--rnak" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_greek_letters():
    done = run("spectrum", "cora", "--rank", "2", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "eigenvalue" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_reader_that_leaves_early():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "fishergcn", "data", "info", "cora"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writing)
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_too_little_memory_is_one_sentence():
    limits = ["prlimit", "--as=12000000000", sys.executable, "-m", "fishergcn"]
    options = ["--dataset", "pubmed", "--method", "gcn-x1024", "--hidden", "65536", "--epochs", "1"]
    done = subprocess.run([*limits, "train", *options], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("fishergcn: error: gcn-x1024 on pubmed needs about ")
    assert last.endswith("would fit.")
    assert "Traceback" not in done.stderr
