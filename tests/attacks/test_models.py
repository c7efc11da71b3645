"""Stacks: tested on the plain graph they score as in training, and operators are those of the package."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from fishergcn import high_order, renormalized
from fishergcn.attacks._models import Stack
from fishergcn.attacks._operators import dense_high_order, operator_of
from fishergcn.errors import InputError
from fishergcn.operators import DenseOperator

CPU = torch.device("cpu")


@pytest.mark.parametrize("method", ["gcn", "fishergcn-t"])
def test_the_plain_graph_gives_the_scores_of_training(graph, config, trained, method):
    _, records, stack = trained(method)
    operator = operator_of(graph.adjacency, stack.method.high_order, config, CPU)
    loss, accuracy = stack.test(operator)
    assert accuracy.tolist() == [record.test_accuracy for record in records]
    assert np.allclose(loss, [record.test_cross_entropy for record in records], rtol=1e-12)
    one = stack.only(1).test(operator)
    assert one[1].tolist() == accuracy[1:].tolist()


def test_a_run_that_broke_is_refused(trained, runs):
    problem, records, _ = trained("gcn")
    broken = [records[0], dataclasses.replace(records[1], status="diverged")]
    with pytest.raises(InputError, match="gcn on planted, split b: diverged"):
        Stack.of(problem, runs, broken, CPU)


def test_dense_algorithm_1_is_the_sparse_one(graph):
    for order, threshold in ((1, 0.0), (5, 1e-4), (3, 0.02)):
        dense = dense_high_order(graph.adjacency, order, threshold, CPU)
        assert np.allclose(dense, high_order(graph.adjacency, order, threshold).toarray(), rtol=0, atol=1e-14)


def test_operators_multiply(graph, config):
    rng = np.random.default_rng(0)
    z = rng.standard_normal((graph.num_nodes, 2, 3))
    for high, matrix in ((False, renormalized(graph.adjacency)), (True, high_order(graph.adjacency))):
        wanted = np.einsum("ij,jbd->ibd", matrix.toarray(), z)
        dense = DenseOperator(torch.as_tensor(matrix.toarray()))
        for operator in (operator_of(graph.adjacency, high, config, CPU), dense):
            assert np.allclose(operator.propagate(torch.as_tensor(z)), wanted, rtol=0, atol=1e-13)
