"""Experiments: presets, plans, a runner that survives interruptions, and honest statistics."""

from __future__ import annotations

__all__: list[str] = []
