"""Marked blocks of a page: what stands between ``<!-- KIND NAME -->`` and ``<!-- end -->`` is made by a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from fishergcn._base.files import write_text

__all__ = ["fill", "refresh"]


def fill(text: str, kind: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Make every block of a kind anew; a name that is not in ``blocks`` is a KeyError."""
    return re.sub(
        rf"(<!-- {kind} ([\w-]+) -->).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n\n{blocks[found[2]]().strip()}\n\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def refresh(pages: list[Path], kind: str, blocks: Mapping[str, Callable[[], str]], *, check: bool) -> int:
    """Write the blocks of pages anew, or only say which pages are out of date; return an exit status."""
    stale = []
    for path in pages:
        text = path.read_text(encoding="utf-8")
        filled = fill(text, kind, blocks)
        if filled != text:
            stale.append(path.name)
            if not check:
                write_text(path, filled)
    if check:
        print(f"out of date: {', '.join(stale)}" if stale else "up to date")
    return int(check and bool(stale))
