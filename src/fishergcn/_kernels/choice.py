"""From which sizes on something is computed in another way: what computes and what predicts its cost agree."""

from __future__ import annotations

# From this share of non-zeros on, a dense product on tensor cores beats a sparse one.
DENSE_SHARE = 0.005
# From this mean number of entries in a row on, it pays on a CPU to copy the activations into tiles.
FULL_ROW = 24
# Up to this rank products with a perturbation are sums in registers on a GPU.
FEW_DIRECTIONS = 16
# From this share of all nodes on, a view takes all of them: a block saves less than it costs to make and to hold.
NEARLY_ALL = 0.95
# Graphs with more nodes than this are large: their spectra are found in another way, and less precisely.
LARGE_GRAPH = 100_000
