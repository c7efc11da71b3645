"""Warnings that point at the user's line, however deep in this package their reason was found."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

import torch

# This package, and what calls back into it: context managers, torch and, beside it, torch_geometric.
_PASSED = (str(Path(__file__).resolve().parents[1]), contextlib.__file__, str(Path(torch.__file__).parent))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the nearest line that is the user's."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)
