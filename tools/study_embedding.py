"""The embedding of Cora's largest component on the page of the mathematics: its starts, and what motions cost there.

python tools/study_embedding.py          # minutes on one core; prints the numbers
"""

from __future__ import annotations

import numpy as np

from fishergcn import datasets
from fishergcn.geometry import embedding
from fishergcn.graph import largest_component


def main() -> None:
    graph = datasets.load("cora")
    nodes = np.flatnonzero(largest_component(graph.adjacency))
    W = embedding.similarities(graph, 5, 1e-4, nodes=nodes)
    found = embedding.fit(W, 2, 0, restarts=3, tolerance=1e-5)
    print(f"{len(nodes)} nodes; a minimum is known to exist: {found.minimizer_known}")
    for start in found.restarts:
        print(f"divergence {start.divergence:.2f} after {start.iterations} iterations, converged: {start.converged}")
    Y = found.embedding
    observed, expected = (embedding.extreme_motions(W, Y, kind) for kind in ("observed", "expected"))
    print(f"observed information of unit motions that are not rigid: at least {observed.smallest:.3f}")
    print(f"expected information of the same: {expected.smallest:.3f} to {expected.largest:.2f}")
    print(f"uniform scaling: {embedding.length(W, Y, Y / np.linalg.norm(Y)):.3f}")


if __name__ == "__main__":
    main()
