"""Consistency on unlabeled nodes, for any model: what helped where the perturbation did not."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fishergcn._base.checks import check_real
from fishergcn.errors import InputError
from fishergcn.training import consistency


class ConsistencyLoss(nn.Module):
    """λ (1/M) Σ_m mean_i ‖p_im - sharpen(p̄_i, τ)‖², the consistency term of GRAND (Feng et al., NeurIPS 2020).

    p_im = softmax(logits of node i in pass m), p̄_i is their mean over the M passes of a step, and sharpen(p, τ) ∝
    p^{1/τ}; no gradient flows through it. All nodes count, labeled or not: add it to the mean loss of the labeled ones.
    It is the term of the methods with the suffix ``-c``.

    Parameters
    ----------
    weight : float
        λ.
    temperature : float
        τ, above 0; 1 leaves p̄ as it is.

    Examples
    --------
    >>> import fishergcn, torch
    >>> from torch_geometric.nn import GCN
    >>> data, consistent = fishergcn.datasets.load("cora").to_pyg(), ConsistencyLoss()
    >>> model = GCN(data.num_features, hidden_channels=16, num_layers=2, out_channels=7, dropout=0.5)
    >>> passes = [model(data.x, data.edge_index) for _ in range(4)]  # each with its own dropout masks
    >>> labeled = torch.stack(passes).mean(0).log_softmax(-1)[data.train_mask]
    >>> loss = torch.nn.functional.nll_loss(labeled, data.y[data.train_mask]) + consistent(passes)
    >>> loss.backward()
    """

    def __init__(self, weight: float = 0.7, temperature: float = 0.6) -> None:
        super().__init__()
        self.weight = check_real("weight", weight, minimum=0.0)
        self.temperature = check_real("temperature", temperature, above=0.0)

    def forward(self, passes: Sequence[Tensor] | Tensor) -> Tensor:
        """Return the term, a scalar.

        Parameters
        ----------
        passes : Tensor of shape (M, n, classes), or M of shape (n, classes)
            The logits of M ≥ 2 passes over the same nodes, each with its own dropout masks or its own perturbed graph.
        """
        if not isinstance(passes, Tensor | Sequence) or not all(isinstance(each, Tensor) for each in passes):
            raise InputError(f"passes must be a tensor or several, got {type(passes).__name__}.")
        shapes = {tuple(each.shape) for each in passes}
        if len(passes) < 2 or len(shapes) != 1 or len(next(iter(shapes))) != 2:
            got = ", ".join(map(str, sorted(shapes))) or "none"
            raise InputError(
                "passes must be the logits of at least 2 passes, each of the same shape (n, classes), got "
                f"{len(passes)} of shape {got}."
            )
        logits = torch.stack(list(passes), dim=1)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return self.weight * consistency(logits, 1, self.temperature).squeeze(0)

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"weight={self.weight:g}, temperature={self.temperature:g}"
