"""Who hears how the work goes, and what people see of it.

Training, studies and searches all report to a :class:`Listener`. The one that shows something is :class:`Display`: on
a terminal a live table, elsewhere plain lines; both on standard error, so that results can be piped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fishergcn._base.terminal import console, note, table
from fishergcn._base.text import duration
from fishergcn.training import Progress, RunRecord, Score, find_score, main_score

_LINE_EVERY = 10.0  # seconds between plain lines, unless a twentieth of the runs ended
_PARTS = 20

Name = tuple[str, str]  # of the data set and of what is trained on it


class Listener:
    """Receives progress events and does nothing about them; override what you need.

    Examples
    --------
    >>> import fishergcn
    >>> class Seeds(Listener):
    ...     def finished(self, name, records):
    ...         print(name, [record.seed for record in records])
    >>> cora, short = fishergcn.datasets.load("cora"), fishergcn.TrainConfig(max_epochs=1)
    >>> records = fishergcn.train(cora, "gcn", "public", seeds=2, config=short, device="cpu", progress=Seeds())
    ('cora', 'gcn') [2019]
    ('cora', 'gcn') [2020]
    """

    def begin(self, title: str, planned: Mapping[Name, int], before: Iterable[tuple[Name, RunRecord]] = ()) -> None:
        """The work begins: runs of each (data set, method) that are planned, and records from before."""

    def started(self, name: Name, runs: int) -> None:
        """A job of this number of runs was handed out."""

    def epoch(self, progress: Progress) -> None:
        """An epoch of a job in this process ended."""

    def finished(self, name: Name, records: Sequence[RunRecord]) -> None:
        """The runs of a job are done."""

    def say(self, text: str) -> None:
        """Something else is worth a line."""

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        """The work has ended, well or not."""


@dataclass
class _Row:
    """What is known of one method on one data set."""

    planned: int = 0
    done: int = 0
    good: int = 0
    tested: int = 0
    validated: int = 0
    test: float = 0.0
    val: float = 0.0
    score: Score = find_score("accuracy")  # noqa: RUF009 (a score does not change)

    def add(self, record: RunRecord) -> None:
        self.done += 1
        if record.status != "ok":
            return
        self.good += 1
        self.score = main_score(record)
        if not math.isnan(value := getattr(record, f"val_{self.score.name}")):
            self.validated += 1
            self.val += value
        if not math.isnan(value := getattr(record, f"test_{self.score.name}")):
            self.tested += 1
            self.test += value

    @property
    def so_far(self) -> str:
        """The mean test accuracy of the finished runs, or of validation where there is no test."""
        if self.tested:
            return f"test so far {self.score.text(self.test / self.tested)}"
        return f"validation so far {self.score.text(self.val / self.validated)}" if self.validated else ""


class Display(Listener):
    """Counts runs and shows where the work stands."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._live: Any = None
        self._reset({})

    def _reset(self, planned: Mapping[Name, int]) -> None:
        self._rows = {name: _Row(count) for name, count in planned.items()}
        self._total = sum(planned.values())
        self._done = self._done_before = self._failed = self._running = self._parts_shown = 0
        self._started = self._shown = self._epochs_since = time.monotonic()
        self._epoch = ""
        self._first_epoch = self._last_epoch = 0

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, title: str, planned: Mapping[Name, int], before: Iterable[tuple[Name, RunRecord]] = ()) -> None:
        """Say how much there is to do, and take over what is there already."""
        self.__exit__(None, None, None)  # of work before, where several pieces follow each other
        self._live = None
        self._reset(planned)
        for name, record in before:
            if not record.status.startswith("failed"):  # earlier failures are tried again
                self._done += 1
                self._rows[name].add(record)
        self._done_before = self._done
        done = f", {self._done} already done" if self._done else ""
        self.say(f"{title}: {self._total} run{'s' * (self._total != 1)}{done}.")
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, get_renderable=self._picture, refresh_per_second=4)
            self._live.start()

    def started(self, name: Name, runs: int) -> None:
        """Count runs that were handed out."""
        self._running += runs

    def epoch(self, progress: Progress) -> None:
        """Remember how far the job in this process is."""
        now = time.monotonic()
        if progress.epoch <= self._last_epoch or not self._last_epoch:  # another job has begun
            self._first_epoch, self._epochs_since = progress.epoch, now
        self._last_epoch = progress.epoch
        of = f" of at most {progress.max_epochs}" if progress.max_epochs else ""
        parts = [f"epoch {progress.epoch}{of}"]
        if not math.isnan(progress.val_accuracy):  # without validation nodes there is nothing to say
            parts.append(f"validation {find_score(progress.score).text(progress.val_accuracy, 1)}")
        if progress.active + progress.finished > 1:
            parts.append(f"{progress.active} training, {progress.finished} stopped")
        measured, ahead = progress.epoch - self._first_epoch, progress.max_epochs - progress.epoch
        if measured and ahead > 0:
            parts.append(f"at most {duration((now - self._epochs_since) / measured * ahead)} left in this run")
        self._epoch = ", ".join(["", *parts])
        if self._live is None and now - self._shown > _LINE_EVERY:
            self._shown = now
            self.say(self._now())

    def finished(self, name: Name, records: Sequence[RunRecord]) -> None:
        """Count runs that ended and, without a terminal, print a line now and then."""
        self._running -= len(records)
        for record in records:
            if record.status.startswith("failed"):
                self._failed += 1
                self.say(f"{name[1]} on {name[0]}, split {record.split}, seed {record.seed}: {record.status}")
            else:
                self._done += 1
                self._rows[name].add(record)
        if self._live is None and self._is_time():
            self.say(f"{self._line()}; {name[1]} on {name[0]}: {self._last(name, records[-1])}")

    def say(self, text: str) -> None:
        """Print a line."""
        if self._live is None:
            note(text)
        else:
            self._console.print(text, soft_wrap=True)

    def _is_time(self) -> bool:
        ended, now = self._done + self._failed, time.monotonic()
        parts = ended * min(self._total, _PARTS) // max(self._total, 1)
        if parts > self._parts_shown or now - self._shown > _LINE_EVERY:
            self._parts_shown, self._shown = parts, now
            return True
        return False

    def _last(self, name: Name, record: RunRecord) -> str:
        score = main_score(record)
        value = getattr(record, f"val_{score.name}")
        outcome = "" if math.isnan(value) else f"validation {score.text(value)}"
        if record.status != "ok":
            outcome = record.status.partition(":")[0]
        return ", ".join(filter(None, [f"{record.epochs} epochs", outcome, self._rows[name].so_far]))

    def _now(self) -> str:
        return f"{self._line()}{self._epoch}" if self._total else self._epoch.removeprefix(", ")

    def _line(self) -> str:
        left = self._total - self._done - self._failed
        fresh = self._done - self._done_before + self._failed
        spent = time.monotonic() - self._started
        wait = f", about {duration(spent / fresh * left)} left" if fresh and left else ""
        return f"{self._done}/{self._total} runs done, {self._running} in progress, {self._failed} failed{wait}"

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar

        rows = [
            [*name, f"{row.done}/{row.planned}", row.so_far.rpartition(" ")[2] or "-"]
            for name, row in self._rows.items()
        ]
        bar = ProgressBar(total=self._total, completed=self._done + self._failed, width=60)
        # The table last: where the terminal is too low, its end is what is cut off.
        score = next((row.score for row in self._rows.values()), find_score("accuracy"))
        shown = table("", ["data set", "method", "runs", f"mean {score.title}"], rows)
        return Group(self._now(), bar, shown) if self._total else Group(self._now())
