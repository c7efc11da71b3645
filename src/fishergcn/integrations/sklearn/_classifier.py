"""FisherGCN as an estimator of scikit-learn: semi-supervised, on a given graph or on the neighbors of the data."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.execution import train
from fishergcn.graph import Graph, largest_component
from fishergcn.integrations.sklearn._data import UNKNOWN, known_labels, same_rows, without_validation
from fishergcn.integrations.sklearn._new_nodes import join, probabilities
from fishergcn.integrations.sklearn._scaling import SCALINGS, Kind, Scaling
from fishergcn.propagation import high_order_rows, renormalized_rows
from fishergcn.splits import held_out
from fishergcn.training import TrainConfig, parse_method, propagation_of

if TYPE_CHECKING:
    from typing_extensions import Self

_PURPOSE = {"extra": "sklearn", "purpose": "FisherGCNClassifier"}
base: Any = require("sklearn.base", **_PURPOSE)
metrics: Any = require("sklearn.metrics", **_PURPOSE)
multiclass: Any = require("sklearn.utils.multiclass", **_PURPOSE)
neighbors: Any = require("sklearn.neighbors", **_PURPOSE)
sklearn_utils: Any = require("sklearn.utils", **_PURPOSE)
validation: Any = require("sklearn.utils.validation", **_PURPOSE)

# Parameters that are settings of the training under the same name.
_SETTINGS = (
    *("hidden", "learning_rate", "dropout", "weight_decay", "max_epochs"),
    *("samples", "rank", "radius", "order", "threshold"),
)


class FisherGCNClassifier(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[misc]
    """A graph convolutional network with an adversary on its graph, for few labels and many nodes.

    Transductive: :meth:`fit` takes all nodes, with -1 for those of unknown class, and ``transduction_`` holds
    the classes of all of them. New nodes are classified one by one, through their links to the fitted ones.

    Parameters
    ----------
    graph : None, "knn", or matrix of shape (n_samples, n_samples)
        The graph between the rows of X: symmetric, non-negative, sparse or dense. None is "knn": rows are
        linked if one is among the ``n_neighbors`` nearest of the other. A given matrix does not follow when
        ``cross_val_score`` or ``GridSearchCV`` take rows out of X; they need the kNN graph.
    method : str
        ``fishergcn-t``, or another of :data:`fishergcn.METHODS`; also ``mlp``, which does not read the graph.
    n_neighbors : int
        Of the kNN graph, and of new nodes; all others, with a warning, where there are fewer.
    metric : str
        Of the kNN graph, as in :class:`sklearn.neighbors.NearestNeighbors`.
    scaling : {"global", "columns", "rows", "none"}
        What the network sees: X without its column means, divided by one number (its overall standard
        deviation) or column by column, and with a column of ones; rows divided by the sum of their magnitudes
        (for counts); or X itself. Sparse X is divided by root mean squares and not centered. The kNN graph is
        always that of X itself.
    hidden : tuple of int
        Sizes of the hidden layers.
    learning_rate, dropout, weight_decay, max_epochs, samples, rank, radius, order, threshold
        As in :class:`fishergcn.TrainConfig`; a ``rank`` that the graph does not have is lowered to one it has.
    validation_fraction : float, optional
        Share of the labels of each class to hold out (in whole percent). Training then stops when their loss
        has not improved for ``patience`` epochs, and the best weights are kept. Without it all labels are
        learned from, for ``max_epochs`` epochs.
    patience : int
        For ``validation_fraction``.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"auto"``.
    random_state : int, RandomState or None
        Of weights, dropout, perturbation and held-out labels.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, without -1.
    transduction_ : ndarray of shape (n_samples,)
        The predicted label of each fitted row, those with known labels included.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Its probabilities.
    graph_ : csr_array of shape (n_samples, n_samples)
        The adjacency matrix.
    weights_ : list of ndarray
        The weights of the network.
    n_iter_ : int
        The number of epochs.
    loss_curve_, validation_curve_ : list of float
        Training loss and, with ``validation_fraction``, validation accuracy by epoch.
    n_features_in_ : int
        The number of columns of X.

    Notes
    -----
    Labels that are text can be mixed with -1 only in an array of dtype object, as in
    :class:`sklearn.semi_supervised.SelfTrainingClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> partly = np.where(np.arange(200) < 20, y, -1)
    >>> model = FisherGCNClassifier(random_state=0).fit(X, partly)
    >>> float((model.transduction_ == y).mean()) > 0.9
    True
    """

    def __init__(
        self,
        graph: Any = None,
        *,
        method: str = "fishergcn-t",
        n_neighbors: int = 7,
        metric: str = "minkowski",
        scaling: Kind = "global",
        hidden: tuple[int, ...] = (64,),
        learning_rate: float = 0.01,
        dropout: float = 0.5,
        weight_decay: float = 5e-4,
        max_epochs: int = 200,
        validation_fraction: float | None = None,
        patience: int = 50,
        samples: int = 5,
        rank: int = 10,
        radius: float = 0.1,
        order: int = 5,
        threshold: float = 1e-4,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.graph = graph
        self.method = method
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.scaling = scaling
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.samples = samples
        self.rank = rank
        self.radius = radius
        self.order = order
        self.threshold = threshold
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the rows with a label, and from the graph between all rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            All nodes.
        y : array of shape (n_samples,)
            Their labels, -1 where unknown.

        Returns
        -------
        FisherGCNClassifier
            Itself.
        """
        method, config = parse_method(self.method), self._config()
        if not method.trained:
            raise InputError(
                f"method {method.name!r} trains no network; use sklearn's LabelSpreading or DummyClassifier."
            )
        X, y = validation.validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
        known = known_labels(y)
        multiclass.check_classification_targets(y[known])
        self.classes_, codes = np.unique(y[known], return_inverse=True)
        labels: IntArray = np.full(len(y), UNKNOWN, dtype=np.int64)
        labels[known] = codes
        self.graph_ = self._adjacency(X)
        self._scaling = Scaling.learn(X, self.scaling)
        self._features = self._scaling.apply(X)
        self._train(Graph(self.graph_, self._features, labels, name="estimator"), config)

        self._propagation = propagation_of(Graph(self.graph_), method, config)
        self._walks = (config.order, config.threshold) if method.high_order else None
        everyone = np.arange(len(y))
        self.label_distributions_ = probabilities(self.weights_, self._features, self._propagation, everyone)
        self.transduction_ = self.classes_[self.label_distributions_.argmax(axis=1)]
        return self

    def predict_proba(self, X: Any, links: Any = None) -> FloatArray:
        """Return the probability of each class for new nodes.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n_features)
            New nodes.
        links : matrix of shape (m, n_samples), optional
            Weights of their links to the fitted nodes, non-negative. By default they are linked to their
            ``n_neighbors`` nearest ones; if the graph was given as a matrix, X must then be the fitted X, and
            the result is ``label_distributions_``.

        Returns
        -------
        ndarray of shape (m, n_classes)
            In the order of ``classes_``.
        """
        validation.check_is_fitted(self)
        X = validation.validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        if links is None and self._neighbors is None:
            if not same_rows(X, self._fitted):
                raise InputError(
                    "links must be given for new nodes, since the graph was given as a matrix; the classes of "
                    "the fitted nodes are in transduction_."
                )
            return self.label_distributions_.copy()
        matrix = self._nearest(X) if links is None else self._checked_links(links, X.shape[0])
        if not parse_method(self.method).uses_graph:
            rows, own = sparse.csr_array(matrix.shape), np.ones(matrix.shape[0])
        elif self._walks is None:
            rows, own = renormalized_rows(matrix, self.graph_)
        else:
            rows, own = high_order_rows(matrix, self.graph_, self._propagation, *self._walks)
        stack: Any = sparse.vstack if sparse.issparse(self._features) else np.vstack
        features = stack([self._features, self._scaling.apply(X)])
        new = np.arange(self.graph_.shape[0], features.shape[0])
        return probabilities(self.weights_, features, join(self._propagation, rows, own), new)

    def predict(self, X: Any, links: Any = None) -> AnyArray:
        """Return the most probable class of new nodes; arguments as in :meth:`predict_proba`."""
        best = self.predict_proba(X, links).argmax(axis=1)
        found: AnyArray = self.classes_[best]
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of :meth:`predict` on the rows whose class is known."""
        y = validation.column_or_1d(y)
        known = known_labels(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(metrics.accuracy_score(y[known], self.predict(X)[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _config(self) -> TrainConfig:
        check_choice("scaling", self.scaling, SCALINGS)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        stopping: dict[str, Any] = {"stopping": "none"}
        if self.validation_fraction is not None:
            check_real("validation_fraction", self.validation_fraction, above=0.0, below=1.0)
            stopping = {"stopping": "patience", "patience": self.patience, "test_at": "best-val"}
        chosen = {name: getattr(self, name) for name in _SETTINGS}
        return TrainConfig(**chosen, **stopping, scaling="none")

    def _adjacency(self, X: Any) -> CSRArray:
        """Return A; remember how new nodes are linked to it."""
        self._neighbors, self._fitted = None, None
        if self.graph is not None and not isinstance(self.graph, str):
            self._fitted = X
            adjacency = Graph(self.graph).adjacency
            if adjacency.shape[0] != X.shape[0]:
                raise InputError(
                    f"graph must have as many nodes as X has rows, {X.shape[0]}, got {adjacency.shape[0]}; "
                    "cross-validation takes rows out of X but not out of graph: hide labels by -1 instead."
                )
            return adjacency
        check_choice("graph", "knn" if self.graph is None else self.graph, ("knn",))
        count = min(self.n_neighbors, X.shape[0] - 1)
        if count < self.n_neighbors:
            warnings.warn(
                f"n_neighbors is {self.n_neighbors}, but a row of X has only {count} others: all rows are linked.",
                UserWarning,
                stacklevel=3,
            )
        self._neighbors = neighbors.NearestNeighbors(n_neighbors=count, metric=self.metric).fit(X)
        # Without an argument a row is not its own neighbor.
        arcs = sparse.csr_array(self._neighbors.kneighbors_graph())
        symmetric: Any = arcs.maximum(arcs.T)
        return sparse.csr_array(symmetric)

    def _nearest(self, X: Any) -> Any:
        if self._neighbors is None:
            raise AssertionError("predict_proba asks for links where the graph was given")
        return sparse.csr_array(self._neighbors.kneighbors_graph(X))

    def _checked_links(self, links: Any, rows: int) -> Any:
        matrix = sparse.csr_array(links, dtype=np.float64)
        expected = (rows, self.graph_.shape[0])
        if matrix.shape != expected:
            raise InputError(f"links must have shape {expected}, got {matrix.shape}.")
        if not (np.isfinite(matrix.data).all() and (matrix.data >= 0).all()):
            raise InputError("links must be finite and not negative.")
        return matrix

    def _train(self, graph: Graph, config: TrainConfig) -> None:
        """Set the weights and what is known of their training."""
        seed = int(sklearn_utils.check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        size = int(largest_component(graph.adjacency).sum())
        config = TrainConfig.from_dict({**config.to_dict(), "rank": max(min(config.rank, size - 1), 1)})
        if self.validation_fraction is None:
            graph, split = without_validation(graph)
        else:
            percent = min(max(round(100 * self.validation_fraction), 1), 99)
            split = held_out(graph, percent, seed=seed)
        [record] = train(graph, self.method, split, seeds=[seed], config=config, device=self.device, keep_weights=True)
        if record.status != "ok" or record.weights is None:
            raise ConvergenceError(f"training diverged in epoch {record.epochs}; try a lower learning_rate.")
        self.weights_ = list(record.weights)
        self.n_iter_ = record.epochs
        self.loss_curve_ = record.curves["train_loss"]
        self.validation_curve_ = [] if self.validation_fraction is None else record.curves["val_accuracy"]
