"""The adversary: bounds of its shape, ascent in ξ, draws that repeat."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn.errors import InputError
from fishergcn.perturbation import Neighborhood, SpectralAdversary
from fishergcn.streams import noise_block


@pytest.fixture(scope="module")
def neighborhood():
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((40, 40)) < 0.15, 1)
    return Neighborhood(fishergcn.renormalized((links | links.T).astype(float)), rank=6, radius=0.4)


def loss_of(adversary, seed=5):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(40, 3, dtype=torch.float64, generator=generator)
    return ((adversary() @ z) ** 3).mean()


def test_training_gives_a_batch_and_evaluation_the_plain_graph(neighborhood):
    adversary = SpectralAdversary(neighborhood, samples=7)
    assert adversary().batch_shape == (7,)
    assert adversary.draw().shape == (7, 6)
    plain = adversary.eval()()
    assert plain.batch_shape == ()
    assert torch.equal(plain.to_dense(), neighborhood.propagation.to_dense())


def test_xi_starts_glorot_uniform(neighborhood):
    bound = math.sqrt(6 / (6 + 1))
    drawn = torch.cat([SpectralAdversary(neighborhood, seed=seed).xi.detach() for seed in range(200)])
    assert drawn.shape == (1200, 1)
    assert 0.99 * bound < drawn.abs().max() <= bound
    assert abs(float(drawn.var()) - bound**2 / 3) < 0.03


def test_draw_is_reparameterized(neighborhood):
    adversary = SpectralAdversary(neighborhood, seed=3)
    generator = torch.Generator()
    generator.set_state(adversary.get_generator_state())
    e = neighborhood.noise(5, generator)
    expected = 0.4 * torch.sigmoid(adversary.xi.squeeze(-1)) * e / neighborhood.projected_spectrum.sqrt()
    torch.testing.assert_close(adversary.draw(), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("value", [-1e4, -40.0, 0.0, 40.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_stays_strictly_inside(neighborhood, value, dtype):
    adversary = SpectralAdversary(neighborhood).to(dtype)
    with torch.no_grad():
        adversary.xi.fill_(value)
    assert (adversary.shape > 0).all()
    assert (adversary.shape < 0.4).all()
    assert adversary.shape.shape == (6,)


def test_radius_zero_has_no_shape(neighborhood):
    still = Neighborhood.from_spectrum(neighborhood.propagation.scipy, neighborhood.spectrum, radius=0.0)
    adversary = SpectralAdversary(still)
    assert torch.count_nonzero(adversary.shape) == 0
    assert torch.count_nonzero(adversary().coefficients) == 0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_one_step_climbs_in_xi_and_descends_in_the_weights(neighborhood, optimizer):
    adversary = SpectralAdversary(neighborhood)
    weights = torch.nn.Parameter(torch.linspace(0.5, 1.5, 3, dtype=torch.float64))
    xi_before, w_before = adversary.xi.detach().clone(), weights.detach().clone()
    step = optimizer([{"params": [weights]}, adversary.parameter_group()], lr=1e-3)
    z = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ((adversary() @ z @ weights) ** 2).mean().backward()
    step.step()
    assert adversary.xi.grad.abs().min() > 0
    assert torch.equal((adversary.xi.detach() - xi_before).sign(), adversary.xi.grad.sign())
    assert torch.equal((weights.detach() - w_before).sign(), -weights.grad.sign())


def test_gradient_of_xi_is_that_of_finite_differences(neighborhood):
    adversary = SpectralAdversary(neighborhood)
    state = adversary.get_generator_state()
    loss_of(adversary).backward()
    step = 1e-5
    for index in range(6):
        sides = []
        for sign in (1, -1):
            adversary.set_generator_state(state)
            with torch.no_grad():
                adversary.xi[index] += sign * step
                sides.append(float(loss_of(adversary)))
                adversary.xi[index] -= sign * step
        slope = (sides[0] - sides[1]) / (2 * step)
        assert math.isclose(slope, float(adversary.xi.grad[index]), rel_tol=1e-5, abs_tol=1e-9)


def test_parameter_group(neighborhood):
    adversary = SpectralAdversary(neighborhood)
    group = adversary.parameter_group()
    assert group == {"params": [adversary.xi], "maximize": True, "weight_decay": 0.0}
    assert adversary.parameter_group(lr=0.5)["lr"] == 0.5


def test_without_adversary_xi_stays(neighborhood):
    adversary = SpectralAdversary(neighborhood, adversarial=False)
    weights = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    before = adversary.xi.clone()
    step = torch.optim.Adam([{"params": [weights]}, adversary.parameter_group()], lr=0.1)
    (weights * loss_of(adversary)).backward()
    step.step()
    assert torch.equal(adversary.xi, before)
    twin = SpectralAdversary(neighborhood)
    assert torch.equal(twin.xi, before)


def test_without_adversary_the_noise_is_isotropic(neighborhood):
    """ϕ = ε·1, whatever ξ is."""
    for keys, rows in ((None, ()), (torch.tensor([7, 8]), (2,))):
        adversary = SpectralAdversary(neighborhood, adversarial=False, keys=keys)
        assert torch.equal(adversary.shape, torch.full((*rows, 6), 0.4, dtype=torch.float64))
        assert not adversary.draw(0).requires_grad
    plain = SpectralAdversary(neighborhood, adversarial=False)
    state = plain.get_generator_state()
    generator = torch.Generator()
    generator.set_state(state)
    torch.testing.assert_close(plain.draw(), neighborhood.sample(5, generator), rtol=0, atol=0)


class TestRunsSideBySide:
    KEYS = torch.tensor([3, 5, 11])

    def test_shapes(self, neighborhood):
        adversary = SpectralAdversary(neighborhood, samples=4, keys=self.KEYS)
        assert adversary.xi.shape == (3, 6)
        assert adversary.shape.shape == (3, 6)
        assert adversary.noise(0).shape == adversary.draw(0).shape == (3, 4, 6)
        assert adversary(0).batch_shape == (3, 4)
        assert adversary.eval()(0).batch_shape == ()

    def test_company_and_order_do_not_matter(self, neighborhood):
        together = SpectralAdversary(neighborhood, samples=4, keys=self.KEYS)
        for index in range(3):
            alone = SpectralAdversary(neighborhood, samples=4, keys=self.KEYS[index : index + 1])
            for step in (60, 0, 7):
                torch.testing.assert_close(alone.draw(step)[0], together.draw(step)[index], rtol=1e-14, atol=0)

    def test_noise_is_that_of_the_streams(self, neighborhood):
        adversary = SpectralAdversary(neighborhood, samples=4, keys=self.KEYS)
        expected = noise_block(self.KEYS, range(40, 61), 4, 6, "uniform")
        for step in (40, 49, 60):
            np.testing.assert_array_equal(adversary.noise(step), expected[step - 40])

    @pytest.mark.parametrize("adversarial", [True, False])
    def test_runs_leave(self, neighborhood, adversarial):
        options = {"samples": 4, "adversarial": adversarial}
        adversary = SpectralAdversary(neighborhood, **options, keys=self.KEYS)
        adversary.draw(0)
        adversary.keep(torch.tensor([0, 2]))
        rest = SpectralAdversary(neighborhood, **options, keys=self.KEYS[[0, 2]])
        assert adversary.xi.requires_grad == adversarial
        for step in (0, 99):
            assert torch.equal(adversary.draw(step), rest.draw(step))

    def test_refusals(self, neighborhood):
        with pytest.raises(InputError, match="needs the number of the step, got None"):
            SpectralAdversary(neighborhood, keys=self.KEYS)()
        with pytest.raises(InputError, match="only an adversary with keys has runs to keep"):
            SpectralAdversary(neighborhood).keep(torch.tensor([0]))


@pytest.mark.parametrize("samples", [4, 4000])
def test_noise_does_not_depend_on_how_far_ahead_it_is_drawn(neighborhood, samples):
    """Of few samples many steps are drawn at once, of many one."""
    keys = torch.tensor([7, 8])
    wanted = noise_block(keys, range(6), samples, 6, "uniform")
    adversary = SpectralAdversary(neighborhood, samples=samples, keys=keys)
    for step in range(5):
        np.testing.assert_array_equal(adversary.noise(step), wanted[step])
        adversary.draw_ahead(step + 1)
    adversary.keep(torch.tensor([1]))
    np.testing.assert_array_equal(adversary.noise(5), wanted[5, 1:])


def test_draws_repeat_and_resume(neighborhood):
    first, second = SpectralAdversary(neighborhood, seed=8), SpectralAdversary(neighborhood, seed=8)
    assert torch.equal(first.draw(), second.draw())
    state, weights = first.get_generator_state(), first.state_dict()
    expected = first.draw()
    other = SpectralAdversary(neighborhood, seed=9)
    assert not torch.equal(other.draw(), expected)
    other.load_state_dict(weights)  # the state of the draws is in it
    assert torch.equal(other.draw(), expected)
    other.set_generator_state(state)
    assert torch.equal(other.draw(), expected)
    assert set(weights) == {"xi", "_extra_state"}
    other.load_state_dict({"xi": weights["xi"]})  # as earlier versions saved it


def test_the_radius_can_be_set(neighborhood):
    adversary = SpectralAdversary(neighborhood.to(), seed=8)
    state, shape = adversary.get_generator_state(), adversary.shape.detach()
    expected = adversary.draw()
    adversary.radius = 2 * adversary.radius
    assert adversary.radius == adversary.neighborhood.radius == 2 * neighborhood.radius
    adversary.set_generator_state(state)
    torch.testing.assert_close(adversary.draw(), 2 * expected)
    torch.testing.assert_close(adversary.shape.detach(), 2 * shape)
    with pytest.raises(InputError, match="radius must be finite, got nan"):
        adversary.radius = float("nan")


def test_copies_draw_the_same(neighborhood):
    adversary = SpectralAdversary(neighborhood)
    twin = copy.deepcopy(adversary)
    assert torch.equal(twin.draw(), adversary.draw())
    assert twin.xi is not adversary.xi


def test_network_precision_does_not_change_the_draws(neighborhood):
    double = SpectralAdversary(neighborhood)
    single = SpectralAdversary(neighborhood.to(dtype=torch.float32))
    assert torch.equal(double.draw(), single.draw())
    assert single().dtype == torch.float32


def test_no_samples_are_refused(neighborhood):
    with pytest.raises(InputError, match="samples must be at least 1, got 0"):
        SpectralAdversary(neighborhood, samples=0)


@pytest.mark.parametrize("options", [{}, {"scale": "trace"}, {"metric": "log-det"}], ids=str)
def test_the_gradient_in_closed_form_is_that_of_autograd(neighborhood, options):
    around = Neighborhood(neighborhood.propagation.scipy, rank=6, radius=0.4, **options)
    adversary = SpectralAdversary(around, samples=3, keys=torch.tensor([7, 8]))
    with torch.no_grad():
        adversary.xi[1, 2] = 1e4  # where the shape is cut off
    noise = adversary.noise(4)
    phi = adversary.draw(noise=noise)
    operator = around.operator(phi)
    direction = torch.randn(operator.coefficients.shape, generator=torch.Generator().manual_seed(1)).double()
    [expected] = torch.autograd.grad(operator.coefficients, [adversary.xi], direction)
    found = adversary.xi_gradient(direction, noise, phi.detach())
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
