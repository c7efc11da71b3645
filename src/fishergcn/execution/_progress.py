"""What one sees while runs are trained: runs, epochs, accuracy so far.

On a terminal a bar, elsewhere plain lines; both on standard error, so that results can be piped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fishergcn.training import Progress, RunRecord

__all__ = ["Bar", "Display", "Lines", "make_display"]

_MOST_LINES = 20


class Display:
    """Shows nothing, but keeps count; the others build on it."""

    def __init__(self, title: str, runs: int) -> None:
        self.title, self.runs = title, runs
        self.done = 0
        self._tested: list[float] = []
        self._validated: list[float] = []

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to clear away."""

    def epoch(self, state: Progress) -> None:
        """Take note of where the current chunk stands."""

    def finished(self, records: Sequence[RunRecord]) -> None:
        """Take note of runs that are done."""
        self.done += len(records)
        good = [record for record in records if record.status == "ok"]
        self._validated += [record.val_accuracy for record in good]
        self._tested += [record.test_accuracy for record in good if not math.isnan(record.test_accuracy)]

    @property
    def so_far(self) -> str:
        """The mean test accuracy of the finished runs, or of validation where there is no test."""
        if self._tested:
            return f"test so far {np.mean(self._tested):.2%}"
        return f"validation so far {np.mean(self._validated):.2%}" if self._validated else ""


class Lines(Display):
    """A line for each finished run, or for every twentieth part of many."""

    def finished(self, records: Sequence[RunRecord]) -> None:
        """Print a line when enough has happened since the last."""
        before = self._step()
        super().finished(records)
        if self._step() > before or self.done == self.runs:
            last = records[-1]
            told = "diverged" if last.status != "ok" else f"validation {last.val_accuracy:.2%}"
            parts = [
                f"fishergcn: method {self.title}, run {self.done} of {self.runs}",
                f"{last.epochs} epochs",
                told,
                self.so_far,
            ]
            print(", ".join(filter(None, parts)), file=sys.stderr, flush=True)

    def _step(self) -> int:
        return self.done * min(self.runs, _MOST_LINES) // self.runs


class Bar(Display):
    """A bar with the current epoch beside it."""

    def __init__(self, title: str, runs: int, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        super().__init__(title, runs)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("runs"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task(title, total=runs, note="")

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def epoch(self, state: Progress) -> None:
        """Show the epoch and its validation accuracy."""
        parts = [f"epoch {state.epoch}", f"validation {state.val_accuracy:.1%}", self.so_far]
        self._bar.update(self._task, note=", ".join(filter(None, parts)))

    def finished(self, records: Sequence[RunRecord]) -> None:
        """Move the bar."""
        super().finished(records)
        self._bar.update(self._task, completed=self.done, note=self.so_far)


def make_display(title: str, runs: int, *, shown: bool) -> Display:
    """Return the display that suits standard error, or one that shows nothing.

    Examples
    --------
    >>> with make_display("gcn", 3, shown=False) as display:
    ...     display.so_far
    ''
    """
    if not shown:
        return Display(title, runs)
    from rich.console import Console

    console = Console(stderr=True)
    return Bar(title, runs, console) if console.is_terminal else Lines(title, runs)
