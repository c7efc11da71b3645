"""Marked blocks of a page: what stands between ``<!-- KIND NAME -->`` and ``<!-- end -->`` is made by a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

__all__ = ["fill"]


def fill(text: str, kind: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Make every block of a kind anew; a name that is not in ``blocks`` is a KeyError."""
    return re.sub(
        rf"(<!-- {kind} ([\w-]+) -->).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n\n{blocks[found[2]]().strip()}\n\n{found[3]}",
        text,
        flags=re.DOTALL,
    )
