"""Random numbers that depend on what a run is, and on nothing else."""

from __future__ import annotations

from fishergcn.streams._masks import draw_words, gather_words, keep_probability, unpack
from fishergcn.streams._philox import run_key
from fishergcn.streams._runs import (
    LINKS,
    initial_weights,
    initial_xi,
    keys_of,
    node_fractions,
    noise_block,
    random_order,
    wide_noise,
)  # fmt: skip

__all__: list[str] = []

SHARED = (
    "LINKS", "draw_words", "gather_words", "initial_weights", "initial_xi", "keep_probability", "keys_of",
    "node_fractions", "noise_block", "random_order", "run_key", "unpack", "wide_noise",
)  # fmt: skip
