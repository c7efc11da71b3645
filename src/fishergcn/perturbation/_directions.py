"""Which k directions of the graph are perturbed: the top of its spectrum, the bottom, or random ones."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn._settings.choices import Directions
from fishergcn.errors import InputError
from fishergcn.graph import largest_component
from fishergcn.spectrum import Spectrum, bottom_spectrum, top_spectrum

# Below this share of the largest eigenvalue a direction lies in the kernel of L, where log λ̄ means nothing.
KERNEL_TOLERANCE = 1e-10


def choose_directions(propagation: CSRArray, rank: int, directions: Directions, seed: int) -> Spectrum:
    """Return (w, Ū) on the largest component: the top of the spectrum, its bottom, or random directions."""
    if directions == "high":
        return top_spectrum(propagation, rank=rank, seed=seed)
    if directions == "low":
        return bottom_spectrum(propagation, rank=rank, seed=seed)
    return _random_spectrum(propagation, rank, seed)


def _random_spectrum(propagation: CSRArray, rank: int, seed: int) -> Spectrum:
    """Return k random orthonormal directions of the largest component, orthogonal to the kernel of L."""
    nodes = np.flatnonzero(largest_component(propagation))
    if rank >= nodes.size:
        raise InputError(f"rank must be less than the size of the largest component, {nodes.size} nodes, got {rank}.")
    block = propagation[nodes][:, nodes]
    rng = np.random.default_rng(seed)
    kernel = _kernel(block, rng)
    gaussian = rng.standard_normal((nodes.size, rank))
    local = np.linalg.qr(gaussian - np.outer(kernel, kernel @ gaussian))[0]
    image = local - block @ local
    quotients = np.einsum("ij,ij->j", local, image)
    order = np.argsort(-quotients)
    vectors = np.zeros((propagation.shape[0], rank))
    vectors[nodes] = local[:, order]
    residual = float(np.linalg.norm(image - local * quotients, axis=0).max() / quotients.max())
    trace = float(propagation.shape[0] - propagation.diagonal().sum())
    return Spectrum(quotients[order], vectors, trace, residual, solver="random directions")


def _kernel(block: CSRArray, rng: np.random.Generator) -> FloatArray:
    """Return the unit vector that Ã of a connected graph keeps; unique, by Perron and Frobenius."""
    if block.shape[0] == 2:  # too small for Lanczos
        return np.asarray(np.linalg.eigh(block.toarray())[1][:, -1])
    start = rng.uniform(0.5, 1.5, block.shape[0])
    vector: FloatArray = eigsh(sparse.csr_array(block), k=1, which="LA", v0=start)[1][:, 0]
    return vector


def check_spectrum(spectrum: Spectrum, nodes: int) -> None:
    """Raise unless the directions are those of a graph of this size, none of them in its kernel."""
    w = spectrum.eigenvalues
    if spectrum.eigenvectors.shape[0] != nodes:
        raise InputError(
            f"The spectrum must be that of the propagation matrix, of {nodes} nodes, got one of "
            f"{spectrum.eigenvectors.shape[0]}."
        )
    kernel = np.flatnonzero(~(w > KERNEL_TOLERANCE * w.max()))
    if kernel.size:
        index = int(kernel[0])
        raise InputError(
            "Each direction needs a positive eigenvalue of the Laplacian, got "
            f"{w[index]:.3g} for direction {index}; choose rank at most {index}."
        )
