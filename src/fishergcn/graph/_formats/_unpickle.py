"""Reads arrays out of old pickles without running them.

The Planetoid files exist only as pickles, and a pickle is a program. This module is the one place of the
package that reads such files, and it does so with two locks:

1. Before anything runs, the file is walked opcode by opcode. Opcodes that the data do not need, globals that
   are not on the list, and requests for memory out of proportion to the file are refused.
2. The globals on the list are not resolved to what they name. Each becomes an inert stand-in that only keeps
   the arguments it was given, so neither NumPy, SciPy nor anything else is called with values from the file.
   Arrays are then built here, from the raw bytes, once type, shape and length are known to agree.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from scipy import sparse

from fishergcn._base.files import read_bytes
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError

MAX_FILE_BYTES = 2**30
_MAX_TUPLES = 1000  # real files hold about a dozen; a deep nest of them could exhaust the C stack

AnyCSR: TypeAlias = "sparse.csr_array[Any, tuple[int, int]]"

# fmt: off
_OPCODES = frozenset((
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1",
    "BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS",
    "EMPTY_DICT", "SETITEM", "SETITEMS", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MEMOIZE",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD",
))
_NUMBER_TYPES = frozenset(("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))
# fmt: on
_BYTE_ORDERS = frozenset(("<", ">", "=", "|"))


class _StandIn:
    """Keeps what the file says about an object, and does nothing with it."""

    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> _StandIn:
        self = super().__new__(cls)
        self.args = args
        self.state = None
        return self

    def __init__(self, *args: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type(_StandIn):
    """For numpy.dtype."""


class _Array(_StandIn):
    """For numpy.ndarray and the function that makes an empty one."""


class _Matrix(_StandIn):
    """For scipy.sparse.csr_matrix."""


class _ListType(_StandIn):
    """For the class list, which a defaultdict names as its default."""


class _Lists(dict[Any, Any]):
    """For collections.defaultdict, without the default."""

    def __init__(self, *args: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass


_STAND_INS: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("collections", "defaultdict"): _Lists,
    ("__builtin__", "list"): _ListType,
    ("builtins", "list"): _ListType,
}


class _StandInUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._path = path

    def find_class(self, module: str, name: str) -> type:
        return _stand_in(self._path, module, name)


def read_array(path: Path) -> AnyArray:
    """Return the array of numbers that a file holds."""
    return _to_array(path, _read(path))


def read_matrix(path: Path) -> AnyCSR:
    """Return the matrix in compressed sparse rows that a file holds, its structure checked."""
    value = _read(path)
    if not isinstance(value, _Matrix) or not isinstance(value.state, dict):
        raise DataFileError(f"{path} must hold a SciPy CSR matrix, and it holds something else.")
    data, indices, indptr = (_to_array(path, value.state.get(key)) for key in ("data", "indices", "indptr"))
    shape = value.state.get("_shape")
    if not _is_shape(shape, (2,)):
        raise DataFileError(f"{path} must hold a matrix of two dimensions, and its shape is not that.")
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i":
        raise DataFileError(f"{path} must index its matrix by signed integers, got {indices.dtype}, {indptr.dtype}.")
    if not np.isfinite(data).all():
        raise DataFileError(f"{path} must hold finite numbers, and some are NaN or infinite.")
    try:
        matrix = sparse.csr_array((data, indices, indptr), shape=(shape[0], shape[1]))
        matrix.check_format(full_check=True)
    except (ValueError, OverflowError) as error:
        raise DataFileError(f"{path} holds a damaged CSR matrix: {error}.") from error
    return matrix


def read_lists(path: Path) -> dict[int, list[int]]:
    """Return the dict of lists of integers that a file holds."""
    value = _read(path)
    if not isinstance(value, dict):
        raise DataFileError(f"{path} must hold a dict of lists, and it holds something else.")
    for key, items in value.items():
        if type(key) is not int or type(items) is not list or any(type(item) is not int for item in items):
            raise DataFileError(f"{path} must map integers to lists of integers, and entry {key!r:.60} does not.")
    return dict(value)


def _read(path: Path) -> Any:
    """Return what the pickle describes, made of numbers, strings, tuples, lists, dicts and stand-ins."""
    data = read_bytes(path, limit=MAX_FILE_BYTES)
    try:
        _scan(path, data)
        return _StandInUnpickler(data, path).load()
    except (DataFileError, MemoryError):
        raise
    except Exception as error:
        # A damaged pickle can fail in any way the unpickler knows; all of them mean the same to the caller.
        raise DataFileError(f"{path} is damaged or is not a Planetoid file: {error}.") from error


def _scan(path: Path, data: bytes) -> None:
    """Walk the opcodes without running them, and refuse what the data do not need."""
    tuples, surplus = 0, ""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data), start=1):
        if opcode.name in ("GLOBAL", "INST"):
            module, _, name = str(argument).partition(" ")
            _stand_in(path, module, name)
        if opcode.name not in _OPCODES:
            surplus = surplus or f"it uses the pickle opcode {opcode.name}, which data do not need"
        # Writers number the memo upwards; the unpickler allocates as many places as the number says.
        if opcode.name in ("BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            surplus = surplus or f"it asks for {argument} places in memory after {count} opcodes"
        tuples += opcode.name.startswith("TUPLE")
    if tuples > _MAX_TUPLES:
        surplus = surplus or f"it holds {tuples} tuples, and data need a dozen"
    if surplus:  # reported last, since the name of a global that is not admitted says more
        raise DataFileError(f"{path} is refused: {surplus}; nothing in it was run.")


def _stand_in(path: Path, module: str, name: str) -> type:
    try:
        return _STAND_INS[module, name]
    except KeyError:
        raise DataFileError(
            f"{path} is refused: it names {module}.{name}, and only NumPy arrays, SciPy CSR matrices "
            "and dicts of lists are admitted; nothing in it was run."
        ) from None


def _to_array(path: Path, value: Any) -> AnyArray:
    """Build the array that a stand-in describes: state = (version, shape, type, column-major?, raw bytes)."""
    if not isinstance(value, _Array) or not isinstance(value.state, tuple) or len(value.state) != 5:
        raise DataFileError(f"{path} must hold a NumPy array, and it holds something else.")
    _, shape, kind, column_major, raw = value.state
    dtype = _to_dtype(path, kind)
    if isinstance(raw, str):  # a Python 2 string, decoded by the unpickler
        raw = raw.encode("latin1")
    if not _is_shape(shape, (1, 2)) or not isinstance(raw, bytes) or math.prod(shape) * dtype.itemsize != len(raw):
        raise DataFileError(f"{path} holds a damaged array: its shape and its length do not agree.")
    array = np.frombuffer(raw, dtype=dtype).reshape(shape, order="F" if column_major else "C")
    return array.astype(dtype.newbyteorder("="), order="C")


def _to_dtype(path: Path, value: Any) -> np.dtype[Any]:
    """Build the number type that a stand-in describes: args = (code, …), state = (version, byte order, …)."""
    if isinstance(value, _Type) and value.args and isinstance(value.state, tuple) and len(value.state) > 1:
        code, order = value.args[0], value.state[1]
        if isinstance(code, str) and isinstance(order, str) and code in _NUMBER_TYPES and order in _BYTE_ORDERS:
            return np.dtype(order + code)
    raise DataFileError(f"{path} must hold arrays of plain numbers, and the type of one is another.")


def _is_shape(value: Any, dimensions: tuple[int, ...]) -> TypeGuard[tuple[int, ...]]:
    is_tuple = isinstance(value, tuple) and len(value) in dimensions
    return is_tuple and all(type(size) is int and size >= 0 for size in value)
