"""Rows of a large array dealt to threads: compiled kernels let go of Python's lock.

Small arrays stay on one thread, where several processes use several cores better.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import torch

_ROWS_FOR_THREADS = 65_536


def many_rows(rows: int) -> bool:
    """Whether an array is so large that its rows are dealt to threads."""
    return rows >= 2 * _ROWS_FOR_THREADS


def row_shares(rows: int) -> list[tuple[int, int]]:
    """Return the first and last row, exclusive, of each thread: as many as torch has, if there are many rows."""
    if not many_rows(rows):
        return [(0, rows)]
    threads = min(torch.get_num_threads(), rows // _ROWS_FOR_THREADS)
    ends = [rows * thread // threads for thread in range(threads + 1)]
    return list(pairwise(ends))


def on_rows(rows: int, run: Callable[[int, int, int], None]) -> None:
    """Call ``run(first, last, number)`` for each share of the rows, at the same time."""
    shares = row_shares(rows)
    if len(shares) == 1:
        run(0, rows, 0)
        return
    list(_pool(os.getpid(), len(shares)).map(lambda at: run(*shares[at], at), range(len(shares))))


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of this process; those of a process that was forked stay behind."""
    return ThreadPoolExecutor(threads)
