"""A run's random streams, derived from what the run is.

The key of a run is a hash of (data set, split, seed). Methods share it on purpose: `fishergcn` and its
control start from the same weights and drop the same units, so that a paired comparison sees the perturbation
and nothing else. What a method needs beyond that (the noise of the perturbation) comes from streams of its
own under the same key.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import FloatArray, IntArray
from fishergcn._settings.choices import Noise
from fishergcn.streams._masks import draw_words, unsigned_keys
from fishergcn.streams._philox import normals, philox, run_key, stream_id, uniforms

# Purposes 0, 1, 2, … are the dropout masks of the layers.
_WEIGHTS, _XI, _NOISE, _NEIGHBORS, _ORDER = 60000, 61000, 62000, 64000, 65000
#: The purpose of the streams that random links are drawn from; the next number is that of links which are added.
LINKS = 63000


def keys_of(dataset: str, runs: list[tuple[str, int]]) -> Tensor:
    """Return one 64-bit key per (split name, seed), as int64."""
    keys = np.array([run_key(dataset, split, seed) for split, seed in runs], dtype=np.uint64)
    return torch.from_numpy(keys.view(np.int64))


def initial_weights(keys: Tensor, layer: int, fan_in: int, fan_out: int, dtype: torch.dtype) -> Tensor:
    """Return Glorot-uniform weights on the device of the keys, shape (R, fan_in, fan_out)."""
    return _glorot(keys, _WEIGHTS + layer, fan_in, fan_out).to(dtype)


def initial_xi(keys: Tensor, rank: int) -> Tensor:
    """Return Glorot-uniform ξ, drawn as a k x 1 matrix, shape (R, k), float64."""
    return _glorot(keys, _XI, rank, 1).squeeze(-1)


def _glorot(keys: Tensor, purpose: int, fan_in: int, fan_out: int) -> Tensor:
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    # Fair coins are the raw words of the stream, so these are `philox.uniforms`, drawn where they are needed.
    words = draw_words(keys, 1, purpose, 0, fan_in * fan_out, 0.5)[:, : fan_in * fan_out]
    drawn = ((words.long() & 0xFFFFFFFF).double() + 0.5) / 2**32
    return ((2.0 * drawn - 1.0) * bound).view(len(keys), fan_in, fan_out)


def noise_block(keys: Tensor, epochs: range, samples: int, rank: int, kind: Noise) -> FloatArray:
    """Return e for several epochs at once, shape (epochs, R, M, k): mean 0, variance 1/12."""
    key, epoch = unsigned_keys(keys)[None, :], np.array(epochs)[:, None]
    count, stream = samples * rank, stream_id(_NOISE, 0)
    if kind == "uniform":
        drawn = uniforms(key, count, stream, epoch) - 0.5
    else:
        drawn = normals(key, count, stream, epoch) / math.sqrt(12.0)
    return drawn.reshape(len(epochs), len(keys), samples, rank)


def wide_noise(keys: Tensor, samples: int, epoch: int, count: int, kind: Noise) -> Tensor:
    """Return e of one epoch for as many directions as a graph has nodes or links, on the device of the keys.

    The same law as that of :func:`noise_block`, from a stream of its own: shape (R, M, count), float64.
    """
    wanted = count if kind == "uniform" else 2 * count
    # Fair coins are the raw words of the stream.
    words = draw_words(keys, samples, _NOISE + 1, epoch, wanted, 0.5)[:, :wanted]
    drawn = ((words.long() & 0xFFFFFFFF).double() + 0.5) / 2**32
    if kind == "uniform":
        e = drawn - 0.5
    else:
        radius, angle = drawn.view(-1, 2, count).unbind(1)
        e = torch.sqrt(-2.0 * torch.log(radius) / 12.0) * torch.cos(2.0 * math.pi * angle)
    return e.view(len(keys), samples, count)


def random_order(key: int, count: int, epoch: int) -> IntArray:
    """Return the numbers 0..count-1 in a run's order of this epoch."""
    return np.argsort(uniforms(key, count, stream_id(_ORDER, 0), epoch).ravel(), kind="stable")


def node_fractions(key: int, nodes: IntArray, count: int, hop: int, step: int) -> FloatArray:
    """Return ``count`` numbers uniform on (0, 1) for each node, which depend on run, hop, step and node alone."""
    stream = stream_id(_NEIGHBORS + hop, 0)
    words = [philox(key, nodes, stream, step, plane) for plane in range((count + 3) // 4)]
    fractions: FloatArray = (np.concatenate(words, axis=1)[:, :count] + 0.5) / 2**32
    return fractions
