"""Connected components: numbered by node, the largest as a mask, the same for every form of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.graph import Graph, components, largest_component

TWO_PAIRS = np.kron(np.eye(2), [[0, 1], [1, 0]])


def test_components_are_numbered_from_zero_and_ignore_directions():
    arcs = np.zeros((5, 5))
    arcs[0, 3] = arcs[4, 1] = 1
    numbers = components(arcs)
    assert np.array_equal(numbers, components(sparse.csr_array(arcs.T)))
    assert sorted(set(numbers.tolist())) == [0, 1, 2]
    assert numbers[0] == numbers[3]
    assert numbers[1] == numbers[4]
    assert Graph(arcs + arcs.T).num_components == 3


def test_largest_component_takes_the_first_among_equals():
    assert largest_component(TWO_PAIRS).tolist() == [True, True, False, False]
    assert largest_component(sparse.csr_array(TWO_PAIRS)).dtype == bool
    with pytest.raises(InputError, match=r"got a Graph; give graph\.adjacency"):
        largest_component(Graph(TWO_PAIRS))
