"""Optional packages: imported where they are used, with an error that names the extra."""

from __future__ import annotations

import importlib
from typing import Any

from fishergcn.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import ``module``, or raise an error that says which extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs the package {package!r}: pip install 'fishergcn[{extra}]' ({error})."
        ) from error
