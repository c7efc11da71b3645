"""Scores that count every class alike, from the table of true and predicted classes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.types import FloatArray
from fishergcn.training._objective import Targets, scores

MEASURED = ("accuracy", "balanced_accuracy", "macro_f1", "loss", "cross_entropy")


def measure(logits: Tensor, targets: Targets, decay: Tensor | float = 0.0) -> dict[str, FloatArray]:
    """Return every score of each run by name, each of shape (R,), NaN for a run without nodes.

    Parameters
    ----------
    logits
        Shape (p, R, C).
    targets
        The labeled nodes of the R runs.
    decay
        What the loss has beside the cross entropy, shape (R,).

    Examples
    --------
    >>> targets = Targets(torch.tensor([[0, 1]]), torch.tensor([[0, 1]]), torch.full((1, 2), 0.5))
    >>> found = measure(torch.tensor([[[0.0, 9.0]], [[0.0, 9.0]]]), targets)
    >>> found["balanced_accuracy"], found["macro_f1"].round(3)
    (array([0.5]), array([0.333]))
    """
    cross_entropy, accuracy = scores(logits, targets)
    known = torch.stack([accuracy, (cross_entropy + decay).double(), cross_entropy.double()]).cpu().numpy()
    values = (known[0], *class_scores(confusion(logits, targets).cpu().numpy()), *known[1:])
    tested = (targets.shares > 0).any(1).cpu().numpy()
    return {name: np.where(tested, value, np.nan) for name, value in zip(MEASURED, values, strict=True)}


def calibrated_cross_entropy(logits: Tensor, targets: Targets) -> FloatArray:
    """Return the cross entropy of each run at the temperature that suits its nodes best, shape (R,).

    min_T (1/N) Σ_i -log softmax(z_i / T)_{y_i}, over 33 temperatures between 1/8 and 8: how well a network ranks the
    classes, whatever its confidence.

    Parameters
    ----------
    logits
        Shape (p, R, C).
    targets
        The labeled nodes of the R runs.
    """
    run = torch.arange(logits.shape[1], device=logits.device).unsqueeze(1)
    chosen = logits[targets.rows, run].double()  # (R, N, C)
    labels = targets.labels.unsqueeze(-1)
    found = [
        -(torch.log_softmax(chosen / temperature, -1).gather(-1, labels)[..., 0] * targets.shares).sum(1)
        for temperature in np.logspace(-3, 3, 33, base=2.0)
    ]
    best: FloatArray = torch.stack(found).amin(0).cpu().numpy()
    return best


def confusion(logits: Tensor, targets: Targets) -> Tensor:
    """Return how many nodes of each class are predicted as each class, by run, shape (R, C, C), in float64.

    Parameters
    ----------
    logits
        Shape (p, R, C).
    targets
        The labeled nodes of the R runs.
    """
    runs, classes = logits.shape[1:]
    run = torch.arange(runs, device=logits.device).unsqueeze(1)
    predicted = logits[targets.rows, run].argmax(-1)
    place = (run * classes + targets.labels) * classes + predicted
    counts = torch.bincount(place[targets.shares > 0], minlength=runs * classes**2)
    return counts.view(runs, classes, classes).double()


def class_scores(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return balanced accuracy and macro F1 of each run, two of shape (R,), NaN without nodes.

        balanced accuracy = mean_c hits_c / true_c,   macro F1 = mean_c 2 hits_c / (true_c + predicted_c)

    over the classes c that have nodes.

    Parameters
    ----------
    counts
        See :func:`confusion`.

    Examples
    --------
    >>> class_scores(np.array([[[3.0, 1.0], [0.0, 2.0]]]))
    (array([0.875]), array([0.82857143]))
    """
    hits, true, predicted = np.diagonal(counts, axis1=1, axis2=2), counts.sum(axis=2), counts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        classes = (true > 0).sum(axis=1)
        recall = np.divide(hits, true, out=np.zeros_like(true), where=true > 0)
        f1 = np.divide(2 * hits, true + predicted, out=np.zeros_like(true), where=true > 0)
        return recall.sum(axis=1) / classes, f1.sum(axis=1) / classes
