"""Run comparisons of CUDA kernels with their references: python triton_checks.py NAME …; each says how it ended."""

import sys
import traceback

import numpy as np
import torch
from scipy import sparse

from fishergcn import backend
from fishergcn._kernels import cuda, cuda_half, cuda_streams
from fishergcn.nn import _features as features_module
from fishergcn.nn import _first_layer as first_layer
from fishergcn.nn import full_view, ready_features, relu_dropout, words_per_node
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.streams import draw_words, keep_probability

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KEYS = torch.tensor([3, -7, 2**61 + 5], dtype=torch.int64, device=DEVICE)


def close(got, wanted, tolerance=2e-6):
    torch.testing.assert_close(
        got.double(), wanted.double(), rtol=tolerance, atol=tolerance * float(wanted.abs().max())
    )


def relu_reference(*arguments):
    with backend("reference"):
        return relu_dropout(*arguments)


def draw(samples, purpose, epoch, count, dropout):
    blocks = (count + 3) // 4
    words = torch.empty((len(KEYS) * samples, blocks, 4), dtype=torch.int32, device=DEVICE)
    numerator, denominator = keep_probability(dropout).as_integer_ratio()
    digits = denominator.bit_length() - 1
    cuda_streams.bernoulli_words(words, KEYS, samples, purpose, epoch, numerator, digits)
    return words.view(len(words), -1)


def words():
    for dropout, epoch in ((0.5, 0), (0.5, 1), (0.8, 7), (0.25, 300)):
        got = draw(2, 1, epoch, 37, dropout).cpu()
        with backend("reference"):
            assert torch.equal(got, draw_words(KEYS.cpu(), 2, 1, epoch, 37, dropout))


def features():
    features_module._CHUNK_ROWS = 2  # several chunks of rows even here
    generator = torch.Generator().manual_seed(0)
    matrix = sparse.random_array((23, 19), density=0.4, rng=np.random.default_rng(0), format="csr", dtype=np.float64)
    matrix = sparse.csr_array(matrix.toarray() * (np.arange(23) != 5)[:, None])  # a row without entries
    made = ready_features(sparse.csr_array(matrix), DEVICE).restrict(torch.tensor([1, 4, 5, 20, 22]))
    for width, samples, dropout in ((64, 5, 0.5), (7, 1, 0.8), (20, 3, 0.5), (64, None, 0.0)):
        weight = torch.rand(len(KEYS), 19, width, generator=generator).to(DEVICE)
        mask = None if samples is None else draw(samples, 0, 3, made.mask_words, dropout)
        count = samples or 1
        reference_weight = weight.double().requires_grad_()
        made64 = ready_features(sparse.csr_array(matrix), DEVICE, torch.float64).restrict(made.rows)
        wanted = features_module.reference(made64, reference_weight, mask, count, dropout)
        got = torch.empty(5, len(KEYS) * count, width, device=DEVICE)
        keep = keep_probability(dropout)
        cuda.features_forward(got, made.parts, weight, mask, count, keep)
        close(got, wanted.detach())
        upstream = torch.rand(got.shape, generator=generator).to(DEVICE)
        wanted.backward(upstream.double())
        back = torch.empty_like(weight)
        cuda.features_backward(back, (*made.columns, made.values), upstream, mask, count, keep)
        close(back, reference_weight.grad)


