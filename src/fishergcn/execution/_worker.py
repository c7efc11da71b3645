"""A worker process: reads jobs as JSON lines, answers with records as JSON lines.

Started by ``start_python`` as a program with the arguments FOLDER and DEVICE, so that it needs nothing of the
parent's ``__main__``: plain scripts, notebooks and standard input can all use workers. Its parent kills it, or is gone.
A parent that was killed could not remove FOLDER, with the files that workers share: then the worker does. The parent's
end of the pipe may close a moment before the parent is seen to be gone, so that counts too.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fishergcn._base.backend import usable
from fishergcn.errors import FisherGCNError
from fishergcn.execution._jobs import Job, find_measure, load_problem, run_from_dict

_load_problem = lru_cache(maxsize=2)(load_problem)


def main() -> None:
    """Serve jobs from standard input until it ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not break the protocol
    torch.set_num_threads(1)
    folder, device = sys.argv[1], torch.device(sys.argv[2])
    if device.type == "cuda":  # which takes its time, while the first job is made ready
        usable("triton")
        torch.zeros(1, device=device)

    def leave() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    def answer(values: dict[str, Any]) -> None:
        try:
            print(json.dumps(values), file=answers, flush=True)
        except BrokenPipeError:
            leave()

    for line in sys.stdin:
        message = json.loads(line)
        try:
            runs = tuple(run_from_dict(each) for each in message["runs"])
            problem, weights = _load_problem(Path(message["problem"])), message["weights"]
            job = Job(problem, runs, weights is not None, find_measure(message["measure"]), message["task"])
            for records in job.measure(job, device, None):
                for index, record in enumerate(records):
                    if record.weights is not None:
                        np.savez(Path(weights) / f"{index}.npz", **dict[str, Any](record.arrays()))
                answer({"records": [record.to_dict() for record in records]})
            answer({})
        except FisherGCNError as error:
            answer({"error": str(error)})
    leave()


if __name__ == "__main__":
    main()
