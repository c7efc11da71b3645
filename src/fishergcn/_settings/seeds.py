"""Seeds of runs and of splits: where they begin, and how many are meant."""

from __future__ import annotations

from collections.abc import Iterable

from fishergcn._base.checks import check_integer
from fishergcn.errors import InputError

#: The first seed of splits and of initializations, as in the paper's code.
FIRST_SEED = 2019


def check_seeds(seeds: int | Iterable[int], first: int = FIRST_SEED) -> list[int]:
    """Return seeds as a list of distinct numbers; a number n means n seeds from ``first`` on."""
    if not isinstance(seeds, Iterable):
        first = check_integer("the first seed", first, minimum=0)
        return list(range(first, first + check_integer("seeds", seeds, minimum=1)))
    numbers = [check_integer("seeds", seed, minimum=0) for seed in seeds]
    if not numbers or len(set(numbers)) != len(numbers):
        raise InputError(f"seeds must be distinct numbers, at least one, got {numbers}.")
    return numbers
