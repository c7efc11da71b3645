"""A smaller version of the published table on the CPU: 20 splits, one initialization each."""

import numpy as np
import pytest

import fishergcn

PUBLISHED = {  # accuracy in percent, loss with weight decay: Table 2 of the paper
    ("cora", "gcn"): (80.52, 1.07),
    ("cora", "fishergcn"): (80.70, 1.06),
    ("citeseer", "gcn"): (69.59, 1.36),
    ("citeseer", "fishergcn"): (69.80, 1.35),
}


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "method"), PUBLISHED)
def test_published_means_come_out_on_the_cpu(dataset, method):
    graph = fishergcn.datasets.load(dataset)
    splits = [fishergcn.splits.shuffled(graph, 2019 + index) for index in range(20)]
    records = fishergcn.train(graph, method, splits, settings="paper", workers=2)
    accuracy, loss = PUBLISHED[dataset, method]
    found = 100 * np.array([record.test_accuracy for record in records])
    # The splits are the published ones, so only the initialization differs. In results/table2 accuracies of one split
    # spread by 0.36 to 0.49 points over ten seeds, hence by 0.11 at most in a mean over 20 splits. The bound is more
    # than four times that: only settings or a method that are off exceed it.
    assert abs(found.mean() - accuracy) < 0.5
    assert abs(np.mean([record.test_loss for record in records]) - loss) < 0.015
