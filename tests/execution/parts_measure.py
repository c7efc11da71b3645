"""Measures for the tests of executors: worker processes import them by name."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

from fishergcn.errors import FisherGCNError
from fishergcn.training import train_chunk


def one_by_one(job, device, on_epoch=None):
    """Yield each run by itself, with a number; if told so, die once after the first."""
    for place, run in enumerate(job.runs):
        records = train_chunk(job.problem, [run], device)
        yield [dataclasses.replace(record, extra={"number": job.task["from"] + place}) for record in records]
        if "dies" in job.task and not Path(job.task["dies"]).exists():
            Path(job.task["dies"]).touch()
            os.kill(os.getpid(), signal.SIGKILL)


def broken_after_one(job, device, on_epoch=None):
    """Yield one run and fail."""
    yield train_chunk(job.problem, job.runs[:1], device)
    raise FisherGCNError("no more.")
