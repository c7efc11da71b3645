"""Another way to compare density matrices: the von Neumann divergence, a matrix Bregman divergence."""

from __future__ import annotations

import numpy as np

from fishergcn._base.types import MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import decompose, shape_of

# Mass of a in the kernel of b beyond this makes the divergence infinite; less is rounding.
_OUTSIDE = 1e-12


def von_neumann_divergence(a: MatrixLike, b: MatrixLike) -> float:
    """Von Neumann divergence D(a ‖ b) = tr(a log a - a log b - a + b), in nats: the quantum relative entropy.

    It is the Bregman divergence of tr(x log x): how far this function lies, at a, above its tangent at b. It is not
    symmetric, 0 only for a = b, at least -2 log F(a, b), and infinite unless the range of a lies within that of b.
    Connected graphs have a finite divergence by their combinatorial Laplacians, whose kernel is the constant vector;
    kernels of normalized ones depend on the degrees.

    Parameters
    ----------
    a, b : (n, n) array or SciPy sparse matrix
        Density matrices as in :func:`fidelity`.

    Examples
    --------
    >>> import numpy as np
    >>> round(von_neumann_divergence(np.diag([0.9, 0.1]), np.diag([0.5, 0.5])), 6)
    0.368064
    >>> von_neumann_divergence(np.diag([0.5, 0.5]), np.diag([1.0, 0.0]))
    inf
    """
    one, other = shape_of(a, "a"), shape_of(b, "b")
    if one != other:
        raise InputError(f"a and b must have the same shape, got {one} and {other}.")
    (values, vectors), (weights, basis) = decompose("a", a), decompose("b", b)
    # Row i: how much of the i-th eigenvector of b is in a, weighted by the eigenvalues of a.
    shares = np.square(basis.T @ vectors) @ values
    if shares[weights == 0].sum() > _OUTSIDE:
        return float("inf")
    inside = weights > 0
    positive = values[values > 0]
    found = float((positive * np.log(positive)).sum() - (shares[inside] * np.log(weights[inside])).sum())
    # The traces are both one, and rounding must not make it negative.
    return max(0.0, found)
