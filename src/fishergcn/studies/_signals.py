"""Ctrl-C and SIGTERM: stop between two writes, never within one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from fishergcn.execution import StopWork


class Stopped(StopWork):
    """The work was ended from outside, by the signal ``number``.

    Examples
    --------
    >>> print(Stopped(signal.SIGTERM))
    stopped by SIGTERM
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Signals:
    """While entered, SIGINT and SIGTERM raise :class:`Stopped`, once; :meth:`held` blocks are ended first."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._held = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._received is None:  # cleaning up takes a moment; a second Ctrl-C must not break it
            self._received = number
            if not self._held:
                raise Stopped(number)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Put off a signal until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.check()

    def check(self) -> None:
        """Raise if a signal came, e.g. where code of others swallowed the exception."""
        if self._received is not None:
            raise Stopped(self._received)
