"""The plain GCNs that ours is timed against, each as a training loop on one graph and split.

- ``pyg``: PyTorch Geometric's ``GCNConv`` the way its example ``examples/gcn.py`` uses it: dense features, Adam
  with weight decay on the first layer; the normalization is cached, which newer versions of the example leave
  out. Where that package is missing, :class:`GatherConv` can stand in.
- ``sparse``: what one can write with torch's sparse products: features and graph in compressed rows, dropout
  on the stored entries, the transposed pattern worked out once, fused Adam, freed memory kept.
- ``sparse-bits``: the same with dropout masks from random bits, eight entries a byte, which torch's own
  dropout does not offer.

All have one hidden layer, dropout 0.5, learning rate 0.01 and weight decay 5e-4.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from fishergcn import Graph, renormalized
from fishergcn._base.memory import keep_freed_memory
from fishergcn.splits import Split

LEARNING_RATE, WEIGHT_DECAY, DROPOUT = 0.01, 5e-4, 0.5


class Loop:
    """Train a model that maps nothing to the logits of all nodes."""

    def __init__(self, model: nn.Module, optimizer: Any, labels: Tensor, train: Tensor, val: Tensor) -> None:
        self.model, self.optimizer = model, optimizer
        self.labels, self.train, self.val = labels, train, val

    def epoch(self) -> tuple[float, float]:
        """Take one step, then one validation pass; return validation loss and accuracy."""
        self.model.train()
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model()[self.train], self.labels[self.train]).backward()
        self.optimizer.step()
        with torch.no_grad():
            self.model.eval()
            out, truth = self.model()[self.val], self.labels[self.val]
            loss = functional.cross_entropy(out, truth)
            accuracy = (out.argmax(1) == truth).double().mean()
            return float(loss), float(accuracy)


def row_normalized(graph: Graph) -> Any:
    features = sparse.csr_array(graph.features, dtype=np.float32, copy=True)
    sums = features.sum(axis=1)
    factors = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums != 0)
    features.data *= np.repeat(factors, np.diff(features.indptr))
    return features


def has_pyg() -> bool:
    return find_spec("torch_geometric") is not None


class GatherConv(nn.Module):
    """A graph convolution as message passing, with cached weights of the links."""

    def __init__(self, fan_in: int, fan_out: int, **_: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(fan_in, fan_out)))
        self.bias = nn.Parameter(torch.zeros(fan_out))
        self._cached: tuple[Tensor, Tensor, Tensor] | None = None

    def forward(self, x: Tensor, links: Tensor) -> Tensor:
        if self._cached is None:
            loops = torch.arange(len(x), device=x.device)
            source, target = (torch.cat([end, loops]) for end in links[:, links[0] != links[1]])
            scale = torch.bincount(target).to(x.dtype).rsqrt()
            self._cached = source, target, (scale[source] * scale[target]).unsqueeze(1)
        source, target, weights = self._cached
        messages = (x @ self.weight).index_select(0, source) * weights
        return messages.new_zeros(len(x), messages.shape[1]).index_add_(0, target, messages) + self.bias


class MessagePassing(nn.Module):
    """Two convolutions over dense features."""

    def __init__(self, conv: Callable[..., nn.Module], features: Tensor, links: Tensor, sizes: list[int]):
        super().__init__()
        self.features, self.links = features, links
        self.conv1 = conv(sizes[0], sizes[1], cached=True)
        self.conv2 = conv(sizes[1], sizes[2], cached=True)

    def forward(self) -> Tensor:
        hidden = functional.dropout(self.features, DROPOUT, self.training)
        hidden = self.conv1(hidden, self.links).relu()
        hidden = functional.dropout(hidden, DROPOUT, self.training)
        out: Tensor = self.conv2(hidden, self.links)
        return out


def message_passing(graph: Graph, split: Split, hidden: int, device: str, use_pyg: bool) -> Loop:
    conv: Any = GatherConv
    if use_pyg:
        from torch_geometric.nn import GCNConv as conv  # type: ignore[no-redef]
    features = torch.as_tensor(row_normalized(graph).toarray(), device=device)
    links = torch.as_tensor(np.stack(sparse.coo_array(graph.adjacency).coords).astype(np.int64), device=device)
    model = MessagePassing(conv, features, links, [graph.num_features, hidden, graph.num_classes]).to(device)
    groups = [
        {"params": model.conv1.parameters(), "weight_decay": WEIGHT_DECAY},
        {"params": model.conv2.parameters(), "weight_decay": 0.0},
    ]
    masks = []
    for nodes in (split.train, split.val):
        mask = np.zeros(graph.num_nodes, dtype=np.bool_)
        mask[nodes] = True
        masks.append(torch.as_tensor(mask, device=device))
    labels = torch.tensor(graph.labels, device=device)
    return Loop(model, torch.optim.Adam(groups, lr=LEARNING_RATE), labels, *masks)


def compiled(loop: Loop) -> Loop:
    """The loop with its network through ``torch.compile``; without a GPU the default backend would need a compiler."""
    backend = "inductor" if loop.labels.is_cuda else "eager"
    loop.model = torch.compile(loop.model, backend=backend)  # type: ignore[assignment]
    return loop


class Recorded(Loop):
    """The loop with an epoch recorded as one CUDA graph, which starts all its kernels at once; as it is on a CPU.

    What a recording forbids is replaced first: masks by indices, and counts of Adam's steps on the CPU by those on the
    GPU. Scores of every epoch are read, in one piece.
    """

    def __init__(self, loop: Loop) -> None:
        train, val = (each.nonzero().squeeze(1) for each in (loop.train, loop.val))
        groups = [{name: group[name] for name in ("params", "weight_decay")} for group in loop.optimizer.param_groups]
        on_gpu = loop.labels.is_cuda
        optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE, capturable=on_gpu)
        super().__init__(loop.model, optimizer, loop.labels, train, val)
        self.graph = torch.cuda.CUDAGraph() if on_gpu else None
        if self.graph is None:
            return
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # where caches are filled, as PyTorch's notes on CUDA graphs ask
            for _ in range(3):
                self._scores()
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(self.graph):
            self.scores = self._scores()

    def _scores(self) -> Tensor:
        """Take one step, then one validation pass; return loss and accuracy where they are."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(self.model()[self.train], self.labels[self.train]).backward()
        self.optimizer.step()
        with torch.no_grad():
            self.model.eval()
            out, truth = self.model()[self.val], self.labels[self.val]
            return torch.stack([functional.cross_entropy(out, truth), (out.argmax(1) == truth).float().mean()])

    def epoch(self) -> tuple[float, float]:
        if self.graph is None:
            loss, accuracy = self._scores().tolist()
        else:
            self.graph.replay()
            loss, accuracy = self.scores.tolist()
        return loss, accuracy


