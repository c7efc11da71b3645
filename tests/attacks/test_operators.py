"""Models tested on the plain graph score as in training, and operators are those of the package."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from fishergcn import high_order, renormalized
from fishergcn.attacks import operator_of
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.operators import DenseOperator

CPU = torch.device("cpu")


@pytest.mark.parametrize("method", ["gcn", "fishergcn-t"])
def test_the_plain_graph_gives_the_scores_of_training(graph, trained, method):
    _, records, model = trained(method)
    operator = operator_of(model, graph.adjacency)
    loss, accuracy = model.test(operator)
    assert accuracy.tolist() == [record.test_accuracy for record in records]
    assert np.allclose(loss, [record.test_cross_entropy for record in records], rtol=1e-12)
    assert all(torch.equal(*pair) for pair in zip(model.test(), (loss, accuracy), strict=True))
    one = model.only(1).test(operator)
    assert one[1].tolist() == accuracy[1:].tolist()


def test_a_run_that_broke_is_refused(trained, runs):
    problem, records, _ = trained("gcn")
    broken = [records[0], dataclasses.replace(records[1], status="diverged")]
    with pytest.raises(InputError, match="gcn on planted, split b: diverged"):
        TrainedModel.of(problem, runs, broken)


def test_operators_multiply(graph, trained):
    rng = np.random.default_rng(0)
    z = rng.standard_normal((graph.num_nodes, 2, 3))
    for method, matrix in (("gcn", renormalized(graph.adjacency)), ("gcn-t", high_order(graph.adjacency))):
        wanted = np.einsum("ij,jbd->ibd", matrix.toarray(), z)
        dense = DenseOperator(torch.as_tensor(matrix.toarray()))
        for operator in (operator_of(trained(method)[2], graph.adjacency), dense):
            assert np.allclose(operator.propagate(torch.as_tensor(z)), wanted, rtol=0, atol=1e-13)
