"""Full output, too few threads, a removed working folder, odd paths: one sentence, no traceback, no false damage."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest

import fishergcn
from fishergcn import Graph
from fishergcn._base import first
from fishergcn.cli import main
from fishergcn.errors import DataFileError, FisherGCNError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="devices and limits of Linux")

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(fishergcn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "fishergcn"]


def one_sentence(text, words):
    assert "Traceback" not in text
    assert "damaged" not in text
    assert words in text
    assert [line for line in text.splitlines() if "error" in line] == [text.splitlines()[-1]]


def run(*arguments, prefix=(), **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **options}
    return subprocess.run([*prefix, *COMMAND, *arguments], timeout=120, check=False, **options)


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(["data", "info", "cora"], marks=pytest.mark.slow), ["data", "info", "cora", "--json"], ["--version"]],
)
def test_a_full_standard_output(arguments):
    with open("/dev/full", "wb") as full:
        done = run(*arguments, stdout=full)
    assert done.returncode == 2
    one_sentence(done.stderr.decode(), "cannot write to standard output: No space left on device.")


def test_a_full_standard_error_too():
    with open("/dev/full", "wb") as full:
        assert run("data", "info", "no.npz", stdout=full, stderr=full).returncode == 2


def test_a_reader_that_has_had_enough():
    process = subprocess.Popen(
        [*COMMAND, "data", "info", "cora", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait(60) in (1, 141)


@pytest.mark.parametrize("arguments", [["data", "list"], ["train", "--dataset", "cora"], ["predict", "model"]])
def test_a_removed_working_folder(tmp_path, arguments):
    place = tmp_path / "place"
    place.mkdir()
    script = 'rmdir "$PWD"; exec "$@"'
    done = run(*arguments, prefix=["bash", "-c", script, "bash"], cwd=place)
    assert done.returncode == 2
    assert done.stderr == b"fishergcn: error: the working folder was removed; change to another one.\n"


def test_a_removed_working_folder_in_python(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd())\nimport fishergcn"
    done = subprocess.run([sys.executable, "-c", code], cwd=place, env=ENVIRONMENT, capture_output=True, check=False)
    assert b"FileNotFoundError: the working folder was removed; change to another one" in done.stderr


def test_paths_that_are_not_valid_text(tmp_path, monkeypatch, capfd):
    """Not a word of damage, neither now nor when it is read again."""
    monkeypatch.chdir(tmp_path)

    def here(*arguments):
        monkeypatch.setattr(sys, "argv", ["fishergcn", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, capfd.readouterr().err

    odd = os.fsdecode(b"odd\xff")
    (tmp_path / f"{odd}.csv").write_text("a,b\nb,c\n")
    assert here("data", "import", "--edges", f"{odd}.csv", "--out", f"{odd}.npz", "--name", "g")[0] == 0
    small = ["--method", "gcn", "--splits", "1", "--seeds", "1", "--epochs", "1", "--workers", "1", "--quiet"]
    done = run("reproduce", "quick", "--out", odd, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert here("reproduce", "quick", "--out", odd, *small)[0] == 0  # what was noted the first time is read
    assert here("runs", "show", odd)[0] == 0
    status, text = here("train", "--edges", f"{odd}.csv", "--labels", f"{odd}.csv")
    assert status == 2
    one_sentence(text, "name must be text")


def limited(count):
    """The words that run a command with so few processes, as a user whom the limit holds."""
    if os.geteuid():
        return ["prlimit", f"--nproc={count}"]
    setpriv = shutil.which("setpriv")
    if setpriv is None or shutil.which("prlimit") is None:
        pytest.skip("the limit does not hold for root, and there is no setpriv")
    rights = "+dac_override,+dac_read_search"
    return [setpriv, "--reuid", "65534", "--inh-caps", rights, "--ambient-caps", rights, "prlimit", f"--nproc={count}"]


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_too_few_threads_and_processes(tmp_path, count):
    if os.geteuid() != 0:
        pytest.skip("other processes of this user count too")
    tmp_path.chmod(0o777)
    environment = {name: value for name, value in ENVIRONMENT.items() if not name.endswith("_NUM_THREADS")}
    environment |= {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    options = {"prefix": limited(count), "cwd": "/", "env": environment}
    done = run("data", "info", "cora", **options)
    assert (done.returncode, done.stderr) == (0, b"")
    settings = ["--method", "gcn", "--epochs", "1", "--seeds", "3", "--workers", "3", "--device", "cpu", "--quiet"]
    done = run("train", "--dataset", "cora", *settings, **options)
    assert done.returncode == 2, done.stdout
    text = done.stderr.decode()
    assert "Traceback" not in text
    assert "does not allow more threads or processes" in text or "a process cannot be started" in text


def test_threads_are_counted_by_starting_them(monkeypatch):
    assert first._can_start(3)
    monkeypatch.setattr(first._thread, "start_new_thread", lambda *_: (_ for _ in ()).throw(RuntimeError))
    assert not first._can_start(1)
    monkeypatch.setattr(first, "_is_command", lambda: True)
    for name in first._THREADS:
        monkeypatch.setenv(name, "8")
    first._spare_threads()
    assert {os.environ[name] for name in first._THREADS} == {"1"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("can't start new thread"), "does not allow more threads or processes"),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot write to standard output"),
        (PermissionError(errno.EACCES, "Permission denied", "x\x1b"), r"x\x1b: Permission denied."),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), "a name or a path is not valid text"),
        (MemoryError(), "out of memory"),
    ],
)
def test_what_is_said_of_errors_of_the_system(capsys, monkeypatch, error, words):
    monkeypatch.setattr("fishergcn.cli.app", Mock(side_effect=error))
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 2
    assert words in capsys.readouterr().err


def test_what_nobody_foresaw_is_not_hidden(monkeypatch):
    monkeypatch.setattr("fishergcn.cli.app", Mock(side_effect=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        main()


def test_a_process_that_cannot_be_started_stops_the_work(monkeypatch, tmp_path):
    from fishergcn import studies

    def fail(*_, **__):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("fishergcn._base.process.subprocess.Popen", fail)
    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=2, epochs=1)
    with pytest.raises(FisherGCNError, match="Resource temporarily unavailable; fewer workers need fewer processes"):
        studies.run(plan, tmp_path, device="cpu", workers=2)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ENOMEM])
def test_what_the_system_refuses_is_not_called_damage(tmp_path, monkeypatch, number):
    Graph.from_edges([(0, 1)]).save(tmp_path / "g.npz")

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(zipfile, "ZipFile", fail)
    with pytest.raises(DataFileError, match=f"cannot be read: {os.strerror(number)}"):
        Graph.load(tmp_path / "g.npz")


def test_a_lack_of_memory_is_not_called_damage(tmp_path, monkeypatch):
    Graph.from_edges([(0, 1)]).save(tmp_path / "g.npz")
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        Graph.load(tmp_path / "g.npz")


def test_few_open_files():
    done = run("data", "info", "cora", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    text = done.stderr.decode()
    assert "damaged" not in text


def test_where_compiled_code_goes(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache" / "new"))
    monkeypatch.setattr(first, "_writable", lambda folder: folder == str(tmp_path / "cache" / "new"))
    first._have_place_for_compiled_code()
    assert os.environ["NUMBA_CACHE_DIR"] == ""
    monkeypatch.setattr(first, "_writable", lambda _: False)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path / prefix))
    first._have_place_for_compiled_code()
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "fishergcn-")
