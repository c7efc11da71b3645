"""What can go wrong, as types.

Everything this package raises on purpose derives from :class:`FisherGCNError`; its message is one sentence
that names the thing, what is allowed and what came.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["ConvergenceError", "DataFileError", "FisherGCNError", "InputError", "MissingExtraError", "Notice"]
SHARED = ("reason", "suggestion")


class FisherGCNError(Exception):
    """Base of all errors raised on purpose by this package.

    Examples
    --------
    >>> import fishergcn
    >>> try:
    ...     fishergcn.datasets.load("coar")
    ... except FisherGCNError as error:
    ...     print(error)
    Data set 'coar' is unknown (did you mean 'cora'?); the embedded ones are cora, citeseer, pubmed.
    """


class InputError(FisherGCNError, ValueError):
    """An argument, option or array is not what is allowed.

    Examples
    --------
    >>> import fishergcn
    >>> fishergcn.TrainConfig(dropout=1.5)
    Traceback (most recent call last):
        ...
    fishergcn.errors.InputError: dropout must be at least 0.0 and less than 1.0, got 1.5.
    """


class DataFileError(InputError):
    """A file is missing, damaged, or holds something that is not admitted.

    Examples
    --------
    >>> import fishergcn
    >>> fishergcn.Graph.load("nowhere.npz")
    Traceback (most recent call last):
        ...
    fishergcn.errors.DataFileError: nowhere.npz does not exist or is not a file.
    """


class Notice(UserWarning):
    """Nothing is wrong: how data were understood that could be understood in another way.

    Examples
    --------
    >>> import warnings, pyarrow, fishergcn
    >>> links = pyarrow.table({"source": ["Ada", "Bob"], "target": ["Bob", "Cy"], "since": [1999, 2004]})
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", Notice)  # that 'since' is left out
    ...     fishergcn.Graph.from_frames(links)
    <Graph: 3 nodes, 2 links, 0 features, 0 classes>
    """


class ConvergenceError(FisherGCNError, RuntimeError):
    """A numerical method did not reach the accuracy asked for.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> from fishergcn.geometry.extrinsic import natural_gradient_step
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> network = fishergcn.GCN(4, (3,), 2, generator=torch.Generator().manual_seed(0))
    >>> model = fishergcn.TrainedModel.from_network(network, graph)
    >>> try:
    ...     found = natural_gradient_step(model, layer=0, max_iterations=1)
    ... except ConvergenceError:
    ...     found = natural_gradient_step(model, layer=0, damping=1.0)  # an easier problem
    >>> found.residual < 1e-6
    True
    """


class MissingExtraError(FisherGCNError, ImportError):
    """An optional package is needed; the message names the extra to install.

    Examples
    --------
    >>> from unittest.mock import patch
    >>> from fishergcn.execution import choose_executor
    >>> with patch.dict("sys.modules", ray=None):  # as if Ray were not installed
    ...     choose_executor(cluster="auto")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fishergcn.errors.MissingExtraError: ... needs the package 'ray': pip install 'fishergcn[cluster]' (...).
    """


def reason(error: BaseException) -> str:
    """Return the first line of an error of another library without its period, to quote within a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f" (did you mean '{near[0]}'?)" if near else ""
