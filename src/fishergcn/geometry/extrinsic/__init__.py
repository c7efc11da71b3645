"""The extrinsic geometry: how a network responds when its graph, or a layer of its weights, changes.

A network predicts p_i = softmax(logits_i) at each node i. With J_i the derivative of logits_i in some
parameters and F_i the metric of predictions (diag p_i - p_i p_iᵀ, or its empirical or Monte Carlo version),

    G^E(φ)   = (1/N) Σ_i J_iᵀ F_i J_i, J_i = ∂logits_i/∂φ        :func:`fisher_information`
    G^E(W^l) = the same with J_i = ∂logits_i/∂vec W^l            :func:`weight_fisher`
    δ        = -η (G^E(W^l) + γI)^-1 ∇ℓ                          :func:`natural_gradient_step`
    δ of all layers at once, as an optimizer                     :class:`NaturalGradient`
    G^E v    = μ M v, M the Bures metric of the graph            :func:`adversarial_direction`
    ℓ(tv) - ℓ(0) at equal Bures distance                         :func:`sharpness`
    ∂ℓ/∂a_ij, ∂ℓ/∂ã_ij, ∂log p/∂a_ij of one prediction           :func:`link_sensitivity`

What is found about a trained model can be kept as a :class:`GeometryRecord`, from which a report draws.

The network is that of a :class:`fishergcn.TrainedModel`, of any depth, evaluated without dropout in float64.
"""

from __future__ import annotations

from fishergcn.geometry.extrinsic._direction import (
    AdversarialDirection,
    Sharpness,
    adversarial_direction,
    intrinsic_metric,
    sharpness,
    typical_distance,
)
from fishergcn.geometry.extrinsic._fisher import fisher_information
from fishergcn.geometry.extrinsic._optimizer import NaturalGradient
from fishergcn.geometry.extrinsic._record import GeometryRecord, NodeLinks, node_links
from fishergcn.geometry.extrinsic._sensitivity import LinkSensitivity, check_links, link_sensitivity
from fishergcn.geometry.extrinsic._weights import (
    NaturalGradientStep,
    WeightFisher,
    natural_gradient_step,
    weight_fisher,
)

__all__ = [
    "GeometryRecord", "NaturalGradient", "adversarial_direction", "fisher_information", "link_sensitivity",
    "natural_gradient_step", "sharpness", "weight_fisher",
]  # fmt: skip

SHARED = (
    "AdversarialDirection", "LinkSensitivity", "NaturalGradientStep", "NodeLinks", "Sharpness", "WeightFisher",
    "check_links", "intrinsic_metric", "node_links", "typical_distance",
)  # fmt: skip
