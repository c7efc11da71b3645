"""What can go wrong, as types.

Everything this package raises on purpose derives from :class:`FisherGCNError`; its message is one sentence
that names the thing, what is allowed and what came.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConvergenceError",
    "DataFileError",
    "FisherGCNError",
    "InputError",
    "MissingExtraError",
    "reason",
    "suggestion",
]


class FisherGCNError(Exception):
    """Base of all errors raised on purpose by this package."""


class InputError(FisherGCNError, ValueError):
    """An argument, option or array is not what is allowed."""


class DataFileError(InputError):
    """A file is missing, damaged, or holds something that is not admitted."""


class ConvergenceError(FisherGCNError, RuntimeError):
    """A numerical method did not reach the accuracy asked for."""


class MissingExtraError(FisherGCNError, ImportError):
    """An optional package is needed; the message names the extra to install."""


def reason(error: BaseException) -> str:
    r"""Return the first line of an error of another library without its period, to quote within a sentence.

    Examples
    --------
    >>> reason(ValueError("Bad shape.\nSee the manual."))
    'Bad shape'
    >>> reason(EOFError())
    'EOFError'
    """
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known word, or an empty string.

    Examples
    --------
    >>> suggestion("coar", ["cora", "pubmed"])
    " (did you mean 'cora'?)"
    >>> suggestion("zzz", ["cora", "pubmed"])
    ''
    """
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f" (did you mean '{near[0]}'?)" if near else ""
