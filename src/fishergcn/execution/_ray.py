"""Jobs on the machines of a Ray cluster.

One job is one task. Ray finds a free machine for it and starts it again elsewhere when that machine is lost. What
travels is plain: a problem as arrays, which the processes of a machine share, runs and records as JSON. The nodes need
this package.
"""

from __future__ import annotations

import json
import socket
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from fishergcn._base.imports import require
from fishergcn._base.temporary import elsewhere
from fishergcn._base.types import AnyArray
from fishergcn.errors import FisherGCNError, InputError, reason
from fishergcn.execution._executors import LocalExecutor, failed_records
from fishergcn.execution._jobs import Job, find_measure, measure_name, run_from_dict, run_to_dict
from fishergcn.training import Problem, RunRecord, problem_arrays, problem_from_arrays, problem_key

_RETRIES = 5  # how often a task may lose its machine
_KEPT_PROBLEMS = 2
_PATIENCE = 20.0  # seconds until an address must answer
_CHUNK = 32  # runs side by side on a GPU that this process cannot see; halved there if they do not fit

Arrays = dict[str, AnyArray]


def join_cluster(ray: Any, address: str) -> bool:
    """Join a cluster, unless this program has joined one already; return whether it was joined here."""
    if ray.is_initialized():
        return False
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdigit():  # Ray itself would ask for minutes where nobody answers
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
        with elsewhere():  # Ray lets its workers import from the folder in which it is called
            ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise InputError(
            f"there is no Ray cluster at {address!r} ({reason(error)}); start one with: ray start --head"
        ) from error
    return True


class RayExecutor:
    """Runs jobs on a Ray cluster, ``"auto"`` for the one this machine belongs to; a task takes a GPU or else one core.

    A connection that this program has made already is used as it is.
    """

    def __init__(self, address: str = "auto", *, gpu: bool = False, keep_going: bool = False) -> None:
        self._ray = require("ray", extra="cluster", purpose="Working on a cluster")
        self.gpu, self.shares_gpu, self.keep_going = gpu, False, keep_going
        self._problems: OrderedDict[str, Any] = OrderedDict()
        self._connected = join_cluster(self._ray, address)
        needs = {"num_cpus": 1, "num_gpus": 1} if gpu else {"num_cpus": 1}
        self._train = self._ray.remote(max_retries=_RETRIES, **needs)(_train_arrays)
        if self._slots() == 0:
            self.close()
            raise InputError(f"the Ray cluster at {address!r} has no {'GPU' if gpu else 'CPU'} to work on.")

    def _slots(self) -> int:
        """How many tasks can run at once; nodes come and go."""
        return int(self._ray.cluster_resources().get("GPU" if self.gpu else "CPU", 0))

    def chunk_size(self, problem: Problem) -> int:
        """Return how many runs of a problem make a job: one, or several side by side on a GPU."""
        return _CHUNK if self.gpu else 1

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield jobs with records as they come."""
        source = iter(jobs)
        taken: dict[Any, Job] = {}
        try:
            while True:
                # One task waits for each that runs, so that no machine is idle while results are consumed.
                wanted = 2 * max(self._slots(), 1)
                while len(taken) < wanted and (job := next(source, None)) is not None:
                    taken[self._start(job)] = job
                if not taken:
                    break
                [task], _ = self._ray.wait(list(taken), num_returns=1)
                job = taken.pop(task)
                for records in self._parts(job, task):
                    yield job, records
        finally:
            for task in taken:
                self._ray.cancel(task, force=True)

    def _start(self, job: Job) -> Any:
        key = problem_key(job.problem)
        if key not in self._problems:
            self._problems[key] = self._ray.put(problem_arrays(job.problem))
            while len(self._problems) > _KEPT_PROBLEMS:
                self._problems.popitem(last=False)  # tasks that still need it hold it themselves
        self._problems.move_to_end(key)
        runs = json.dumps([run_to_dict(run) for run in job.runs])
        what = measure_name(job.measure), json.dumps(dict(job.task))
        return self._train.remote(key, self._problems[key], runs, self.gpu, job.keep_weights, *what)

    def _parts(self, job: Job, task: Any) -> list[list[RunRecord]]:
        try:
            return [
                [RunRecord.from_dict(values).with_arrays(weights) for values, weights in part]
                for part in ((zip(json.loads(text), arrays, strict=True)) for text, arrays in self._ray.get(task))
            ]
        except Exception as raised:
            cause = getattr(raised, "cause", None)  # Ray's own error says where, its cause what
            error = cause if isinstance(cause, Exception) else raised
            if self.keep_going:
                return [failed_records(job, error)]
            raise FisherGCNError(f"a task on the cluster failed: {reason(error)}.") from error

    def close(self) -> None:
        """Leave the cluster, if it was joined here."""
        self._problems.clear()
        if self._connected:
            self._ray.shutdown()
            self._connected = False


# On the nodes

_problems: OrderedDict[str, Problem] = OrderedDict()  # of this worker process; tasks of one cell come in a row


def _train_arrays(
    key: str, arrays: Arrays, runs: str, gpu: bool, keep_weights: bool, measure: str, task: str
) -> list[tuple[str, list[Any]]]:
    """Do a job and return each list of records as JSON, with the weights."""
    chosen = tuple(map(run_from_dict, json.loads(runs)))
    job = Job(_problem(key, arrays), chosen, keep_weights, find_measure(measure), json.loads(task))
    device = torch.device("cuda" if gpu else "cpu")
    return [
        (json.dumps([record.to_dict() for record in records]), [record.arrays() for record in records])
        for _, records in LocalExecutor(device).run([job])
    ]


def _problem(key: str, arrays: Arrays) -> Problem:
    if key not in _problems:
        # Ray hands out arrays that lie in the shared memory of the machine, where all its processes read them.
        _problems[key] = problem_from_arrays(arrays)
        while len(_problems) > _KEPT_PROBLEMS:
            _problems.popitem(last=False)
    _problems.move_to_end(key)
    return _problems[key]
