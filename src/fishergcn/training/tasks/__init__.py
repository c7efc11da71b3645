"""What is predicted of a node, one file each: its class, several labels, or a number."""

from __future__ import annotations

from fishergcn.training.tasks._classes import Classes
from fishergcn.training.tasks._multilabel import Multilabel
from fishergcn.training.tasks._number import Number
from fishergcn.training.tasks._task import Standard, Task

_TASKS: dict[str, Task] = {task.name: task for task in (Classes(), Multilabel(), Number())}


def find_task(name: str) -> Task:
    """Return the task of this name, as :attr:`fishergcn.Graph.task` has it."""
    return _TASKS[name]


__all__: list[str] = []

SHARED = ("Classes", "Multilabel", "Number", "Standard", "Task", "find_task")
