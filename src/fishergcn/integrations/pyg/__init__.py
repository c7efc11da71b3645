"""Adversaries for models of PyTorch Geometric: keep the model and the loop, add a few lines."""

from __future__ import annotations

from fishergcn.integrations.pyg._adversary import BuresAdversary
from fishergcn.integrations.pyg._attached import Diagnosis, LayerAdversary
from fishergcn.integrations.pyg._consistency import ConsistencyLoss
from fishergcn.integrations.pyg._encoding import AddSpectralEncoding
from fishergcn.integrations.pyg._features import FeatureAdversary
from fishergcn.integrations.pyg._nodes import NodeAdversary
from fishergcn.integrations.pyg._stored import AddBuresSpectrum

__all__ = [
    "AddBuresSpectrum", "AddSpectralEncoding", "BuresAdversary", "ConsistencyLoss", "Diagnosis", "FeatureAdversary",
    "LayerAdversary", "NodeAdversary",
]  # fmt: skip
