"""Small traps: text that explodes, closed outputs, little memory, names that ring bells, numbers that lie."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
import warnings
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import fishergcn
from fishergcn import Graph, TrainConfig
from fishergcn.drawing import draw_links
from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry.extrinsic import NodeLinks

linux = pytest.mark.skipif(sys.platform != "linux", reason="descriptors and limits of Linux")


def shell(script):
    command = f'"{sys.executable}" -m fishergcn'
    done = subprocess.run(
        ["sh", "-c", script.replace("fishergcn", command, 1)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("line", [b"0,1\n", b"0"])
def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path, line):
    path = tmp_path / "links.csv.gz"
    packed = gzip.compress(line * ((8 << 20) // len(line)))
    path.write_bytes(packed * 500)  # several members, as gzip allows: 4 GB in 4 MB
    assert path.stat().st_size < 8 << 20
    begun = time.process_time()
    with pytest.raises(DataFileError, match="unpacks to more than 200 times its size"):
        Graph.from_files(path)
    assert time.process_time() - begun < 3


@linux
@pytest.mark.parametrize("arguments", ["data list", "data info cora --json"])
def test_a_closed_standard_output_is_one_sentence(arguments):
    status, said = shell(f"fishergcn {arguments} >&-")
    assert status == 2
    assert said == "fishergcn: error: cannot write to standard output: Bad file descriptor.\n"


@linux
def test_no_file_takes_the_place_of_a_closed_output(tmp_path):
    """The first file that is opened would get its number, and what libraries print would end up in it."""
    (tmp_path / "links.csv").write_text("a,b\nb,c\n")
    shell(f"fishergcn data import --edges {tmp_path}/links.csv --out {tmp_path}/g.npz --json >&- 2>&-")
    assert Graph.load(tmp_path / "g.npz").node_ids == ("a", "b", "c")


@linux
def test_too_little_memory_for_the_libraries_is_one_sentence():
    status, said = shell("ulimit -v 400000; fishergcn spectrum cora")
    assert status == 2
    assert said.splitlines()[-1].startswith("fishergcn: error: out of memory")


def test_names_in_pictures_ring_no_bell(tmp_path, capfd):
    name = "\x1b]0;title\x07\x1b[2J"
    links = NodeLinks(name, name, 0.9, ((name, "b", True, -0.25),), {name: 0, "b": 1})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        picture = draw_links(links)
        picture.save(tmp_path / "links.svg")
        picture.save(tmp_path / "links.png")
    told = "".join([*(str(each.message) for each in caught), *capfd.readouterr()])
    assert not {"\x1b", "\x07"} & {*told}
    ET.parse(tmp_path / "links.svg")  # well-formed


def test_a_loss_beyond_all_sense_has_diverged():
    rng = np.random.default_rng(0)
    links = [(at, (at + step) % 40) for at in range(40) for step in (1, 3)]
    features = rng.random((40, 3)) * 1e30
    graph = Graph.from_edges(links, features=features, labels=np.arange(40) % 2)
    config = TrainConfig(max_epochs=5, scaling="none")
    [record] = fishergcn.train(graph, "gcn", "held-out:50%:0", config=config, seeds=[0])
    assert record.status == "diverged"
    assert not np.isfinite(record.val_loss)


@pytest.mark.parametrize("weight", [1e-300, 1e-39])
def test_weights_that_some_methods_would_take_for_no_link_are_refused(weight):
    with pytest.raises(InputError, match="weights must be at least"):
        Graph.from_edges([(0, 1), (1, 2)], weights=[weight, 1.0])


@linux
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="needs the right to be another user")
def test_a_real_second_user_without_a_home(tmp_path):
    """The package is someone else's and read-only; compiled code goes to a folder that is removed."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o777)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    # setpriv keeps the right to enter folders, in which the interpreter of a test may lie.
    become = [
        shutil.which("setpriv") or pytest.skip("needs setpriv"),
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("COV")}  # whose files are ours
    done = subprocess.run(
        [*become, sys.executable, "-m", "fishergcn", "predict", str(tmp_path / "no model")],
        capture_output=True, text=True, timeout=300, check=False, cwd="/",
        env={**inherited, "TMPDIR": str(temporary), "HOME": "/nonexistent", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("fishergcn: error: "), done.stderr
    assert [*temporary.iterdir()] == []
