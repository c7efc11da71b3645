"""The Bures distance of two graphs of any size, from sparse products alone: by a Krylov space or by random probes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from scipy import sparse

from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.geometry.intrinsic._transport import Kernel, signed_links, transport

# Runs end where doubling their length changed less than this.
_CONVERGED = 1e-3
_LOW_RANK_CONVERGED = 1e-6
# Widest block of starting vectors, and memory for its Krylov space in bytes. Beyond, probes are as good.
_WIDEST = 40
_MEMORY = 1_500_000_000
# Entries that differ by less than this, relative to the largest, differ by rounding.
_ROUNDING = 1e-14


def low_rank_distance(a: CSRArray, b: CSRArray) -> tuple[float, float] | None:
    """Return D_B of two Laplacians and how much the last steps changed its square; None if they differ too much.

    Let V span the range of b - a. The Krylov space of a from V is invariant under both matrices, which agree on its
    complement. So with Q a basis of it, the Bures-Wasserstein distance of a and b is that of QᵀaQ and QᵀbQ.
    """
    difference = sparse.csr_array(b - a)
    difference.data[np.abs(difference.data) <= _ROUNDING * np.abs(a.data).max()] = 0.0
    difference.eliminate_zeros()
    if difference.nnz == 0:
        return 0.0, 0.0
    nodes = _cover(difference)
    if nodes is None:
        return None
    traces = float(a.trace()), float(b.trace())
    block = _orthonormal(_span(difference, nodes), np.empty((a.shape[0], 0)))
    basis = block
    squared, look, change = np.inf, 8, np.inf
    for step in range(1, 400):
        if step == look:
            found = _compressed(a, b, basis, traces)
            squared, change = found, abs(found - squared)
            if change <= _LOW_RANK_CONVERGED * squared:
                return float(np.sqrt(squared)), change
            look += max(4, look // 4)
        block = _orthonormal(np.asarray(a @ block), basis)
        if block.shape[1] == 0:
            return float(np.sqrt(_compressed(a, b, basis, traces))), 0.0
        if 8 * a.shape[0] * (basis.shape[1] + block.shape[1]) > _MEMORY or basis.shape[1] > 2000:
            return None
        basis = np.hstack([basis, block])
    return None


def _cover(difference: CSRArray) -> IntArray | None:
    """Return few nodes whose rows and columns hold every entry of a symmetric matrix, or None if many are needed."""
    remaining = difference.tocoo()
    rows, columns = remaining.coords
    chosen: list[int] = []
    while rows.size:
        if 2 * len(chosen) >= _WIDEST:
            return None
        node = int(np.bincount(rows).argmax())
        chosen.append(node)
        kept = (rows != node) & (columns != node)
        rows, columns = rows[kept], columns[kept]
    return np.asarray(chosen, dtype=np.int64)


def _span(difference: CSRArray, nodes: IntArray) -> FloatArray:
    """Return vectors whose span holds the range: the nodes of the cover, and their rows."""
    units = np.zeros((difference.shape[0], nodes.size))
    units[nodes, np.arange(nodes.size)] = 1.0
    return np.hstack([units, difference[nodes].toarray().T])


def _orthonormal(vectors: FloatArray, basis: FloatArray) -> FloatArray:
    """Return an orthonormal basis of what ``vectors`` add to ``basis``."""
    scale = float(np.linalg.norm(vectors, axis=0).max(initial=0.0))
    for _ in range(2):  # once more, since the first pass cancels digits
        vectors = vectors - basis @ (basis.T @ vectors)
    columns, triangle, _ = scipy.linalg.qr(vectors, mode="economic", pivoting=True)
    kept = columns[:, np.abs(np.diag(triangle)) > 1e-10 * scale]
    kept = kept - basis @ (basis.T @ kept)
    return np.linalg.qr(kept)[0] if kept.shape[1] else kept


def _compressed(a: CSRArray, b: CSRArray, basis: FloatArray, traces: tuple[float, float]) -> float:
    """Return D_B² of the density matrices, from the Bures-Wasserstein distance of the compressions."""
    factors = []
    for matrix in (a, b):
        values, vectors = scipy.linalg.eigh(basis.T @ np.asarray(matrix @ basis))
        noise = values.size * np.finfo(np.float64).eps * values[-1]
        factors.append(vectors * np.sqrt(np.where(values > noise, values, 0.0)))
    left, _, right = scipy.linalg.svd(factors[1].T @ factors[0], check_finite=False)
    wasserstein = float(np.square(factors[0] - factors[1] @ (left @ right)).sum())
    one, other = traces
    # 2 - 2F with F = (tr a + tr b - W²) / 2(tr a tr b)^½, without subtracting what is nearly equal.
    scaling = ((other - one) / (np.sqrt(one) + np.sqrt(other))) ** 2
    return max(0.0, float((wasserstein - scaling) / np.sqrt(one * other)))


def probed_distance(
    laplacians: Sequence[CSRArray], kernels: Sequence[Kernel], probes: int, steps: int, seed: int
) -> tuple[float, float, float]:
    """Return D_B² of two Laplacians with these kernels, its standard error and its bias."""
    # Work with n·ρ, whose eigenvalues are of the order of one.
    scaled = [sparse.csr_array(each * (each.shape[0] / each.trace())) for each in laplacians]
    missed = [_out_of_reach(scaled[1 - i], kernels[i]) for i in (0, 1)]
    source = int(np.argmin(missed))  # from this graph a map leads to (nearly) all of the other
    samples = _transport_costs(scaled[source], scaled[1 - source], kernels[source], probes, steps, seed)
    means, changes = samples.mean(axis=0)
    errors = samples[:, 0].std(axis=0, ddof=1) / np.sqrt(probes)
    found = [
        # What is out of reach costs itself; half of its bound is off by at most the other half.
        (means[0] + missed[source] / 2, errors[0], abs(changes[0]) + missed[source] / 2),
        (means[1], errors[1], abs(changes[1])),
    ]
    return min(found, key=lambda each: 2 * each[1] + each[2])


def _out_of_reach(target: CSRArray, kernel: Kernel) -> float:
    """Return tr KᵀσK for K the kernel of ρ: at most this part of σ is out of reach of a map from ρ.

    The kernel has one vector for each component of ρ. The part of σ out of reach is tr (Kᵀσ⁺K)⁻¹ over those that lie
    in the range of σ, which is at most tr KᵀσK.
    """
    total = kernel.mass(target)
    # Where the kernels agree, what is left is rounding.
    return total / target.shape[0] if total > 1e-10 else 0.0


def _transport_costs(
    source: CSRArray, target: CSRArray, kernel: Kernel, probes: int, steps: int, seed: int
) -> FloatArray:
    """Return two samples of D_B² for each probe, and below them how much the second half of the steps changed them.

    They are ‖y - My‖² and 2yᵀ(y - My) for the map M from the source to the target. Both have the mean D_B², the first
    if the target lies within reach of M: then ‖My‖² has the mean tr σ. It varies less.
    """
    n = source.shape[0]
    draw, generator = signed_links(source, kernel.vector), np.random.default_rng(seed)
    samples = np.empty((probes, 2, 2))
    for probe in range(probes):
        start = draw(generator)

        def settled(image: FloatArray, before: FloatArray, start: FloatArray = start) -> bool:
            now, then = _costs(start, image)[0], _costs(start, before)[0]
            return bool(abs(now - then) <= _CONVERGED * now)

        moved = transport(source, target, start, steps, settled)
        costs = _costs(start, moved.image)
        samples[probe] = costs, costs - _costs(start, moved.before)
    return samples / n


def _costs(start: FloatArray, image: FloatArray) -> FloatArray:
    """Return ‖y - My‖² and 2yᵀ(y - My)."""
    rest = start - image
    return np.array([rest @ rest, 2 * (start @ rest)])
