"""Optimal transport maps between large density matrices, applied to vectors by sparse products alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.linalg.blas import daxpy
from scipy.sparse.csgraph import connected_components

from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray

# The first look at a Lanczos run; the next come after √2 times as many steps, until doubling them changes little.
FIRST_LOOK = 10


@dataclass(frozen=True, eq=False)
class Moved:
    """A vector My, and what was found with half the steps or less."""

    image: FloatArray
    before: FloatArray
    __repr__ = one_line


class Kernel:
    """The kernel of a density matrix: a vector v > 0 on each of its components."""

    def __init__(self, matrix: CSRArray, vector: FloatArray) -> None:
        self.vector = vector
        self.count, self.label = connected_components(matrix, directed=False)
        self.unit = vector / np.sqrt(np.bincount(self.label, weights=vector**2))[self.label]

    def part(self, x: FloatArray) -> FloatArray:
        """Return Πx."""
        return np.asarray(self.unit * np.bincount(self.label, weights=self.unit * x)[self.label])

    def mass(self, matrix: CSRArray) -> float:
        """Return tr ΠA."""
        entries = matrix.tocoo()
        rows, columns = entries.coords
        same = self.label[rows] == self.label[columns]
        return max(0.0, float((entries.data * self.unit[rows] * self.unit[columns])[same].sum()))


def signed_links(laplacian: CSRArray, kernel: FloatArray) -> Callable[[np.random.Generator], FloatArray]:
    """Return a function that draws vectors with covariance L: a random sign for every link, added at its ends.

    L = Σ c_e c_eᵀ over links e = (i, j), with c_e = (-L_ij v_i v_j)^½ (e_i / v_i - e_j / v_j), Lv = 0.
    """
    n = laplacian.shape[0]
    upper = sparse.triu(laplacian, 1, format="coo")
    rows, columns = upper.coords
    sizes = np.sqrt(np.maximum(-upper.data, 0.0) * kernel[rows] * kernel[columns])

    def draw(generator: np.random.Generator) -> FloatArray:
        signed = np.where(generator.integers(0, 2, size=sizes.size, dtype=np.int8), sizes, -sizes)
        found = np.bincount(rows, weights=signed, minlength=n) - np.bincount(columns, weights=signed, minlength=n)
        return np.asarray(found / kernel)

    return draw


def transport(
    source: Any, target: Any, start: FloatArray, steps: int, settled: Callable[[FloatArray, FloatArray], bool]
) -> Moved:
    """Return My, with M = σ(ρσ)^-½ the map from ρ, the source, to σ, the target; both need only ``@``.

    Lanczos vectors v_k are orthonormal in the inner product of σ, in which ρσ is symmetric; with the tridiagonal T,
    My ≈ Σ_k σv_k (T^-½ e_1)_k ‖y‖_σ. Rounding repeats eigenvalues but does no harm to this sum. A run ends after
    ``steps``, or where ``settled(image, before)`` accepts what it found and what it had found with half the steps.
    """
    image: FloatArray = np.asarray(target @ start)
    size = float(np.sqrt(max(float(start @ image), 0.0)))
    nothing = np.zeros_like(start)
    if size == 0:
        return Moved(nothing, nothing)
    vector, image = start / size, image / size
    previous, coupling = nothing, 0.0
    images: list[FloatArray] = []
    diagonal: list[float] = []
    couplings: list[float] = []
    found = before = nothing
    looks = [(0, nothing)]
    look = float(FIRST_LOOK)
    for step in range(1, steps + 1):
        images.append(image)
        following = np.asarray(source @ image)
        diagonal.append(float(following @ image))
        following = daxpy(vector, following, a=-diagonal[-1])  # in place
        following = daxpy(previous, following, a=-coupling)
        previous = vector
        image = np.asarray(target @ following)
        coupling = float(np.sqrt(max(float(following @ image), 0.0)))
        ended = coupling <= 1e-12 * diagonal[0]
        if step in (int(look), steps) or ended:
            found = _combined(images, size * _inverse_root(diagonal, couplings))
            while len(looks) > 1 and 2 * looks[1][0] <= step:  # the last one with at most half the steps
                looks.pop(0)
            before = looks[0][1]
            looks.append((step, found))
            if ended:  # the Krylov space is exhausted, so that nothing can change any more
                return Moved(found, found)
            if settled(found, before):
                break
            look *= np.sqrt(2)
        couplings.append(coupling)
        vector, image = following / coupling, image / coupling
    return Moved(found, before)


def _combined(images: list[FloatArray], weights: FloatArray) -> FloatArray:
    found = np.zeros_like(images[0])
    for image, weight in zip(images, weights, strict=True):
        found = daxpy(image, found, a=float(weight))
    return found


def _inverse_root(diagonal: list[float], couplings: list[float]) -> FloatArray:
    """Return T^-½ e_1 for the tridiagonal T, over its eigenvalues that are not rounding noise."""
    values, vectors = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(couplings))
    kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
    roots = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors @ (roots * vectors[0]))
