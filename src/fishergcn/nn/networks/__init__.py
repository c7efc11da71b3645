"""The networks, one file each: a file in this folder that registers one is all that a network needs."""

from __future__ import annotations

import importlib
import pkgutil

for _each in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_each.name}")