def compressed(pointers: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(pointers, indices, values, shape, check_invariants=False)


class Pattern:
    """Where a sparse matrix has entries, and where its transpose has the same ones."""

    def __init__(self, matrix: Any) -> None:
        numbered = sparse.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
        turned = sparse.csr_array(numbered.T)
        # 32-bit indices are what the library below torch's product takes without conversion.
        self.rows = (torch.tensor(matrix.indptr).int(), torch.tensor(matrix.indices).int())
        self.columns = (torch.tensor(turned.indptr).int(), torch.tensor(turned.indices).int())
        self.order = torch.tensor(turned.data).int()
        self.shape = matrix.shape

    def times(self, values: Tensor, dense: Tensor) -> Tensor:
        return compressed(*self.rows, values, self.shape) @ dense

    def transposed_times(self, values: Tensor, dense: Tensor) -> Tensor:
        values = values.index_select(0, self.order)
        return compressed(*self.columns, values, self.shape[::-1]) @ dense


class Product(torch.autograd.Function):
    """Sparse times dense, with a gradient for the dense side alone."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, values: Tensor, pattern: Pattern) -> Tensor:
        ctx.matrix = (values, pattern)
        return pattern.times(values, dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        values, pattern = ctx.matrix
        return pattern.transposed_times(values, grad.contiguous()), None, None


class SymmetricProduct(torch.autograd.Function):
    """The product with the graph: symmetric, so that its own rows serve the backward pass."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix @ grad.contiguous(), None


_BYTES = 2.0 * ((torch.arange(256).unsqueeze(1) >> torch.arange(8)) & 1).float()


def bit_dropout(values: Tensor) -> Tensor:
    """Dropout at 1/2 from random bits: each random byte looks up eight factors, 0 or 2."""
    words = torch.empty((values.numel() + 63) // 64, dtype=torch.int64).random_(-(2**63), None)
    factors = functional.embedding(words.view(torch.uint8).int(), _BYTES)
    return values * factors.flatten()[: values.numel()].view_as(values)


class SparseGCN(nn.Module):
    """Two convolutions with sparse features and torch's sparse products."""

    def __init__(self, features: Any, propagation: Any, sizes: list[int], dropout: Callable[[Tensor], Tensor]):
        super().__init__()
        self.pattern, self.values = Pattern(features), torch.tensor(features.data)
        graph = Pattern(propagation)
        values = torch.tensor(propagation.data, dtype=torch.float32)
        self.graph = compressed(*graph.rows, values, graph.shape)
        self.weight1 = nn.Parameter(nn.init.xavier_uniform_(torch.empty(sizes[0], sizes[1])))
        self.weight2 = nn.Parameter(nn.init.xavier_uniform_(torch.empty(sizes[1], sizes[2])))
        self.dropout = dropout

    def forward(self) -> Tensor:
        values = self.dropout(self.values) if self.training else self.values
        hidden = SymmetricProduct.apply(Product.apply(self.weight1, values, self.pattern), self.graph).relu()
        hidden = self.dropout(hidden) if self.training else hidden
        out: Tensor = SymmetricProduct.apply(hidden @ self.weight2, self.graph)
        return out


def sparse_products(graph: Graph, split: Split, hidden: int, dropout: Callable[[Tensor], Tensor]) -> Loop:
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    keep_freed_memory()  # what ours does, so that the comparison is of products and not of allocators
    sizes = [graph.num_features, hidden, graph.num_classes]
    model = SparseGCN(row_normalized(graph), renormalized(graph.adjacency), sizes, dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    parts = [torch.tensor(graph.labels), torch.tensor(split.train), torch.tensor(split.val)]
    return Loop(model, optimizer, *parts)


PEERS: dict[str, Callable[[Graph, Split, int], Loop]] = {
    "pyg": lambda graph, split, hidden: message_passing(graph, split, hidden, "cpu", use_pyg=True),
    "sparse": lambda graph, split, hidden: sparse_products(
        graph, split, hidden, lambda values: functional.dropout(values, DROPOUT)
    ),
    "sparse-bits": lambda graph, split, hidden: sparse_products(graph, split, hidden, bit_dropout),
}
