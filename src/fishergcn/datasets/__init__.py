"""Graphs to work with: three that ship with the package, and a safe reader of Planetoid files."""

from __future__ import annotations

from fishergcn.datasets._embedded import available, load
from fishergcn.datasets._planetoid import read_planetoid

__all__ = ["available", "load", "read_planetoid"]
