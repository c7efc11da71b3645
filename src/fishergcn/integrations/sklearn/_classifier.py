"""FisherGCN as an estimator of scikit-learn: semi-supervised, on a given graph or on the neighbors of the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from scipy import special
from torch import Tensor

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.imports import require
from fishergcn._base.tensors import check_outputs
from fishergcn._base.types import AnyArray, BoolArray, FloatArray, IntArray
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.execution import train
from fishergcn.graph import Graph, largest_component
from fishergcn.integrations.sklearn._table import (
    SCALINGS,
    UNKNOWN,
    Kind,
    Metric,
    Neighbors,
    Scaling,
    check_metric,
    first_equal,
    given_graph,
    known_labels,
    marked,
    same_rows,
    without_validation,
)
from fishergcn.models import Ensemble, TrainedModel, check_coverage, split_for
from fishergcn.splits import Split, held_out
from fishergcn.studies import CANDIDATES, fit
from fishergcn.training import TrainConfig, parse_method

if TYPE_CHECKING:
    from typing_extensions import Self

_PURPOSE = {"extra": "sklearn", "purpose": "FisherGCNClassifier"}
base: Any = require("sklearn.base", **_PURPOSE)
joblib: Any = require("joblib", **_PURPOSE)
metrics: Any = require("sklearn.metrics", **_PURPOSE)
multiclass: Any = require("sklearn.utils.multiclass", **_PURPOSE)
sklearn_utils: Any = require("sklearn.utils", **_PURPOSE)
class_weights: Any = require("sklearn.utils.class_weight", **_PURPOSE)
validation: Any = require("sklearn.utils.validation", **_PURPOSE)

# Parameters that are settings of the training under the same name.
_SETTINGS = (
    *("hidden", "learning_rate", "dropout", "weight_decay", "max_epochs"),
    *("samples", "rank", "radius", "order", "threshold"),
)


class FisherGCNClassifier(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[misc]
    """A graph convolutional network with an adversary on its graph, for few labels and many nodes.

    Transductive: :meth:`fit` takes all nodes, with -1, NaN or None for those of unknown class, and ``transduction_``
    holds the classes of all of them; ``predict(X)`` with the fitted X returns it. New nodes are classified one by one,
    through their links to the fitted ones, by :meth:`fishergcn.TrainedModel.logits_of_new`.

    Parameters
    ----------
    graph : None, "knn", matrix of shape (n_samples, n_samples), Graph, networkx.Graph or torch_geometric Data
        The graph between the rows of X, in their order: a symmetric, non-negative matrix, sparse or dense, or an
        object of which the links and weights are read. None is "knn": rows are linked if one is among the
        ``n_neighbors`` nearest of the other. A given graph does not follow when ``cross_val_score`` or
        ``GridSearchCV`` take rows out of X; :func:`hidden_label_scores` hides labels instead.
    method : str
        ``gcn``, or another that :func:`fishergcn.train` takes, such as ``gcn-t``, ``fishergcn-t`` or ``mlp``, which
        does not read the graph. ``"auto"`` lets :func:`fishergcn.fit` choose, by labels that it holds out; without
        ``validation_fraction`` (then it is a fifth) the chosen method is then trained on all labels.
    n_neighbors : int
        Of the kNN graph, and of new nodes; all others, with a warning, where there are fewer.
    metric : str or callable
        Of the kNN graph, as in :class:`sklearn.neighbors.NearestNeighbors`; not ``"precomputed"``, since the network
        needs features.
    scaling : {"global", "columns", "rows", "none"}
        What the network sees: X without its column means, divided by one number (its overall standard
        deviation) or column by column, and with a column of ones; rows divided by the sum of their magnitudes
        (for counts); or X itself. Sparse X is divided by root mean squares and not centered. The kNN graph is
        always that of X itself.
    class_weight : None, "balanced" or dict
        What a label counts by its class: all the same, inversely to how many have it, or {class: weight}, 1 for
        classes that are not named. It needs a method that trains a network.
    hidden : tuple of int
        Sizes of the hidden layers.
    dropout : float, optional
        By default 0.5, and none where a number is predicted, which it would draw to the mean.
    learning_rate, weight_decay, max_epochs, samples, rank, radius, order, threshold
        As in :class:`fishergcn.TrainConfig`; a ``rank`` that the graph does not have is lowered to one it has.
    validation_fraction : float, optional
        Share of the labels of each class to hold out (in whole percent). Training then stops when their loss
        has not improved for ``patience`` epochs, and the best weights are kept. Without it all labels are
        learned from, for ``max_epochs`` epochs.
    patience : int
        For ``validation_fraction``.
    coverage : float, optional
        Hold labels out (a fifth, or ``validation_fraction``), and set half of them aside, so that :meth:`predict_sets`
        can promise to contain the true class for this share of the fitted rows.
    n_jobs : int, optional
        Processes for the search of neighbors and for ``method="auto"``: None is 1, -1 all cores.
    verbose : int or bool
        Show epochs on standard error.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"auto"``.
    random_state : int, RandomState or None
        Of weights, dropout, perturbation and held-out labels.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, without those that stand for an unknown class.
    transduction_ : ndarray of shape (n_samples,)
        The predicted label of each fitted row, those with known labels included.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        Its probabilities.
    graph_ : csr_array of shape (n_samples, n_samples)
        The adjacency matrix.
    model_ : TrainedModel
        The network with its graph and scaled features: it can be saved and looked into.
    weights_ : list of ndarray
        The weights of the network.
    n_iter_ : int
        The number of epochs.
    loss_curve_, validation_curve_ : list of float
        Training loss and, with ``validation_fraction``, validation accuracy by epoch.
    selection_ : Selection or None
        How ``method="auto"`` chose.
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

    _usual_dropout = 0.5

    def __init__(
        self,
        graph: Any = None,
        *,
        method: str = "gcn",
        n_neighbors: int = 7,
        metric: Metric = "minkowski",
        scaling: Kind = "global",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        hidden: tuple[int, ...] = (64,),
        learning_rate: float = 0.01,
        dropout: float | None = None,
        weight_decay: float = 5e-4,
        max_epochs: int = 200,
        validation_fraction: float | None = None,
        patience: int = 50,
        coverage: float | None = None,
        samples: int = 5,
        rank: int = 10,
        radius: float = 0.1,
        order: int = 5,
        threshold: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.graph = graph
        self.method = method
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.scaling = scaling
        self.class_weight = class_weight
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.coverage = coverage
        self.samples = samples
        self.rank = rank
        self.radius = radius
        self.order = order
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from the rows with a label, and from the graph between all rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            All nodes.
        y : array of shape (n_samples,) or (n_samples, n_labels)
            Their labels; -1, NaN or None where unknown. A matrix of 0 and 1 for several labels a node, with a row of -1
            where they are unknown.
        sample_weight : array of shape (n_samples,), optional
            How much each label counts, in the mean over all of them; not read where it is unknown. A row of weight 0
            is not learned from, but stays in the graph.

        Returns
        -------
        FisherGCNClassifier
            Itself.
        """
        config = self._config()
        shape = np.asarray(y).shape
        several = len(shape) == 2 and shape[1] > 1
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_samples": 2}
        X, y = validation.validate_data(self, X, marked(y), **options, multi_output=several)
        if several:
            return self._fit_several(X, y, config, sample_weight)
        known = known_labels(y)
        multiclass.check_classification_targets(y[known])
        self.classes_, codes = np.unique(y[known], return_inverse=True)
        labels: IntArray = np.full(len(y), UNKNOWN, dtype=np.int64)
        labels[known] = codes
        weight = self._node_weight(X, y, known, sample_weight)
        self._link(X)
        self._scaling = Scaling.learn(X, self.scaling)
        graph = Graph(self.graph_, self._scaling.apply(X), labels, name="estimator")
        self._keep(self._trained(graph, config, weight))
        self.label_distributions_ = self._stated(self._precise.logits())
        self.transduction_ = self.classes_[self.label_distributions_.argmax(axis=1)]
        return self

    def _fit_several(self, X: Any, y: AnyArray, config: TrainConfig, sample_weight: Any) -> Self:
        """Learn several labels of each node."""
        if self.class_weight is not None:
            raise InputError("class_weight must be None where nodes have several labels, since there are no classes.")
        self.classes_ = np.arange(y.shape[1])
        known = ~(np.asarray(y) == UNKNOWN).all(axis=1)
        weight = None
        if sample_weight is not None:
            weight = np.where(known, validation._check_sample_weight(sample_weight, X, dtype=np.float64), 0.0)
        self._link(X)
        self._scaling = Scaling.learn(X, self.scaling)
        graph = Graph(self.graph_, self._scaling.apply(X), y, name="estimator", task="multilabel")
        self._keep(self._trained(graph, config, weight))
        self.label_distributions_ = self._stated(self._precise.logits())
        self.transduction_ = (self.label_distributions_ > self.model_.threshold).astype(np.int64)
        return self

    def _keep(self, model: TrainedModel) -> None:
        """Set what is known of a trained model."""
        self.model_ = model
        single = self.model_.members[0] if isinstance(self.model_, Ensemble) else self.model_
        [record] = single.records
        self.selection_ = self.model_.selection
        self.weights_ = {name: each[0].cpu().numpy() for name, each in single.weights.items()}
        self.n_iter_ = record.epochs
        self.loss_curve_ = record.curves.get("train_loss", [])
        self.validation_curve_ = (
            [] if self.validation_fraction is None else record.curves.get(f"val_{model.task.score}", [])
        )
        # In float64, so that what is predicted of a row does not depend on the rows beside it.
        self._precise = self.model_.to("cpu", torch.float64)

    def decision_function(self, X: Any, links: Any = None) -> FloatArray:
        """Return the logits of each class for new nodes; arguments as in :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (m, n_classes), or (m,) for two classes
            In the order of ``classes_``; of two, the logit of the second minus that of the first.
        """
        found: FloatArray = self._logits(X, links)[:, 0].cpu().numpy()
        if self._several:
            return found
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict_proba(self, X: Any, links: Any = None) -> FloatArray:
        """Return the probability of each class for new nodes, calibrated where labels were held out.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n_features)
            New nodes, or fitted ones.
        links : matrix of shape (m, n_samples), optional
            Weights of their links to the fitted nodes, non-negative. By default a row that equals a fitted one is
            that node, with its part of ``label_distributions_``, and others are linked to their ``n_neighbors``
            nearest ones; if the graph was given, X must then be the fitted X.

        Returns
        -------
        ndarray of shape (m, n_classes)
            In the order of ``classes_``; of several labels a node the probability of each.
        """
        return self._stated(self._logits(X, links))

    def predict(self, X: Any, links: Any = None) -> AnyArray:
        """Return the most probable class of new nodes; arguments as in :meth:`predict_proba`."""
        probabilities = self.predict_proba(X, links)
        if self._several:
            return np.asarray(probabilities > self.model_.threshold, dtype=np.int64)
        found: AnyArray = self.classes_[probabilities.argmax(axis=1)]
        return found

    @property
    def _several(self) -> bool:
        """Whether nodes have several labels."""
        return bool(self.model_.graph.task == "multilabel")

    def predict_sets(self) -> BoolArray:
        """Return which classes are in the set of each fitted row, (n_samples, n_classes), as ``coverage`` promises.

        New rows have none: what is promised holds for nodes that were in the graph.
        """
        validation.check_is_fitted(self)
        return self.model_.predict_sets()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of :meth:`predict` on rows whose class is known; of several labels, of all of them."""
        if np.ndim(y) == 2 and np.shape(y)[1] > 1:
            rows = ~(np.asarray(marked(y)) == UNKNOWN).all(axis=1)
            return float(metrics.accuracy_score(np.asarray(y)[rows], self.predict(X)[rows]))
        y = validation.column_or_1d(marked(y))
        known = known_labels(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(metrics.accuracy_score(y[known], self.predict(X)[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _config(self) -> TrainConfig:
        if self.method != "auto":
            parse_method(self.method)
        check_choice("scaling", self.scaling, SCALINGS)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_metric(self.metric)
        stopping: dict[str, Any] = {"stopping": "none"}
        if self.validation_fraction is not None:
            check_real("validation_fraction", self.validation_fraction, above=0.0, below=1.0)
            stopping = {"stopping": "patience", "patience": self.patience, "test_at": "best-val"}
        if self.coverage is not None:
            check_coverage(self.coverage)
        chosen = {name: getattr(self, name) for name in _SETTINGS}
        chosen["dropout"] = self._usual_dropout if self.dropout is None else self.dropout
        return TrainConfig(**chosen, **stopping, scaling="none")

    def _node_weight(self, X: Any, y: AnyArray, known: AnyArray, sample_weight: Any) -> FloatArray | None:
        """Return how much each row counts, 0 for those of unknown class; None where all labels count the same."""
        if sample_weight is None and self.class_weight is None:
            return None
        weight: FloatArray = np.zeros(len(y))
        given = validation._check_sample_weight(sample_weight, X, dtype=np.float64)
        weight[known] = given[known] * class_weights.compute_sample_weight(self.class_weight, y[known])
        if (weight < 0).any() or not (weight > 0).any():
            raise InputError("sample_weight and class_weight must be positive for some label and negative for none.")
        return weight

    def _link(self, X: Any) -> None:
        """Set A, and how new nodes are linked to it."""
        self._neighbors: Neighbors | None = None
        self._fitted = X
        if self.graph is None or isinstance(self.graph, str):
            check_choice("graph", "knn" if self.graph is None else self.graph, ("knn",))
            self._neighbors = Neighbors(X, self.n_neighbors, self.metric, self.n_jobs)
            self.graph_ = self._neighbors.adjacency
            return
        self.graph_ = given_graph(self.graph).adjacency
        if self.graph_.shape[0] != X.shape[0]:
            raise InputError(
                f"graph must have as many nodes as X has rows, {X.shape[0]}, got {self.graph_.shape[0]}; "
                "cross-validation takes rows out of X but not out of graph: hidden_label_scores hides labels instead."
            )

    def _logits(self, X: Any, links: Any) -> Tensor:
        """Return the logits of fitted and new nodes, (m, 1, C)."""
        validation.check_is_fitted(self)
        X = validation.validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        if links is not None:
            return self._precise.logits_of_new(links, self._scaling.apply(X))
        if same_rows(X, self._fitted):
            return self._precise.logits()
        if self._neighbors is None:
            raise InputError(
                "links must be given for new nodes, since the graph was given; the classes of the fitted nodes are in "
                "transduction_."
            )
        found = self._precise.logits_of_new(self._neighbors.links(X), self._scaling.apply(X))
        # Fitted rows are answered as in the graph, whatever stands beside them.
        node = torch.from_numpy(first_equal(X, self._fitted))
        found[node >= 0] = self._precise.logits()[node[node >= 0]]
        return found

    def _stated(self, logits: Tensor) -> FloatArray:
        """Return the probabilities of the only run, n x C."""
        found = check_outputs(logits)[:, 0].double().cpu().numpy()
        return special.expit(found) if self._several else self.model_.calibration.apply(found)

    def _trained(self, graph: Graph, config: TrainConfig, weight: FloatArray | None) -> TrainedModel:
        """Return the model that is asked for, on all labels or with some held out."""
        seed = int(sklearn_utils.check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        size = int(largest_component(graph.adjacency).sum())
        config = dataclasses.replace(config, rank=max(min(config.rank, size - 1), 1))
        percent = 20 if self.validation_fraction is None else round(100 * self.validation_fraction)
        method, held = self.method, self.validation_fraction is not None or self.coverage is not None
        if method == "auto" or held:
            split = held_out(graph, min(max(percent, 1), 99), seed=seed)
            split = dataclasses.replace(split, node_weight=weight)
        if method == "auto":
            return self._chosen(graph, split, config, seed)
        larger, aside = graph, None
        if self.coverage is not None:
            split, aside = split_for(graph, split, self.coverage, seed)
        if not held:
            larger, split = without_validation(graph, weight)
        place: dict[str, Any] = {"device": self.device, "progress": bool(self.verbose)}
        [record] = train(larger, method, split, [seed], config, keep_weights=True, **place)
        if record.status != "ok":
            raise ConvergenceError(f"training diverged in epoch {record.epochs}; try a lower learning_rate.")
        # The node that stood in for validation nodes has no links: the network is one of the graph without it.
        record = dataclasses.replace(record, graph_digest=graph.digest)
        split = Split(split.name, split.train, split.val[split.val < graph.num_nodes], split.test)
        made = TrainedModel.from_records(graph, record, split)
        return made if aside is None else made.set_aside(aside, float(self.coverage or 0.0))

    def _chosen(self, graph: Graph, split: Split, config: TrainConfig, seed: int) -> TrainedModel:
        """Return what :func:`fishergcn.fit` chooses; features are scaled already."""
        settings = {name: getattr(config, name) for name in (*_SETTINGS, "scaling")} | {"patience": self.patience}
        if self.dropout is None:
            del settings["dropout"]
        weighted = [each.name for each in CANDIDATES if each.trained and each.name == each.method]
        return fit(
            graph,
            split,
            self.device,
            methods=None if split.node_weight is None else weighted,
            settings=settings,
            workers=joblib.effective_n_jobs(self.n_jobs),
            progress=bool(self.verbose),
            refit=self.validation_fraction is None,
            coverage=self.coverage,
            seed=seed,
        )
