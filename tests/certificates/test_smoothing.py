"""Smoothed certificates: the chart's radius holds the ball, and certified classes do not change."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn.certificates import certify_smoothed, chart_radius
from fishergcn.errors import InputError


@pytest.fixture(scope="module")
def around():
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((25, 25)) < 0.2, 1)
    return fishergcn.Neighborhood(fishergcn.renormalized(links + links.T.astype(float)), rank=4, radius=0.0)


def test_the_chart_holds_the_ball(around):
    rng = np.random.default_rng(1)
    shares = around.projected_spectrum.numpy()
    for radius in (1e-4, 0.05, 0.15):
        chart = chart_radius(around, radius)
        largest = 0.0
        for direction in rng.normal(size=(60, 4)):
            phi = direction / np.sqrt(shares)
            low, high = 0.0, 100.0
            for _ in range(60):
                middle = (low + high) / 2
                inside = float(around.distance(torch.as_tensor(middle * phi))) <= radius
                low, high = (middle, high) if inside else (low, middle)
            centered = low * (phi - shares @ phi)  # φ and φ + a·1 are one graph
            largest = max(largest, float(np.linalg.norm(np.sqrt(shares) * centered)))
        assert largest <= chart
        assert largest > 0.6 * chart
    assert math.isinf(chart_radius(around, 1.0))


def test_smoothed_classes_do_not_change_within_the_radius(around):
    """A function of one coordinate has a smoothed class in closed form."""
    shares = around.projected_spectrum.numpy()

    def logits(phi):
        x = torch.sqrt(torch.as_tensor(shares)) * phi
        return torch.stack([torch.full((25,), 0.3, dtype=torch.float64), x[0].expand(25)], dim=1)

    found = certify_smoothed(logits, 0.02, neighborhood=around, samples=500, sigma=0.2)
    probability = 0.5 * (1 + math.erf(0.3 / 0.2 / math.sqrt(2)))
    assert found.classes.tolist() == [0] * 25
    assert found.votes[0] / 500 == pytest.approx(probability, abs=0.05)
    # The class changes at x_0 = 0.3: no certified radius of the chart reaches it.
    assert chart_radius(around, float(found.radii.max())) <= 0.3
    assert found.certified.all() == (chart_radius(around, 0.02) < 0.2 * 1.2)
    assert found.confidence == 0.999


def test_bad_input(around):
    with pytest.raises(InputError, match=r"radius must be below .* for smoothing"):
        certify_smoothed(lambda phi: torch.zeros(25, 2), 2.0, neighborhood=around)
    with pytest.raises(InputError, match="model must be a TrainedModel, or a function"):
        certify_smoothed(lambda phi: torch.zeros(25, 2), 0.1)
    with pytest.raises(InputError, match=r"logits of shape \(25, C\), got \(3, 2\)"):
        certify_smoothed(lambda phi: torch.zeros(3, 2), 0.01, neighborhood=around)


def test_a_model_of_pytorch_geometric():
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import GCNConv

    from fishergcn.integrations.pyg import BuresAdversary

    rng = np.random.default_rng(0)
    links = np.argwhere(np.triu(rng.random((20, 20)) < 0.3, 1))
    graph = fishergcn.Graph.from_edges(links, features=rng.normal(size=(20, 3)), labels=np.arange(20) % 2)
    data = graph.to_pyg()
    torch.manual_seed(0)
    model = GCNConv(3, 2).eval()
    adversary = BuresAdversary(data, rank=3, radius=0.0).attach(model)

    def logits(phi):
        with adversary.perturbed(phi):
            return model(data.x.float(), data.edge_index)

    found = certify_smoothed(logits, 0.01, neighborhood=adversary.neighborhood, samples=120)
    assert found.samples == 120
    assert found.certified.sum() > 10
    assert (found.classes[found.certified] == logits(torch.zeros(3)).argmax(1).numpy()[found.certified]).all()
