"""Compile the kernels that most trainings use, which later processes then load: a run of the tests has several.

python tools/compile_kernels.py
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
from scipy import sparse

import fishergcn
from fishergcn import Graph, TrainConfig
from fishergcn.errors import FisherGCNError
from fishergcn.splits import Split

METHODS = ("fishergcn", "gcn", "gcn-t", "gcn-x2-c", "mlp", "sage", "fishergcn-t")


def planted(*, dense: bool) -> Graph:
    """Return a graph of two groups."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    links = np.argwhere(np.triu(rng.random((60, 60)) < np.where(labels[:, None] == labels, 0.2, 0.05), 1))
    features = rng.random((60, 8)) * (rng.random((60, 8)) < 0.5)
    return Graph.from_edges(links, features=features if dense else sparse.csr_array(features), labels=labels,
                            num_nodes=60)  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    split = Split("some", range(20), range(20, 40), range(40, 60))
    for dense in (False, True):
        graph = planted(dense=dense)
        for dtype in ("float32", "float64"):
            for scaling in ("rows", "none"):
                config = TrainConfig(max_epochs=1, rank=4, hidden=8, dtype=dtype, scaling=scaling)
                for method in METHODS:
                    with contextlib.suppress(FisherGCNError):  # of settings that do not go together
                        fishergcn.train(graph, method, split, config=config, device="cpu", workers=1)


if __name__ == "__main__":
    main()
