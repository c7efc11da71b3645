"""ReLU with dropout: the compiled kernel against the reference."""

from __future__ import annotations

import pytest
import torch

from fishergcn import backend
from fishergcn.nn import relu_dropout, words_per_node
from fishergcn.streams import draw_words, keep_probability, unpack

NODES = 13


def reference(*arguments):
    """The kernel in plain torch."""
    with backend("reference"):
        return relu_dropout(*arguments)


def values(rows, batch, width, dtype=torch.float64):
    drawn = torch.randn(rows, batch, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn[0, 0, 0] = 0.0
    return drawn.to(dtype)


def masks_for(batch, width, dropout):
    keys = torch.arange(1, batch + 1, dtype=torch.int64)
    return draw_words(keys, 1, 1, 2, NODES * words_per_node(width), dropout)


@pytest.mark.parametrize(
    ("width", "batch", "dropout"), [(1, 1, 0.5), (7, 3, 0.8), (32, 1, 0.5), (33, 2, 0.5), (64, 5, 0.8)]
)
@pytest.mark.parametrize("rows", [None, [3, 12, 0], []])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_kernel_equals_reference(width, batch, dropout, rows, dtype):
    words = masks_for(batch, width, dropout)
    nodes = None if rows is None else torch.tensor(rows, dtype=torch.int32)
    v = values(NODES, batch, width, dtype)[: NODES if rows is None else len(rows)]
    direction = torch.ones_like(v) + v.abs()
    tolerance = {"rtol": 0, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-5}
    results = []
    for function in (relu_dropout, reference):
        leaf = v.clone().requires_grad_()
        out = function(leaf, nodes, words, dropout)
        results.append((out.detach(), torch.autograd.grad((out * direction).sum(), leaf)[0]))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)


def test_reference_by_the_definition():
    words, v = masks_for(2, 33, 0.8), values(NODES, 2, 33)
    out = reference(v, None, words, 0.8)
    bits = unpack(words, words.shape[1] * 32)
    for b in range(2):
        for node in range(NODES):
            kept = bits[b, 64 * node : 64 * node + 33]  # two words for 33 units
            expected = torch.where(kept, v[node, b].clamp(min=0) / keep_probability(0.8), 0.0)
            torch.testing.assert_close(out[node, b], expected, rtol=0, atol=1e-15)


def test_the_mask_belongs_to_the_node():
    """Computing only some rows changes nothing in them."""
    words, v = masks_for(3, 16, 0.5), values(NODES, 3, 16)
    rows = torch.tensor([11, 4], dtype=torch.int32)
    assert torch.equal(relu_dropout(v, None, words, 0.5)[rows], relu_dropout(v[rows], rows, words, 0.5))


def test_without_dropout_it_is_relu():
    v = values(4, 2, 5)
    assert torch.equal(relu_dropout(v, None, None, 0.5), torch.relu(v))


def test_derivatives():
    words = masks_for(2, 7, 0.5)
    rows = torch.tensor([1, 8, 3], dtype=torch.int32)
    v = values(3, 2, 7)
    v[0, 0, 0] = 0.3  # away from the corner, where differences mean nothing
    assert torch.autograd.gradcheck(
        lambda v: relu_dropout(v, rows, words, 0.5) ** 2,
        v.requires_grad_(),
        check_forward_ad=True,
        check_batched_grad=False,
    )


def test_views_are_read_as_they_are():
    words, v = masks_for(2, 7, 0.5), values(7, 2, NODES).permute(2, 1, 0)
    assert torch.equal(relu_dropout(v, None, words, 0.5), relu_dropout(v.contiguous(), None, words, 0.5))


def test_words_per_node():
    assert [words_per_node(width) for width in (1, 32, 33, 64, 65)] == [1, 1, 2, 2, 3]
