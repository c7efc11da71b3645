"""What a long experiment shows while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fishergcn.cli._common import console, table

if TYPE_CHECKING:
    from fishergcn.studies import Cell, Plan, RunStore
    from fishergcn.training import Progress, RunRecord

__all__ = ["Display"]

_LINE_EVERY = 10.0  # seconds between plain lines


class Display:
    """Counts runs and shows where the work stands, on standard error."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._live: Any = None
        self._total = self._done = self._done_before = self._failed = self._running = 0
        self._sums: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
        self._started = self._shown = time.monotonic()
        self._epoch = ""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, plan: Plan, store: RunStore) -> None:
        """Take over what is there already."""
        self._cells = {(cell.dataset, cell.name): len(plan.splits) * len(plan.seeds) for cell in plan.cells}
        self._total = len(plan)
        for name, record in store.entries():
            self._count((record.dataset, name), record, fresh=False)
        self._done_before = self._done
        before = f", {self._done} of them done before" if self._done else ""
        self._console.print(f"{plan.preset}: {self._total} runs{before}.")
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, get_renderable=self._picture, refresh_per_second=4)
            self._live.start()

    def started(self, cell: Cell, runs: int) -> None:
        """Count runs that were handed out."""
        self._running += runs

    def epoch(self, progress: Progress) -> None:
        """Remember how far the job in this process is."""
        self._epoch = f", epoch {progress.epoch}: {progress.active} training, {progress.finished} stopped"

    def finished(self, cell: Cell, records: list[RunRecord]) -> None:
        """Count runs that ended and, without a terminal, print a line now and then."""
        self._running -= len(records)
        for record in records:
            self._count((cell.dataset, cell.name), record, fresh=True)
        now = time.monotonic()
        if self._live is None and (now - self._shown > _LINE_EVERY or self._done + self._failed == self._total):
            self._shown = now
            count, total = self._sums[cell.dataset, cell.name]
            mean = f"; {cell.name} on {cell.dataset}: {total / count:.2%} after {count} runs" if count else ""
            self._console.print(self._line() + mean)

    def _count(self, key: tuple[str, str], record: RunRecord, *, fresh: bool) -> None:
        if record.status.startswith("failed"):
            self._failed += fresh  # earlier failures are tried again
            if fresh:
                name = f"{key[1]} on {key[0]}, split {record.split}, seed {record.seed}"
                self._console.print(f"{name}: {record.status}", soft_wrap=True)
            return
        self._done += 1
        if record.status == "ok":
            count, total = self._sums[key]
            self._sums[key] = count + 1, total + record.test_accuracy

    def _line(self) -> str:
        left = self._total - self._done - self._failed
        fresh = self._done - self._done_before + self._failed
        spent = time.monotonic() - self._started
        wait = f", about {_duration(spent / fresh * left)} left" if fresh and left else ""
        return f"{self._done}/{self._total} runs done, {self._running} in work, {self._failed} failed{wait}"

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar

        rows = []
        for (dataset, name), planned in self._cells.items():
            count, total = self._sums[dataset, name]
            rows.append([dataset, name, f"{count}/{planned}", f"{total / count:.2%}" if count else "-"])
        bar = ProgressBar(total=self._total, completed=self._done + self._failed, width=60)
        # The table last: where the terminal is too low, its end is what is cut off.
        shown = table("", ["data set", "method", "runs", "mean accuracy"], rows)
        return Group(self._line() + self._epoch, bar, shown)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
