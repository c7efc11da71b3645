"""Random numbers that depend on what a run is, and on nothing else."""

from __future__ import annotations

from fishergcn.streams._masks import draw_words, gather_words, keep_probability, unpack
from fishergcn.streams._philox import philox, run_key, stream_id, uniforms
from fishergcn.streams._runs import LINKS, initial_weights, initial_xi, keys_of, noise_block

__all__ = [
    "LINKS", "draw_words", "gather_words", "initial_weights", "initial_xi", "keep_probability", "keys_of",
    "noise_block", "philox", "run_key", "stream_id", "uniforms", "unpack",
]  # fmt: skip
