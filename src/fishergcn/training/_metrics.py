"""The scores of runs, from their logits: in every epoch loss and accuracy, for a record all of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.training import _temperature
from fishergcn.training._objective import Targets, exact_cross_entropy, scores
from fishergcn.training._scores import Score, Tally, registered_scores
from fishergcn.training.tasks import Task

CALIBRATED, THRESHOLD = "calibrated_cross_entropy", "threshold"  # of validation nodes, beside their scores
CALIBRATIONS = {"temperature": _temperature}
FEWEST = 10  # nodes from which a temperature is learned


def validation(logits: Tensor, targets: Targets, decay: Tensor, watched: Score | None = None) -> tuple[Tensor, ...]:
    """Return loss, with weight decay, and accuracy of each run after an epoch, two of shape (R,).

    If another score is ``watched``, what :func:`watched_values` computes it from follows.
    """
    cross_entropy, accuracy = scores(logits, targets)
    found = cross_entropy + decay, accuracy
    if watched is None:
        return found
    known = targets.shares > 0
    chosen = logits[targets.rows, torch.arange(len(known), device=logits.device).unsqueeze(1)]  # (R, N, C)
    if watched.gathers:
        return *found, cross_entropy, *gathered(chosen, torch.where(known, targets.labels, -1))
    counts = confusion(chosen.argmax(-1), targets.labels, logits.shape[2], known)
    return *found, cross_entropy, counts.flatten(1).T


def gathered(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return classes (N, R), -1 for none, and logits (N * C, R), of runs that come first: (R, N, C) and (R, N)."""
    return labels.T, logits.flatten(1).T


def watched_values(score: Score, classes: int, loss: FloatArray, measured: FloatArray) -> FloatArray:
    """Return a score of each run after an epoch, shape (R,), from what was measured beside its loss.

    ``measured`` holds a column for each run: the cross entropy, then the confusion matrix or, for a score that gathers,
    the classes and logits of the nodes. The GPU sends these numbers with the losses, so that nobody waits for it.
    """
    cross_entropy, facts, runs = measured[0], measured[1:].T, len(loss)
    if not score.gathers:
        return score.measure(Tally(facts.reshape(runs, classes, classes), cross_entropy, loss), ())
    nodes = facts.shape[1] // (classes + 1)
    labels = torch.from_numpy(facts[:, :nodes]).long()
    logits = torch.from_numpy(facts[:, nodes:].reshape(runs, nodes, classes))
    some = ((each[own >= 0], own[own >= 0]) for each, own in zip(logits, labels, strict=True))
    return score.measure(Tally(np.zeros((runs, classes, classes)), cross_entropy, loss), some)


def measure(
    logits: Tensor, targets: Targets, decay: Tensor | float = 0.0, part: str = "", thresholds: FloatArray | None = None
) -> dict[str, FloatArray]:
    """Return every score of each run by name, each of shape (R,), NaN for a run without nodes.

    The logits have shape (p, R, C); ``decay`` is what the loss has beside the cross entropy, shape (R,). Of the part
    ``"val"`` the cross entropy of calibrated logits is measured too: it says how well a network ranks the classes,
    whatever its confidence. Of several labels a node that part also tells the ``thresholds`` (R,) of the others.
    """
    cross_entropy, _ = scores(logits, targets)
    if not targets.classes:
        return _of_task(logits, targets, cross_entropy + decay, part, thresholds)
    losses = torch.stack([cross_entropy.double(), (cross_entropy + decay).double()]).cpu().numpy()
    known = targets.shares > 0
    run = torch.arange(len(known), device=logits.device).unsqueeze(1)
    chosen = logits[targets.rows, run]  # (R, N, C)
    counts = confusion(chosen.argmax(-1), targets.labels, logits.shape[2], known)
    found = measured(
        Tally(counts.cpu().numpy(), *losses),
        lambda: ((chosen[at, own], targets.labels[at, own]) for at, own in enumerate(known)),
    )
    if part == "val":
        calibration = CALIBRATIONS["temperature"]
        calibrated = calibration.apply(logits, calibration.fit(logits, targets))
        found[CALIBRATED] = exact_cross_entropy(calibrated, targets).cpu().numpy()
    return found


def _of_task(
    logits: Tensor, targets: Targets, loss: Tensor, part: str, thresholds: FloatArray | None
) -> dict[str, FloatArray]:
    """Return every score of a task without classes."""
    task, known = targets.task, (targets.shares > 0).cpu()
    chosen = logits[targets.rows, torch.arange(len(known), device=logits.device).unsqueeze(1)].double().cpu()
    labels, standards = targets.labels.double().cpu(), targets.standards.cpu() if targets.standards is not None else ()
    found = {score.name: np.full(len(known), np.nan) for score in registered_scores(task.name)}
    limits = np.full(len(known), 0.5) if thresholds is None else thresholds
    if task.decided and part == "val":
        found[THRESHOLD] = limits
    for at, own in enumerate(known):
        if own.any():
            center, scale = map(float, standards[at])
            answers, wanted = chosen[at, own].squeeze(-1) * scale + center, labels[at, own] * scale + center
            if THRESHOLD in found:
                limits[at] = task.threshold(task.answers(answers.numpy(), (0.0, 1.0)), wanted.numpy())
            for score in registered_scores(task.name):
                found[score.name][at] = score_in(task, score, answers.reshape(wanted.shape), wanted, limits[at])
            found["loss"][at] = float(loss[at])
    return found