def csr():
    matrix = SparseMatrix.from_scipy(
        sparse.random_array((30, 17), density=0.2, rng=np.random.default_rng(1)),
        device=DEVICE,
        dtype=torch.float32,
    )
    dense = torch.rand(17, 5, 130, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    got = torch.empty(30, 5, 130, device=DEVICE)
    cuda.csr_times_dense(got, matrix.forward, dense)
    wanted = torch.einsum("pn,nbd->pbd", matrix.to_dense().double(), dense.double())
    close(got, wanted)
    basis, weighted = torch.rand(30, 3, device=DEVICE), torch.rand(3, 5, 130, device=DEVICE)
    cuda.csr_times_dense(got, matrix.forward, dense, basis, weighted)
    close(got, wanted - torch.einsum("nk,kbd->nbd", basis.double(), weighted.double()))


def relu():
    generator = torch.Generator().manual_seed(0)
    for width in (7, 64):
        values = (torch.rand(4, 6, width, generator=generator) - 0.5).to(DEVICE)
        rows = torch.tensor([0, 3, 7, 9], dtype=torch.int32, device=DEVICE)
        mask = draw(2, 1, 5, 10 * words_per_node(width), 0.5)
        got = torch.empty_like(values)
        cuda.relu_dropout(got, values, rows, mask, 2.0)
        reference = values.double().requires_grad_()
        wanted = relu_reference(reference, rows, mask, 0.5)
        close(got, wanted.detach())
        upstream = torch.rand(got.shape, generator=generator).to(DEVICE)
        wanted.backward(upstream.double())
        back = torch.empty_like(values)
        cuda.relu_dropout_backward(back, upstream, got, 2.0)
        close(back, reference.grad)


def weight():
    generator = torch.Generator().manual_seed(0)
    for width, columns in ((64, 7), (20, 64)):
        hidden = torch.rand(300, 6, width, generator=generator).to(DEVICE)
        stacked = torch.rand(3, width, columns, generator=generator).to(DEVICE)
        got = torch.empty(300, 6, columns, device=DEVICE)
        cuda.times_weight(got, hidden, stacked)
        a, b = hidden.double().requires_grad_(), stacked.double().requires_grad_()
        wanted = torch.einsum("prmh,rhc->prmc", a.view(300, 3, 2, width), b).reshape(300, 6, columns)
        close(got, wanted.detach())
        upstream = torch.rand(got.shape, generator=generator).to(DEVICE)
        wanted.backward(upstream.double())
        back = torch.empty_like(hidden)
        cuda.times_weight(back, upstream, stacked.transpose(1, 2).contiguous())
        close(back, a.grad)
        close(cuda.weight_gradient(hidden, upstream, 3), b.grad)


def layer():
    generator = torch.Generator().manual_seed(0)
    for width, columns in ((64, 7), (20, 64)):
        values = (torch.rand(100, 6, width, generator=generator) - 0.5).to(DEVICE)
        stacked = torch.rand(3, width, columns, generator=generator).to(DEVICE)
        rows = torch.arange(99, -1, -1, dtype=torch.int32, device=DEVICE)
        mask = draw(2, 1, 5, 100 * words_per_node(width), 0.5)
        active = cuda.Active(rows, mask, 2.0)
        out = torch.empty(100, 6, columns, device=DEVICE)
        cuda.times_weight(out, values, stacked, active)
        a, b = values.double().requires_grad_(), stacked.double().requires_grad_()
        hidden = relu_reference(a, rows, mask, 0.5).view(100, 3, 2, width)
        wanted = torch.einsum("prmh,rhc->prmc", hidden, b).reshape(100, 6, columns)
        close(out, wanted.detach())
        upstream = torch.rand(100, 6, columns, generator=generator).to(DEVICE)
        slope = torch.empty_like(values)
        got = cuda.layer_gradients(slope, values, upstream, stacked, active)
        wanted.backward(upstream.double())
        close(got, b.grad)
        close(slope, a.grad)
        cuda.times_weight(out, values, stacked, cuda.Active())
        close(out, torch.einsum("prmh,rhc->prmc", values.relu().double().view(100, 3, 2, width), b).reshape(out.shape))
        values[3, 4, 5] = torch.nan  # of a run that diverges
        cuda.times_weight(out, values, stacked, active)
        assert bool(torch.isnan(out[3, 4]).all()) == bool(mask[4, 96 * words_per_node(width)] >> 5 & 1)
        assert int(torch.isnan(out).any(-1).sum()) <= 1


def moments():
    generator = torch.Generator().manual_seed(0)
    basis, dense = (torch.rand(600, *shape, generator=generator).to(DEVICE) for shape in ((3,), (5, 130)))
    close(cuda.moments(basis, dense), torch.einsum("nk,nbd->kbd", basis.double(), dense.double()))


def half():
    rng = np.random.default_rng(2)
    matrix = SparseMatrix.from_scipy(
        sparse.random_array((203, 117), density=0.2, rng=rng), device=DEVICE, dtype=torch.float32
    )
    dense = torch.rand(117, 5, 13, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    dense[:, 1] *= 1e-9  # batch entries of very different size each keep their digits
    dense[:, 2] *= 1e6
    whole = matrix.to_dense().double()
    found = cuda_half.half_product(matrix.half_tiles(), cuda_half.as_half(dense))
    for b in range(5):
        close(found[:, b], whole @ dense[:, b].double(), 1e-3)
    back = torch.rand(203, 5, 13, device=DEVICE)
    found = cuda_half.half_product(matrix.half_tiles(transposed=True), cuda_half.as_half(back))
    close(found, torch.einsum("pn,pbd->nbd", whole, back.double()), 1e-3)
    left, weighted = torch.rand(203, 3, device=DEVICE), torch.rand(3, 5, 13, device=DEVICE)
    found = cuda_half.half_product(matrix.half_tiles(), cuda_half.as_half(dense), left, weighted)
    wanted = torch.einsum("pn,nbd->pbd", whole, dense.double())
    for b in range(5):
        close(found[:, b], wanted[:, b] - left.double() @ weighted[:, b].double(), 1e-3)
    parts = sparse.block_diag([rng.random((128, 100)) < 0.3 for _ in range(4)], format="csr")
    shuffled = sparse.csr_array(parts[rng.permutation(512)].astype(float))
    tiles = SparseMatrix.from_scipy(shuffled, device=DEVICE, dtype=torch.float32).half_tiles()
    assert len(tiles.columns) == 4 * 128  # each tile has the rows of one part, whose 100 columns are filled up to 128
    assert sorted(tiles.order.tolist()) == list(range(512))


def first():
    """The first layer from features to the product with the graph, and its two gradients; then without dropout."""
    for module in (first_layer, features_module):
        module.backend_of = lambda tensor: "triton"
    rng, generator = np.random.default_rng(3), torch.Generator().manual_seed(0)
    nodes, columns, samples, width = 203, 19, 2, 20
    values = sparse.random_array((nodes, columns), density=0.5, rng=rng, format="csr")
    values = sparse.csr_array(values.toarray() * (np.arange(nodes) != 5)[:, None])
    made = ready_features(sparse.csr_array(30 * values), DEVICE)
    graph = sparse.random_array((nodes, nodes), density=0.2, rng=rng)
    matrix = SparseMatrix.from_scipy(graph * 100, device=DEVICE, dtype=torch.float32)
    basis = torch.rand(nodes, 3, generator=generator).to(DEVICE)
    weight = (torch.rand(len(KEYS), columns, width, generator=generator) - 0.5).to(DEVICE)
    weight[1] *= 1e-6  # runs of very different size each keep their digits
    batch = len(KEYS) * samples
    shift = torch.rand(batch, 3, generator=generator).to(DEVICE)
    mask = draw(samples, 0, 3, made.mask_words, 0.5)
    upstream = (torch.rand(nodes, batch, width, generator=generator) - 0.5).to(DEVICE)
    for perturbed in (False, True):
        w, c = weight.clone().requires_grad_(), shift.clone().requires_grad_()
        view = full_view(made, SparsePlusLowRank(matrix, basis, c) if perturbed else matrix, 2)
        got = first_layer.half_first_product(view, w, mask, samples, 0.5, once=True)
        got.backward(upstream)
        a, b = weight.double().requires_grad_(), shift.double().requires_grad_()
        made64 = ready_features(sparse.csr_array(30 * values), DEVICE, torch.float64)
        hidden = features_module.reference(made64, a, mask, samples, 0.5)
        wanted = torch.einsum("pn,nbd->pbd", matrix.to_dense().double(), hidden)
        if perturbed:
            moments = torch.einsum("nk,nbd->kbd", basis.double(), hidden)
            wanted = wanted - torch.einsum("nk,kbd->nbd", basis.double(), b.T.unsqueeze(-1) * moments)
        wanted.backward(upstream.double())
        for run in range(len(KEYS)):
            entries = slice(run * samples, run * samples + samples)
            close(got.detach()[:, entries], wanted.detach()[:, entries], 2e-3)
            close(w.grad[run], a.grad[run], 2e-3)
            if perturbed:
                close(c.grad[entries], b.grad[entries], 2e-3)
    local = made.restrict(torch.arange(nodes - 1, -1, -1))
    with torch.inference_mode():
        view = full_view(local, matrix, 2)
        found = [first_layer.half_first_product(view, weight, None, 1, 0.0, once=False) for _ in range(2)]
        assert torch.equal(*found)
    assert first_layer.half_first_product(view, weight, None, 1, 0.0, once=False) is None  # derivatives may follow
    wanted = matrix.to_dense().double() @ torch.as_tensor(30 * values.toarray()[::-1].copy(), device=DEVICE)
    for run in range(len(KEYS)):
        close(found[0][:, run], wanted @ weight[run].double(), 2e-3)
    uneven = sparse.csr_array(np.logspace(0, 9, nodes)[:, None] * values.toarray())
    view = full_view(ready_features(uneven, DEVICE), matrix, 2)
    assert first_layer.half_first_product(view, weight, mask, samples, 0.5, once=True) is None
    with torch.inference_mode():
        assert first_layer.half_first_product(view, weight, None, 1, 0.0, once=False) is None


if __name__ == "__main__":
    chunk_rows = features_module._CHUNK_ROWS
    for name in sys.argv[1:]:
        features_module._CHUNK_ROWS = chunk_rows
        try:
            globals()[name]()
            print(f"{name} agrees", flush=True)
        except Exception:
            print(f"{name} fails: {traceback.format_exc()!r}", flush=True)
