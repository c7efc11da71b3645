"""The transforms of torch.func through GCN and the operators, against the same transforms of plain dense torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap
from torch.utils._pytree import tree_leaves

from fishergcn import renormalized
from fishergcn.nn import GCN, Dropout, MappedDropout, full_view, logits, make_features
from fishergcn.operators import (
    BlockOperator,
    DenseOperator,
    IdentityOperator,
    LinkOperator,
    PolynomialOperator,
    SparseMatrix,
    SparsePlusLowRank,
)
from fishergcn.perturbation import CongruenceNeighborhood

NODES, FEATURES, CLASSES, MODELS = 8, 5, 3, 3
FORMS = ("tensor", "scipy", "prepared")
TRAINING = pytest.mark.filterwarnings("ignore:There is a performance drop")


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def matrix():
    links = np.triu(np.random.default_rng(0).random((NODES, NODES)) < 0.4, 1) * 1.0
    return SparseMatrix.from_scipy(renormalized(links + links.T))


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(1)
    return torch.tensor((rng.random((NODES, FEATURES)) < 0.6) * rng.random((NODES, FEATURES)))


def given(x, form):
    stored = sparse.csr_array(x.numpy())
    forms = {"tensor": x, "scipy": stored, "prepared": make_features(stored, scaling="none", dtype=torch.float64)}
    return forms[form]


def network(seed=0, training=False):
    model = GCN(
        FEATURES, (6, 4), CLASSES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, bias=True
    )
    with torch.no_grad():
        for place, each in enumerate(model.biases):
            each.copy_(normal(*each.shape, seed=10 * seed + place))
    return model.train(training)


def state(model):
    return {name: each.detach() for name, each in model.named_parameters()}


def plain(parameters, x, operator):
    """The same network in torch's own operations."""
    hidden = x
    for layer in range(3):
        hidden = torch.relu(hidden) if layer else hidden
        hidden = operator @ (hidden @ parameters[f"weights.{layer}"]) + parameters[f"biases.{layer}"]
    return hidden


def equal(found, expected, tolerance=1e-11):
    ours, theirs = tree_leaves(found), tree_leaves(expected)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert max(each.abs().max() for each in theirs) > 1e-3


def cubed(function):
    return lambda *arguments: function(*arguments).pow(3).sum()