def score_in(task: Task, score: Score, outputs: Any, wanted: Any, threshold: float = 0.5) -> float:
    """Return a score in a task without classes, of outputs as scores take them: NaN where it is not defined."""
    if not score.fits(task.name):
        return math.nan
    given, known = (torch.as_tensor(np.asarray(each), dtype=torch.float64) for each in (outputs, wanted))
    if score.name in task.decided:
        given = given - float(special.logit(threshold))
    return float(score.by_task[task.name](given, known))


def score_of(
    score: Score, log_probabilities: FloatArray, labels: AnyArray, task: Task | None = None, threshold: float = 0.5
) -> float:
    """Return a score of log p (N, C) on nodes of known class (N,); NaN where it is not defined.

    In another task, of what :meth:`Task.scored` returns, and of what is known; labels are said above a threshold.
    """
    if task is not None and task.name != "classification":
        return score_in(task, score, log_probabilities.reshape(labels.shape), labels, threshold)
    logits, classes = torch.from_numpy(np.ascontiguousarray(log_probabilities)), torch.from_numpy(np.asarray(labels))
    counts = confusion(logits.argmax(-1)[None], classes[None], logits.shape[1]).numpy()
    loss = -logits.gather(1, classes[:, None]).mean(0).numpy()
    return float(score.measure(Tally(counts, loss, loss), [(logits, classes)])[0])


def temperature_of(logits: FloatArray, labels: AnyArray, task: Task | None = None, *, least: int = FEWEST) -> float:
    """Return the temperature at which the cross entropy of logits (N, C) on nodes of known class is least.

    Of several labels a node likewise; numbers have none, which is 1, and so it is where fewer nodes are known than the
    ``least``, which would make probabilities of 0 and 1.
    """
    if len(labels) < least:
        return 1.0
    if task is not None and task.name != "classification":
        return _task_temperature(logits, labels, task)
    rows = np.arange(len(labels))
    targets = Targets.of([rows], np.asarray(labels), None, torch.device("cpu"), torch.float64)
    given = torch.from_numpy(np.asarray(logits, dtype=np.float64))
    return float(_temperature.fit(given[:, None], targets)["temperature"][0])


def _task_temperature(logits: FloatArray, wanted: AnyArray, task: Task) -> float:
    if task.cost != "cross_entropy":
        return 1.0
    given, known = torch.from_numpy(np.asarray(logits, dtype=np.float64)), torch.from_numpy(np.asarray(wanted))
    losses = [float(task.losses(given / heat, known).mean()) for heat in _temperature.TRIED]
    return float(_temperature.TRIED[int(np.argmin(losses))])


def run_outputs(logits: Tensor, targets: Targets, nodes: Sequence[IntArray]) -> Iterator[FloatArray]:
    """Yield the logits (N, C) of each run's own nodes, from those of all rows and runs, shape (p, R, C)."""
    for at, own in enumerate(nodes):
        yield logits[targets.rows[at, : len(own)], at].float().cpu().numpy()


def measured(tally: Tally, runs: Callable[[], Iterable[tuple[Tensor, Tensor]]]) -> dict[str, FloatArray]:
    """Return every score of each run by name, of its tally and of its logits (N, C) and classes (N,)."""
    tested = tally.confusion.sum(axis=(1, 2)) > 0
    some = dataclasses.replace(tally, **{name: value[tested] for name, value in vars(tally).items()})
    found = {score.name: np.full(len(tested), np.nan) for score in registered_scores()}
    for score in registered_scores():
        own = (run for run, known in zip(runs(), tested, strict=True) if known)
        found[score.name][tested] = score.measure(some, own)
    return found


def confusion(predicted: Tensor, labels: Tensor, classes: int, known: Tensor | None = None) -> Tensor:
    """Return how many (known) nodes of each class are predicted as each class, shape (R, C, C), in float64."""
    runs = len(labels)
    run = torch.arange(runs, device=labels.device).unsqueeze(1)
    place = (run * classes + labels) * classes + predicted
    counts = torch.zeros(runs * classes**2, dtype=torch.float64, device=labels.device)
    ones = torch.ones_like(place) if known is None else known  # of fixed shape: a GPU need not be waited for
    return counts.scatter_add_(0, place.flatten(), ones.double().flatten()).view(runs, classes, classes)
