"""Normalization of hidden units beside torch's own modules."""

import pytest
import torch

from fishergcn.nn import Norm, moving_averages

RUNS, SAMPLES, NODES, WIDTH = 2, 3, 20, 5


def norm_of(kind: str) -> Norm:
    rng = torch.Generator().manual_seed(0)
    found = [torch.rand(RUNS, WIDTH, generator=rng, dtype=torch.float64) + 0.5 for _ in range(4)]
    return Norm(*found[: 4 if kind == "batch" else 2])


def values_of(samples: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(1)
    return 2 * torch.randn(NODES, RUNS * samples, WIDTH, generator=rng, dtype=torch.float64) + 1


def modules_of(norm: Norm, samples: int) -> list[torch.nn.BatchNorm1d]:
    """One module of torch for each sample of each run, which starts from what the run has kept."""
    found = []
    for entry in range(RUNS * samples):
        module, run = torch.nn.BatchNorm1d(WIDTH, dtype=torch.float64), entry // samples
        with torch.no_grad():
            for name, each in zip(("weight", "bias", "running_mean", "running_var"), norm, strict=True):
                getattr(module, name).copy_(each[run])
        found.append(module)
    return found


@pytest.mark.parametrize("samples", [1, SAMPLES])
@pytest.mark.parametrize("training", [True, False])
def test_over_nodes_each_sample_is_what_a_module_of_torch_makes_of_it(samples, training):
    norm, values = norm_of("batch"), values_of(samples)
    modules = [each.train(training) for each in modules_of(norm, samples)]
    expected = torch.stack([each(values[:, entry]) for entry, each in enumerate(modules)], dim=1)
    torch.testing.assert_close(norm.of(values, training=training), expected)


@pytest.mark.parametrize("samples", [1, SAMPLES])
def test_a_step_keeps_the_mean_over_the_samples_and_nothing_else_does(samples):
    norm, values = norm_of("batch"), values_of(samples)
    before = [each.clone() for each in norm]
    norm.of(values, training=True)
    with moving_averages():
        norm.of(values, training=False)
    for each, same in zip(norm, before, strict=True):
        assert torch.equal(each, same)
    modules = modules_of(norm, samples)
    for entry, each in enumerate(modules):
        each(values[:, entry])
    with moving_averages():
        norm.of(values, training=True)
    for kept, name in ((norm.mean, "running_mean"), (norm.variance, "running_var")):
        every = torch.stack([getattr(each, name) for each in modules]).view(RUNS, samples, WIDTH)
        torch.testing.assert_close(kept, every.mean(1))


def test_over_units_it_is_that_of_torch():
    norm, values = norm_of("layer"), values_of(SAMPLES)
    plain = torch.nn.functional.layer_norm(values, (WIDTH,)).view(NODES, RUNS, SAMPLES, WIDTH)
    expected = plain * norm.scale[:, None] + norm.shift[:, None]
    torch.testing.assert_close(norm.of(values, training=True).view_as(expected), expected)
