"""A calibration by temperature: softmax(z / T), with the T of 33 between 1/8 and 8 at which the cross entropy is least.

Another calibration is another such module, with ``fit`` and ``apply``, in ``_metrics.CALIBRATIONS``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fishergcn.training._objective import Targets, exact_cross_entropy

TRIED = np.logspace(-3, 3, 33, base=2.0)


def fit(logits: Tensor, targets: Targets) -> Mapping[str, Tensor]:
    """Return T of each run, shape (R,), from logits (p, R, C)."""
    tried = torch.tensor(TRIED, device=logits.device)
    found = [exact_cross_entropy(apply(logits, {"temperature": each}), targets) for each in tried]
    return {"temperature": tried[torch.stack(found).argmin(0)].unsqueeze(-1)}


def apply(logits: Tensor, values: Mapping[str, Tensor]) -> Tensor:
    """Return the calibrated logits, in float64."""
    return logits.double() / values["temperature"]
