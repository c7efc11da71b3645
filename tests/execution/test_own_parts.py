"""Networks, scores and matrices from outside the package reach worker processes, which import their modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys

MATRIX = """
from scipy import sparse
from fishergcn.propagation import Matrix, register_matrix, renormalized

def half(adjacency):
    return (sparse.eye_array(adjacency.shape[0], format="csr") + renormalized(adjacency)) / 2

def half_rows(links, *_):
    raise NotImplementedError("no node joins in this test")

register_matrix(Matrix({name!r}, "half of the way", half, half_rows))
"""
NETWORK = """
from fishergcn.nn import Family, register

class Half(Family):
    name = matrix = {name!r}
    title = summary = "a network that goes half of the way"

register(Half())
"""
SCORE = """
from fishergcn.training import Score, register_score

register_score(Score("misses", "misses", lambda tally: tally.confusion.sum((1, 2)) - tally.confusion.trace(0, 1, 2)))
"""
# The matrix has a module of its own, which that of the network does not import; or one module has everything.
MODULES = {
    "own_matrix": MATRIX.format(name="apart"),
    "own_network": NETWORK.format(name="apart"),
    "own_everything": MATRIX.format(name="together") + NETWORK.format(name="together") + SCORE,
}
PROGRAM = """
import json
import numpy as np
import own_matrix, own_network, own_everything
from fishergcn import Graph, TrainConfig, train
from fishergcn.splits import Split

labels = np.arange(30) % 3
links = [(node, (node + step) % 30) for node in range(30) for step in (1, 3)]
ring = Graph.from_edges(links, features=np.eye(30), labels=labels, name="ring")
split = Split("mine", range(9), range(9, 18), range(18, 30))
found = [
    train(ring, ["apart", "together"], split, 2, TrainConfig(max_epochs=3), device="cpu", workers=workers)
    for workers in (1, 2)
]
print(json.dumps([[(each.method, each.test_misses, each.curves) for each in records] for records in found]))
"""


def test_workers_know_what_the_driver_registered(tmp_path):
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here, in_workers = json.loads(done.stdout)
    assert [method for method, _, _ in here] == ["apart", "apart", "together", "together"]
    assert all(0 <= misses <= 12 for _, misses, _ in here)
    assert in_workers == here