TRANSFORMS = {
    "grad": lambda f: grad(cubed(f)),
    "vjp": lambda f: lambda p: vjp(f, p)[1](torch.ones(NODES, CLASSES, dtype=torch.float64)),
    "jvp": lambda f: lambda p: jvp(f, (p,), ({name: torch.ones_like(each) for name, each in p.items()},)),
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "hessian": lambda f: hessian(cubed(f)),
    "third": lambda f: lambda p: jacfwd(jacrev(jacrev(cubed(f))))(p)["weights.2"]["weights.2"]["weights.2"],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_in_the_weights(matrix, x, form, name):
    model, features, dense = network(), given(x, form), matrix.to_dense()
    transform = TRANSFORMS[name]
    found = transform(lambda p: functional_call(model, p, (features, matrix)))(state(model))
    equal(found, transform(lambda p: plain(p, x, dense))(state(model)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["plain", "grad", "jvp", "jacrev", "jacfwd"])
def test_an_ensemble_of_models(matrix, x, form, name):
    """vmap over stacked parameters, and every transform inside of it, is a loop over the models."""
    models = [network(seed) for seed in range(MODELS)]
    parameters, _ = stack_module_state(models)
    features = given(x, form)
    transform = {"plain": lambda f: f, **TRANSFORMS}[name]
    found = vmap(transform(lambda p: functional_call(models[0], p, (features, matrix))))(parameters)
    each = [transform(lambda p: plain(p, x, matrix.to_dense()))(state(model)) for model in models]
    equal(found, torch.utils._pytree.tree_map(lambda *parts: torch.stack(parts), *each))


@pytest.mark.parametrize("form", FORMS)
def test_coefficients_are_transformed_too(matrix, x, form):
    model, features, basis, c = network(), given(x, form), normal(NODES, 2, seed=9), normal(4, 2, seed=8)

    def ours(c):
        return functional_call(model, state(model), (features, SparsePlusLowRank(matrix, basis, c)))

    def theirs(c):
        return plain(state(model), x, matrix.to_dense() - basis @ torch.diag(c) @ basis.T)

    equal(vmap(ours)(c), torch.stack([theirs(each) for each in c]))
    equal(ours(c), torch.stack([theirs(each) for each in c]))
    equal(vmap(jacrev(ours))(c), torch.stack([jacrev(theirs)(each) for each in c]))
    equal(vmap(hessian(cubed(ours)))(c), torch.stack([hessian(cubed(theirs))(each) for each in c]))
    equal(jvp(ours, (c[0],), (c[1],)), jvp(theirs, (c[0],), (c[1],)))


def test_an_ensemble_over_perturbed_graphs(matrix, x):
    """Models times graphs, mapped one inside the other and as one batch of operators."""
    models, basis, c = [network(seed) for seed in range(MODELS)], normal(NODES, 2, seed=9), normal(4, 2, seed=8)
    parameters, _ = stack_module_state(models)
    features = given(x, "prepared")

    def ours(p, c):
        return functional_call(models[0], p, (features, SparsePlusLowRank(matrix, basis, c)))

    each = torch.stack([model(features, SparsePlusLowRank(matrix, basis, c)) for model in models])
    equal(vmap(lambda p: vmap(lambda one: ours(p, one))(c))(parameters), each)
    equal(vmap(lambda p: ours(p, c))(parameters), each)
    equal(vmap(ours)(parameters, c[:MODELS]), each[range(MODELS), range(MODELS)])


def test_features_are_transformed_too(matrix, x):
    model, dense, several = network(), matrix.to_dense(), torch.stack([x, 2 * x, x.flip(0)])

    def ours(x):
        return functional_call(model, state(model), (x, matrix))

    def theirs(x):
        return plain(state(model), x, dense)

    equal(vmap(ours)(several), vmap(theirs)(several))
    equal(jacrev(ours)(x), jacrev(theirs)(x))
    equal(vmap(grad(cubed(ours)))(several), vmap(grad(cubed(theirs)))(several))
    equal(hessian(cubed(ours))(x), hessian(cubed(theirs))(x))


@pytest.mark.parametrize("form", ["tensor", "prepared"])
@pytest.mark.parametrize("runs", [1, 2])
def test_masks_of_mapped_keys_are_those_of_each_key(matrix, x, form, runs):
    """Dropout under vmap: every entry of an ensemble has the masks of its own key, forward and in derivatives."""
    features = given(x, "prepared") if form == "prepared" else make_features(x.numpy(), dtype=torch.float64)
    view, sizes = full_view(features, matrix, 3), ((FEATURES, 6), (6, 4), (4, CLASSES))
    keys = torch.arange(MODELS * runs).view(MODELS, runs) + 5
    weights = [normal(MODELS, runs, *size, seed=place) for place, size in enumerate(sizes)]

    def run(kind):
        return lambda key, *some: logits(some, view, kind(key, 2, 3, 0.4))

    each = [[part[at] for part in weights] for at in range(MODELS)]
    mapped, alone = run(MappedDropout), run(Dropout)
    equal(vmap(mapped)(keys, *weights), torch.stack([alone(key, *some) for key, some in zip(keys, each, strict=True)]))
    same = torch.stack([alone(keys[0], *some) for some in each])
    equal(vmap(mapped, (None, 0, 0, 0))(keys[0], *weights), same)
    masks = torch.stack([alone(key, *each[0]) for key in keys])
    equal(vmap(mapped, (0, None, None, None))(keys, *each[0]), masks)
    places = (1, 2, 3)
    found = vmap(grad(cubed(mapped), places))(keys, *weights)
    for at, (key, some) in enumerate(zip(keys, each, strict=True)):
        leaves = [part.clone().requires_grad_() for part in some]
        expected = torch.autograd.grad(cubed(alone)(key, *leaves), leaves)
        equal([part[at] for part in found], expected)
    tangents = tuple(torch.ones_like(part) for part in each[0])

    def slope(key, *some):
        return jvp(lambda *w: mapped(key, *w), some, tangents)[1]

    expected = [torch.autograd.functional.jvp(lambda *w, k=key: alone(k, *w), tuple(some), tangents)[1]
                for key, some in zip(keys, each, strict=True)]  # fmt: skip
    equal(vmap(slope)(keys, *weights), torch.stack(expected))


@TRAINING
@pytest.mark.parametrize("form", FORMS)
def test_training_an_ensemble_says_how_masks_are_drawn(matrix, x, form):
    model, features = network(training=True), given(x, form)
    parameters, _ = stack_module_state([network()] * MODELS)

    def ours(p):
        return functional_call(model, p, (features, matrix))

    def loss(p):
        return ours(p).square().sum()

    same = vmap(ours, randomness="same")(parameters)
    equal(same[0], same[1])
    apart = vmap(ours, randomness="different")(parameters)
    assert (apart[0] - apart[1]).abs().max() > 1e-3
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(ours)(parameters)
    slopes = vmap(grad(loss), randomness="different")(parameters)
    assert all(each.shape[0] == MODELS and (each[0] - each[1]).abs().max() > 0 for each in slopes.values())
    torch.manual_seed(4)
    expected = grad(loss)(state(model))
    torch.manual_seed(4)
    given_loss = loss(dict(model.named_parameters()))
    equal(tuple(expected.values()), torch.autograd.grad(given_loss, tuple(model.parameters())))


def operators(matrix):
    basis, c = normal(NODES, 2, seed=9), normal(3, 2, seed=8)
    dense, eye = matrix.to_dense(), torch.eye(NODES, dtype=torch.float64)
    congruence = CongruenceNeighborhood(matrix.scipy, "nodes").operator(0.1 * normal(3, NODES, seed=7))
    ends, pairs = torch.tensor([[0, 2, 4], [1, 3, 5]]), torch.tensor([[[6, 0, 1]], [[7, 3, 6]]])
    kept = torch.rand(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return {
        "sparse": (matrix, [dense] * 3),
        "low rank": (SparsePlusLowRank(matrix, basis, c), [dense - basis @ torch.diag(e) @ basis.T for e in c]),
        "block": (BlockOperator(matrix, basis, basis, c), [dense - basis @ torch.diag(e) @ basis.T for e in c]),
        "dense": (DenseOperator(dense), [dense] * 3),
        "identity": (IdentityOperator((NODES, NODES), dense.device, dense.dtype), [eye] * 3),
        "congruence": (congruence, list(congruence.to_dense())),
        "polynomial": (PolynomialOperator(matrix, [0.3, 0.2, 0.5]), [0.2 * dense + dense @ dense - 0.2 * eye] * 3),
        "links": (
            LinkOperator(ends, kept, pairs, torch.ones(NODES, dtype=torch.float64)),
            [link_matrix(ends, kept[:, at], pairs[:, :, at]) for at in range(3)],
        ),
    }  # fmt: skip


def link_matrix(ends, kept, pairs):
    weights = torch.eye(NODES, dtype=torch.float64)
    for (here, there), weight in [
        *zip(ends.T.tolist(), kept, strict=True),
        *((pair, 1.0) for pair in pairs.T.tolist()),
    ]:
        weights[here, there] = weights[there, here] = weights[here, there] + weight
    root = weights.sum(1).rsqrt()
    return root[:, None] * weights * root


@pytest.mark.parametrize(
    "name", ["sparse", "low rank", "block", "dense", "identity", "links", "congruence", "polynomial"]
)
def test_every_operator_under_every_transform(matrix, name):
    operator, matrices = operators(matrix)[name]
    z, several = normal(NODES, 3, 2, seed=5), normal(4, NODES, 3, 2, seed=6)

    def theirs(z):
        return torch.stack([each @ z[:, at] for at, each in enumerate(matrices)], 1)

    def bent(function):
        return lambda z: function(z).pow(3).sum()

    ours = operator.propagate
    equal(vmap(ours)(several), vmap(theirs)(several))
    equal(jacrev(ours)(z), jacrev(theirs)(z))
    equal(jacfwd(ours)(z), jacfwd(theirs)(z))
    equal(jvp(ours, (z,), (several[0],)), jvp(theirs, (z,), (several[0],)))
    equal(vmap(grad(bent(ours)))(several), vmap(grad(bent(theirs)))(several))
    equal(hessian(bent(ours))(z), hessian(bent(theirs))(z))


def test_weights_of_links_are_transformed_too():
    ends, pairs = torch.tensor([[0, 2, 4], [1, 3, 5]]), torch.tensor([[[6]], [[7]]])
    z, several = normal(NODES, 1, 2), torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def ours(kept):
        return LinkOperator(ends, kept[:, None], pairs, torch.ones(NODES, dtype=torch.float64)).propagate(z)[:, 0]

    expected = torch.stack([link_matrix(ends, kept, pairs[:, :, 0]) @ z[:, 0] for kept in several])
    equal(vmap(ours)(several), expected)
    equal(vmap(jacrev(ours))(several), vmap(jacfwd(ours))(several))
