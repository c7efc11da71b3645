"""Handwritten digits from five labels per class: FisherGCN and scikit-learn's semi-supervised classifiers.

All methods get the same labels and predict the same remaining rows; differences are paired by the draw of labels.

    python examples/sklearn_digits.py --draws 10
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from fishergcn.integrations.sklearn import FisherGCNClassifier

UNKNOWN = -1


def network(method: str, epochs: int) -> Callable[..., Any]:
    def predict(X: Any, y: Any, draw: int) -> Any:
        return FisherGCNClassifier(method=method, max_epochs=epochs, random_state=draw).fit(X, y).transduction_

    return predict


def spreading(alpha: float) -> Callable[..., Any]:
    def predict(X: Any, y: Any, draw: int) -> Any:
        return LabelSpreading(kernel="knn", n_neighbors=7, alpha=alpha, max_iter=1000).fit(X, y).transduction_

    return predict


def nearest(neighbors: int) -> Callable[..., Any]:
    def predict(X: Any, y: Any, draw: int) -> Any:
        known = y != UNKNOWN
        return KNeighborsClassifier(neighbors).fit(X[known], y[known]).predict(X)

    return predict


def draw_labels(y: Any, each: int, draw: int) -> Any:
    rng = np.random.default_rng(draw)
    chosen = np.concatenate([rng.choice(np.flatnonzero(y == label), each, replace=False) for label in np.unique(y)])
    partly = np.full_like(y, UNKNOWN)
    partly[chosen] = y[chosen]
    return partly


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--labels", type=int, default=5, help="per class")
    parser.add_argument("--epochs", type=int, default=200)
    args = parser.parse_args()
    methods = {
        "FisherGCNClassifier (gcn)": network("gcn", args.epochs),
        "on the high-order graph (gcn-t)": network("gcn-t", args.epochs),
        "with an adversary, too (fishergcn-t)": network("fishergcn-t", args.epochs),
        "its control (gcn-t-x5)": network("gcn-t-x5", args.epochs),
        "LabelSpreading (knn, alpha 0.2)": spreading(0.2),
        "LabelSpreading (knn, alpha 0.9)": spreading(0.9),
        "KNeighborsClassifier (1)": nearest(1),
        "KNeighborsClassifier (3)": nearest(3),
    }

    X, y = load_digits(return_X_y=True)
    accuracies: dict[str, Any] = {name: [] for name in methods}
    seconds = dict.fromkeys(methods, 0.0)
    for draw in range(args.draws):
        partly = draw_labels(y, args.labels, draw)
        hidden = partly == UNKNOWN
        for name, predict in methods.items():
            start = time.perf_counter()
            predicted = predict(X, partly, draw)
            seconds[name] += time.perf_counter() - start
            accuracies[name].append(np.mean(predicted[hidden] == y[hidden]))

    first = np.array(accuracies[next(iter(methods))])
    print(f"digits, {args.labels} labels a class, {args.draws} draws; in percent; time and difference: to the first")
    print(f"{'':36}{'mean':>7}{'sd':>6}{'time':>6}{'difference':>20}{'first better':>14}")
    for name, values in accuracies.items():
        own = 100 * np.array(values)
        time_ratio = seconds[name] / seconds[next(iter(methods))]
        line = f"{name:36}{own.mean():7.2f}{own.std(ddof=min(1, args.draws - 1)):6.2f}{time_ratio:6.2f}"
        if name != next(iter(methods)):
            gain = 100 * first - own
            error = gain.std(ddof=min(1, args.draws - 1)) / np.sqrt(args.draws)
            line += f"{gain.mean():+11.2f} ± {error:4.2f} se{(gain > 0).sum():9d} of {args.draws}"
        print(line)
    return accuracies


if __name__ == "__main__":
    main()
