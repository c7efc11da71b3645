"""A fixed sparse matrix, held with its transpose and ready for products with every derivative torch can ask for.

Torch's own ``S @ X`` with a CSR leaf makes a dense n × n gradient and does not work under ``vmap``. Here the
sparse values are constants (see ``_product``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.arrays import check_compressed
from fishergcn._base.tensors import HALVES
from fishergcn._base.types import AnyArray, CSRArray, MatrixLike
from fishergcn._kernels.choice import DENSE_SHARE
from fishergcn.errors import InputError
from fishergcn.operators._operator import Placed
from fishergcn.operators._product import batched_product, has_full_rows, on_cpu, product

if TYPE_CHECKING:
    from fishergcn._kernels.cpu_tiles import PairedRows
    from fishergcn._kernels.cuda_half import HalfTiles


class SparseMatrix(Placed):
    """S, a constant sparse matrix held with its transpose, ready for ``S @ X``.

    Parameters
    ----------
    scipy : sparse.csr_array of shape (m, n)
        The matrix as SciPy knows it, kept for everything that is not a product.
    forward, backward : Tensor
        Torch CSR tensors of S and of Sᵀ; the same tensor twice when S is symmetric.
    single : array, optional
        The values in float32, where they are there already: of a file that is mapped, for example.

    Notes
    -----
    Use :meth:`from_scipy`. Instances are immutable; :meth:`to` and :attr:`T` share memory where they can.

    Examples
    --------
    >>> import torch
    >>> from scipy import sparse
    >>> matrix = SparseMatrix.from_scipy(sparse.csr_array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))
    >>> matrix @ torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    tensor([[4.],
            [1.]], dtype=torch.float64)
    >>> matrix.T.shape
    (3, 2)
    """

    __array_ufunc__ = None  # NumPy must not take `array @ matrix` for an elementwise product of objects

    def __init__(self, scipy: CSRArray, forward: Tensor, backward: Tensor, single: AnyArray | None = None) -> None:
        self.scipy = scipy
        self._single = single
        self._own = True  # whether the tensors have memory of their own, and not that of the SciPy matrix
        self._core = self.forward = forward
        self.backward = backward
        self._kept: dict[tuple[str, bool], Any] = {}
        self._halves: dict[torch.dtype, SparseMatrix] = {}

    @classmethod
    def from_scipy(
        cls, matrix: MatrixLike, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64
    ) -> SparseMatrix:
        """Take a SciPy sparse matrix, or anything ``scipy.sparse.csr_array`` accepts.

        Parameters
        ----------
        matrix : sparse or array of shape (m, n)
            The values; duplicates are summed.
        device, dtype
            Where and in which precision products are taken.

        Returns
        -------
        SparseMatrix
            With the transpose stored once if the matrix is exactly symmetric.

        Examples
        --------
        >>> import numpy as np
        >>> SparseMatrix.from_scipy(np.eye(3)).symmetric
        True
        """
        given: Any = matrix
        if np.ndim(given) != 2:
            raise InputError(f"A sparse matrix must have 2 dimensions, got {np.ndim(given)}.")
        csr: CSRArray = cast("CSRArray", sparse.csr_array(given, dtype=np.float64))
        check_compressed("A sparse matrix", csr)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        if not np.isfinite(csr.data).all():
            raise InputError("A sparse matrix must hold finite numbers, got NaN or infinity.")
        forward = _torch_csr(csr, device, dtype)
        transposed = sparse.csr_array(csr.T)
        same = csr.shape == transposed.shape and _same_entries(csr, transposed)
        return cls(csr, forward, forward if same else _torch_csr(transposed, device, dtype))

    @classmethod
    def from_symmetric(cls, matrix: CSRArray, single: AnyArray | None = None) -> SparseMatrix:
        """Take a canonical float64 matrix that is known to equal its transpose, on its own memory.

        Examples
        --------
        >>> SparseMatrix.from_symmetric(sparse.csr_array([[0.0, 1.0], [1.0, 0.0]])).symmetric
        True
        """
        check_compressed("A sparse matrix", matrix)
        same = single is None or (single.shape == matrix.data.shape and single.dtype == np.float32)
        if matrix.dtype != np.float64 or not same:
            raise InputError("A symmetric matrix must hold float64, and its values in float32 must be as many.")
        forward = _torch_csr(matrix, "cpu", torch.float64, own=False)
        found = cls(matrix, forward, forward, single)
        found._own = False
        return found

    @property
    def symmetric(self) -> bool:
        """Whether S = Sᵀ exactly, so that one tensor serves for both."""
        return self.forward is self.backward

    @property
    def full_rows(self) -> bool:
        """Whether rows are so full that products on the CPU are taken by tiles."""
        return has_full_rows(self.scipy.nnz, self.shape[0])

    @property
    def nearly_full(self) -> bool:
        """Whether enough entries are stored for products on a GPU to be taken by tiles, in half precision."""
        return bool(self.scipy.nnz > DENSE_SHARE * self.shape[0] * self.shape[1])

    def arrays(self, transposed: bool = False) -> tuple[AnyArray, ...]:
        """Return row pointers, columns and values of S, or of Sᵀ, for compiled code on the CPU."""
        return cast("tuple[AnyArray, ...]", self._once("arrays", transposed, _arrays))

    def paired_rows(self, transposed: bool = False) -> PairedRows:
        """Return S, or Sᵀ, with its nodes renumbered and its rows in pairs, for products of matrices with full rows."""
        from fishergcn._kernels.cpu_tiles import paired_rows

        def make(csr: Tensor) -> PairedRows:
            indptr, indices, values = _arrays(csr)
            return paired_rows(sparse.csr_array((values, indices, indptr), shape=(csr.shape[0], csr.shape[1])))

        return cast("PairedRows", self._once("paired rows", transposed, make))

    def half_tiles(self, transposed: bool = False) -> HalfTiles:
        """Return S, or Sᵀ, as tiles in half precision, for tensor cores."""
        from fishergcn._kernels.cuda_half import half_tiles

        return cast("HalfTiles", self._once("half tiles", transposed, half_tiles))

    @cached_property
    def wide(self) -> SparseMatrix:
        """S with sums in float32 where its own precision is half; else itself."""
        return self.to(dtype=torch.float32) if self.dtype in HALVES else self

    def _once(self, name: str, transposed: bool, make: Callable[[Tensor], Any]) -> Any:
        """Make another form of S or Sᵀ when it is first asked for; one serves for both if S is symmetric."""
        key = name, transposed and not self.symmetric
        if key not in self._kept:
            self._kept[key] = make(self.backward if transposed else self.forward)
        return self._kept[key]

    @cached_property
    def T(self) -> SparseMatrix:
        """Sᵀ, sharing the same two tensors."""
        if self.symmetric:
            return self
        transposed = SparseMatrix(sparse.csr_array(self.scipy.T), self.backward, self.forward)
        transposed.__dict__["T"] = self  # Sᵀᵀ is S, so that nested derivatives build nothing new
        return transposed

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> SparseMatrix:
        """Return the matrix on another device or in another precision, or itself where nothing changes."""
        device = self.device if device is None else torch.device(device)
        dtype = self.dtype if dtype is None else dtype
        if device == self.device and dtype == self.dtype:
            return self
        if device == self.device and dtype in HALVES:  # cheap: the products run in float32, and so do later ones
            if dtype not in self._halves:
                self._halves[dtype] = self._converted(device, dtype)
                self._halves[dtype].__dict__["wide"] = self.to(dtype=torch.float32)
            return self._halves[dtype]
        return self._converted(device, dtype)

    def _converted(self, device: torch.device, dtype: torch.dtype) -> SparseMatrix:
        # From the float64 values, so that float64 -> float32 -> float64 loses nothing.
        values = self._single if dtype == torch.float32 else None
        forward = _torch_csr(self.scipy, device, dtype, values, own=self._own)
        if self.symmetric:
            found = SparseMatrix(self.scipy, forward, forward, self._single)
            found._own = self._own
            return found
        return SparseMatrix(self.scipy, forward, _torch_csr(sparse.csr_array(self.scipy.T), device, dtype))

    def to_dense(self) -> Tensor:
        """All m × n entries, for checks on small matrices."""
        return torch.as_tensor(self.scipy.toarray(), dtype=self.dtype, device=self.device)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return spmm(self, dense)

    def propagate(self, dense: Tensor) -> Tensor:
        """Multiply node-major activations: (n, B, d) to (m, B, d), with a compiled kernel where there is one."""
        return product(self, dense)

    def multiply_into(
        self,
        out: AnyArray,
        dense: AnyArray,
        *,
        transposed: bool = False,
        left: AnyArray | None = None,
        weighted: AnyArray | None = None,
    ) -> None:
        """Set out = S Z - L V, or Sᵀ Z - L V, in compiled code on the CPU, without derivatives.

        For arrays of node-major activations Z (n, B, d), V (k, B, d), L (m, k) and out (m, B, d), all contiguous.
        """
        on_cpu(out, self, transposed, dense, left, weighted)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseMatrix:
        return self  # immutable, and torch cannot copy CSR tensors this way

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.scipy, str(self.device), self.dtype)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"SparseMatrix({rows} × {columns}, {self.scipy.nnz} entries, {self.dtype}, {self.device})"


def spmm(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    """Y = S X, shape (..., m, d), for each X in a batch of shape (..., n, d).

    Differentiable in X any number of times, in reverse and forward mode, and under ``torch.func.vmap``; S gets no
    gradient.
    """
    return batched_product(matrix, dense)


def _restore(matrix: CSRArray, device: str, dtype: torch.dtype) -> SparseMatrix:
    return SparseMatrix.from_scipy(matrix, device=device, dtype=dtype)


def _arrays(csr: Tensor) -> tuple[AnyArray, ...]:
    return tuple(part.numpy() for part in (csr.crow_indices(), csr.col_indices(), csr.values()))


def _torch_csr(
    matrix: CSRArray,
    device: torch.device | str,
    dtype: torch.dtype,
    values: AnyArray | None = None,
    *,
    own: bool = True,
) -> Tensor:
    """Return a matrix as torch has it: with memory of its own or, where types and device allow it, on that of SciPy."""
    make = torch.tensor if own else torch.as_tensor
    # 32-bit indices halve the index traffic, and MKL takes them as they are.
    index = torch.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else torch.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # and nobody writes
        return torch.sparse_csr_tensor(
            make(matrix.indptr, dtype=index),
            make(matrix.indices, dtype=index),
            make(matrix.data if values is None else values, dtype=dtype),
            size=matrix.shape,
            check_invariants=False,
        ).to(device)


def _same_entries(a: CSRArray, b: CSRArray) -> bool:
    b.sort_indices()
    return all(
        np.array_equal(left, right) for left, right in ((a.indptr, b.indptr), (a.indices, b.indices), (a.data, b.data))
    )
