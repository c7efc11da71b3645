"""A trained model: networks of one method, side by side, with the graph that they were trained on.

    p = calibrated(logits)

of the network on the graph itself, without perturbation and without dropout: softmax(logits), or what is better on
validation nodes. A method that trains nothing is what it makes of the nodes that it learned from: its logits are log p.
In other tasks than classification logits are what the task makes of them: see ``training/tasks``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse, special
from torch import Tensor

from fishergcn._base.checks import check_integer
from fishergcn._base.tensors import check_outputs
from fishergcn._base.types import AnyArray, BoolArray, CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn._settings.choices import Scaling
from fishergcn.errors import InputError
from fishergcn.execution import check_graph
from fishergcn.graph import Graph, known_nodes, target_words
from fishergcn.models._calibrated import Calibrated, calibration_of
from fishergcn.models._card import model_card, model_html
from fishergcn.models._decisions import decide
from fishergcn.models._facts import MemberFacts
from fishergcn.models._folder import class_names_of, write_folder
from fishergcn.models._making import network_arguments, record_arguments
from fishergcn.models._matching import (
    check_links,
    links_to,
    matched_features,
    moved_labels,
    node_names_of,
    nodes_in_words,
    stacked_features,
)
from fishergcn.models._other_tasks import check_classes, interval_around
from fishergcn.models._predictions import Asked, prediction_rows, predictions_csv
from fishergcn.models._scoring import score_on
from fishergcn.models._selection import Selection
from fishergcn.models._sets import Aside, guarantee, known_aside, predict_sets, with_aside
from fishergcn.models._strangers import cautions
from fishergcn.nn import GCN, Features, FeatureScaling, View, by_layer, full_view, local_view, make_features, with_links
from fishergcn.operators import Operator, SparseMatrix
from fishergcn.splits import Split
from fishergcn.training import (
    THRESHOLD,
    Method,
    Problem,
    Run,
    RunRecord,
    Targets,
    Task,
    TrainConfig,
    find_task,
    network_inputs,
    scores,
    targets_on,
)

if TYPE_CHECKING:
    from fishergcn.models._explanation import Explanation


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """R ≥ 1 networks of one method on one graph, or what ``lp`` or ``majority`` say without any.

    :meth:`from_records` makes one of what :func:`fishergcn.train` returns, :func:`load_model` of a folder, and
    :meth:`from_network` of a network that was trained elsewhere. Geometry and attacks take it from there.

    Attributes
    ----------
    graph : Graph
        The graph they were trained on, with features; its classes and nodes have their names.
    method : Method
        Which propagation matrix: that of the renormalized graph, or the high-order one.
    config : TrainConfig
        All settings. Of a network that was trained elsewhere only ``scaling`` is known.
    weights : dict of Tensor
        What the networks have learned, by name: W^l as ``weights.l``, shape (R, d_l, d_{l+1}), biases b^l as
        ``biases.l``, …; empty for a function, and for a method that trains nothing.
    records : tuple of RunRecord
        What came out of training: scores, epochs, seconds, versions.
    runs : tuple of Run
        Split and seed of each network; empty where the split is not known.
    chosen_from : int
        From how many runs this one was chosen.
    chosen_by : str
        By which validation score.
    selection : Selection, or None
        How :func:`fishergcn.fit` chose method and settings.
    aside : Aside, or None
        Labeled nodes that were set aside for prediction sets (``aside.nodes``), and how sets are made of them.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> links, names = [(0, 1), (1, 2), (2, 3)], ["left", "right"]
    >>> graph = fishergcn.Graph.from_edges(links, features=np.eye(4), labels=[0, 0, 1, 1], class_names=names)
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, 2, fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> models = TrainedModel.from_records(graph, records, split)
    >>> len(models), models.logits().shape, models.test()[1].tolist()
    (2, torch.Size([4, 2, 2]), [1.0, 1.0])
    >>> model = models.only(0)
    >>> model.predict().tolist(), model.predictions_csv().splitlines()[0]
    ([0, 0, 1, 1], 'node,class,p:left,p:right')
    >>> longer = fishergcn.Graph.from_edges([*links, (3, 4)], features=np.eye(5, 4))
    >>> model.predict(longer).tolist(), model.new_nodes(longer)  # a node that was not there at training
    ([0, 0, 1, 1, 1], ('4',))
    """

    graph: Graph
    method: Method
    config: TrainConfig
    weights: Mapping[str, Tensor]
    records: tuple[RunRecord, ...] = ()
    runs: tuple[Run, ...] = ()
    chosen_from: int = 1
    selection: Selection | None = None
    chosen_by: str = "accuracy"
    aside: Aside | None = None
    _learned_from: tuple[IntArray, ...] = ()  # the training nodes, for a method that trains nothing
    _scaling: FeatureScaling | None = None
    _sizes: tuple[Mapping[str, int], ...] = ()
    _function: Callable[[Operator], Tensor] | None = None
    _matrix: CSRArray | None = None
    _matrix_is_given: bool = False
    _calibration: Calibrated | None = None  # as it was chosen before; by validation nodes otherwise
    _outputs: int | None = None  # of a network trained elsewhere, which may know more classes than the graph has

    @classmethod
    def of(
        cls, problem: Problem, runs: Sequence[Run], records: Sequence[RunRecord], device: torch.device | str = "cpu"
    ) -> TrainedModel:
        """Gather networks that were trained on one problem; a run that diverged is an error, it has no network."""
        splits = {run.split.name: run.split for run in runs}.values()
        scaling = problem.scaling if problem.method.trained else None
        made = cls.from_records(problem.graph, records, splits, device)
        return dataclasses.replace(made, _matrix=problem.propagation, _scaling=scaling)

    @classmethod
    def from_records(
        cls,
        graph: Graph,
        records: RunRecord | Iterable[RunRecord],
        splits: Split | str | Iterable[Split | str],
        device: torch.device | str = "cpu",
    ) -> TrainedModel:
        """Take what :func:`fishergcn.train` returned with ``keep_weights=True`` for this graph and these splits."""
        return cls(**record_arguments(graph, records, splits, device))

    @classmethod
    def from_network(
        cls,
        network: GCN | Callable[[Operator], Tensor],
        graph: Graph,
        propagation: SparseMatrix | MatrixLike | None = None,
        scaling: Scaling = "rows",
    ) -> TrainedModel:
        """Put a network that was trained elsewhere on a graph, and raise where the two do not fit.

        Parameters
        ----------
        network : GCN or callable
            A GCN, whose weights are copied, or any function that maps an operator (with ``@`` and ``propagate``) to
            logits (n, C) and closes over its features.
        graph : Graph
            With the features that a GCN was trained on.
        propagation : SparseMatrix or matrix of shape (n, n), optional
            Ã; that of the renormalized graph by default.
        scaling : {"rows", "none", "columns"}
            What a GCN sees of the features, as in training: see :class:`fishergcn.TrainConfig`.
        """
        return cls(**network_arguments(network, graph, propagation, scaling))

    def __len__(self) -> int:
        return len(self._first) if self.weights else len(self._learned_from) or 1

    @property
    def _first(self) -> Tensor:
        return next(iter(self.weights.values()))

    def __repr__(self) -> str:
        size = f"{self.graph.num_nodes} nodes, {target_words(self.graph)}"
        if self._outputs is not None:
            size = f"{self.graph.num_nodes} nodes, {self.num_classes} classes"
        if len(self.records) != 1:
            what = f"{len(self)} networks, {self.method.name!r}" if self.records else "a network trained elsewhere"
            return f"TrainedModel({what}, {size})"
        [found] = self.records
        main = f"test_{self.task.score}"
        tested = f"{main}={getattr(found, main):.4f}, " if np.isfinite(getattr(found, main)) else ""
        return (
            f"TrainedModel({found.dataset!r}, {found.method!r}, {found.split!r}, seed={found.seed}, {size}, "
            f"{tested}chosen from {self.chosen_from})"
        )

    def _repr_html_(self) -> str:
        """Return a short table for notebooks."""
        return model_html(self)

    def only(self, run: int | None = None) -> TrainedModel:
        """Return a model of one of the networks; without a number that of the only one, or raise."""
        if run is None:
            if len(self) > 1:
                raise InputError(f"the model holds {len(self)} networks, and one is needed: model.only(i) takes one.")
            return self
        at = slice(run, check_integer("run", run, minimum=0, maximum=len(self) - 1) + 1)
        return dataclasses.replace(
            self,
            weights={name: each[at] for name, each in self.weights.items()},
            _learned_from=self._learned_from[at],
            records=self.records[at],
            runs=self.runs[at],
            _sizes=self._sizes[at],
            _matrix=self.propagation,
        )

    def to(self, device: torch.device | str, dtype: torch.dtype) -> TrainedModel:
        """Return the model on a device, in a precision; features are prepared anew in it."""
        if (torch.device(device), dtype) == (self.device, self.dtype):
            return self
        weights = {name: each.to(device, dtype) for name, each in self.weights.items()}
        return dataclasses.replace(self, weights=weights, _matrix=self.propagation)

    @property
    def device(self) -> torch.device:
        """Where the networks run."""
        return self._first.device if self.weights else torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the networks."""
        return self._first.dtype if self.weights else torch.float64

    @property
    def num_classes(self) -> int:
        """C."""
        return self.graph.num_classes if self._outputs is None else self._outputs

    @property
    def task(self) -> Task:
        """What is predicted of a node."""
        return find_task(self.graph.task)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, of the labels or of the number; their numbers where they have none."""
        return class_names_of(self.graph)

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes; their numbers where they have none."""
        return node_names_of(self.graph)

    @property
    def record(self) -> RunRecord:
        """What came out of training the only network."""
        if not self.records:
            raise InputError("the network was trained elsewhere: there is no record of it.")
        return self.only().records[0]

    @property
    def split_sizes(self) -> Mapping[str, int]:
        """The number of nodes for training, validation and test of the only network."""
        return self.only()._sizes[0]

    @cached_property
    def propagation(self) -> CSRArray:
        """Ã, computed from the graph at the first use."""
        return self.method.matrix.of(self.graph, self.config) if self._matrix is None else self._matrix

    @cached_property
    def operator(self) -> SparseMatrix:
        """Ã where the networks run."""
        return SparseMatrix.from_scipy(self.propagation, device=self.device, dtype=self.dtype)

    @cached_property
    def scaling(self) -> FeatureScaling:
        """How features are scaled: as those of the graph were in training."""
        return self._scaling or FeatureScaling.learn(network_inputs(self.graph, self.config), self.config.scaling)

    @cached_property
    def features(self) -> Features:
        """X as the networks were trained with."""
        return self._prepare(network_inputs(self.graph, self.config))

    @cached_property
    def targets(self) -> Targets:
        """The test nodes of each network."""
        if not known_nodes(self.graph).any():
            raise InputError("the graph has no labels to test with.")
        if not self.runs:
            raise InputError(
                "the model does not know its test nodes: it was trained elsewhere, or saved by an older version."
            )
        return targets_on(self.graph, [run.split for run in self.runs], "test", None, self.device, self.dtype)

    def operator_of(self, graph: Graph) -> SparseMatrix:
        """Return Ã of another graph, by the method and the settings of the model, where the networks run."""
        self._check_for_other_graphs()
        matrix = self.method.matrix.of(graph, self.config)
        return SparseMatrix.from_scipy(matrix, device=self.device, dtype=self.dtype)

    def _check_for_other_graphs(self) -> None:
        if self._function is not None or self._matrix_is_given:
            raise InputError("the model was made with a function or a matrix of its own: it is for its graph alone.")

    def prepare_features(self, features: MatrixLike) -> Features:
        """Return other features of the graph's nodes as the networks want them, e.g. for :meth:`test`."""
        return self._prepare(features, self.graph.adjacency)

    def _prepare(self, features: MatrixLike, links: CSRArray | None = None) -> Features:
        """Return features as the networks want them, with links to the graph's nodes where these are features too."""
        self.check_network()
        inputs = with_links(features, links) if links is not None and self.config.links_as_features else features
        return make_features(inputs, scaling=self.scaling, device=self.device, dtype=self.dtype)

    def features_of(self, graph: Graph) -> Features:
        """Return the features of another graph as the networks want them, in the columns of training."""
        self._check_for_other_graphs()
        matched = matched_features(self.graph, graph, self.graph.num_features)
        return self._prepare(matched, links_to(self.graph, graph) if self.config.links_as_features else None)

    def logits(self, operator: Operator | None = None, features: Features | None = None) -> Tensor:
        """Return the logits (n, R, C), over another operator than Ã or of other features if they are given.

        Outputs that are no numbers are refused, with the node.
        """
        out = self._logits(operator, features)
        # An operator of another graph has nodes of its own, of which only the numbers are known here.
        return check_outputs(out, self.node_names.__getitem__ if len(out) == self.graph.num_nodes else str)

    def _logits(self, operator: Operator | None, features: Features | None) -> Tensor:
        operator = self.operator if operator is None else operator
        if not self.method.trained:
            return self._by_rule(operator, self.graph)
        if self._function is None:
            return self.over(full_view(self.features if features is None else features, operator, self.depth))
        out, nodes = self._function(operator), self.graph.num_nodes
        if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[0] != nodes:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError(f"network must return logits of shape ({nodes}, C), got {got}.")
        return out.unsqueeze(1)

    @property
    def depth(self) -> int:
        """The number of products with the graph in a network of known weights."""
        return self.method.network.depth(self.config)

    def over(self, view: View, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return the logits (p, R, C) over a view of a graph, with other weights of the same names if given."""
        self.check_network(weights=True)
        return self.method.network.logits(self.weights if weights is None else weights, view, self.config)

    @torch.no_grad()
    def logits_of_new(self, links: MatrixLike, features: MatrixLike) -> Tensor:
        """Return the logits (m, R, C) of new nodes that join the graph one by one, each as if it were the only one.

        They leave the degrees of the graph's nodes, and what those see, as they are. So a prediction does not depend on
        the other new nodes, as it does in :meth:`probabilities` of a graph that has them all.

        Parameters
        ----------
        links : matrix of shape (m, n)
            Weights of their links to the nodes of the graph, finite and not negative.
        features : matrix of shape (m, D)
            Their features, in the columns of the graph's own.
        """
        self._check_for_other_graphs()
        given: Any = features if sparse.issparse(features) else np.asarray(features)
        matrix = check_links(links, (given.shape[0], self.graph.num_nodes))
        operator = self.method.matrix.joined(self.graph, matrix, self.config, self.propagation)
        nodes = np.arange(self.graph.num_nodes, operator.shape[0])
        if not self.method.trained:
            whole = SparseMatrix.from_scipy(operator, device=self.device, dtype=self.dtype)
            return self._by_rule(whole, self.graph)[nodes]
        stacked = sparse.csr_array(sparse.vstack([self.graph.adjacency, matrix]))
        both = self._prepare(stacked_features(self.graph, given), stacked)
        itself = self.method.network.sees_itself(self.config)
        place: dict[str, Any] = {"device": self.device, "dtype": self.dtype, "itself": itself}
        return self.over(local_view(both, operator, nodes, self.depth, **place))

    @torch.no_grad()
    def test(self, operator: Operator | None = None, features: Features | None = None) -> tuple[Tensor, Tensor]:
        """Return cross entropy and accuracy of each network on its test nodes, two of shape (R,).

        In other tasks the cost, and micro F1 or R².
        """
        out = self.logits(operator, features)
        costs, found = scores(out, self.targets)
        if self.task.decided:
            limits = special.logit([self.only(at).threshold for at in range(len(self))])
            found = scores(out - torch.as_tensor(limits).to(out).view(-1, 1), self.targets)[1]
        return costs, found

    @torch.no_grad()
    def raw_logits(self, graph: Graph | None = None) -> FloatArray:
        """Return the logits of the only network, n x C in float64, on its graph or on another: not calibrated."""
        one = self.only()
        place = one.graph if graph is None else graph
        if graph is None:
            out = one._logits(None, None)
        elif one.method.trained:
            # Features first: they are refused at once, and an operator may take long.
            features = one.features_of(check_graph(graph))
            out = one._logits(one.operator_of(graph), features)
        else:
            out = one._by_rule(one.operator_of(graph), check_graph(graph))
        found: FloatArray = check_outputs(out, node_names_of(place).__getitem__)[:, 0].double().cpu().numpy()
        return found

    @cached_property
    def calibration(self) -> Calibrated:
        """How logits become probabilities: ``calibration.words`` says what was done, and why.

        Chosen by cross-validation on validation nodes, between none, a temperature and shrinkage to the shares of the
        classes; with few of them, or none that the model knows of, it is the softmax. Other tasks have none.
        """
        check_classes(self, "calibration")
        return calibration_of(self) if self._calibration is None else self._calibration

    def probabilities(self, graph: Graph | None = None, *, raw: bool = False) -> FloatArray:
        """Return the probability of each class for every node, n x C; of several labels that of each, n x L.

        Parameters
        ----------
        graph : Graph, optional
            Another graph; its nodes may be others and other in number. Its features are matched by the names of their
            columns if both graphs have them, else by number, and keep the centers and scales that they had in training.
            It has a propagation matrix of its own, by the method and the settings of the model. Its labels are not
            looked at. Label propagation knows the labels of its training nodes, which it finds there by name.
        raw : bool
            The softmax of the network, or the mean of those of an ensemble, instead of what :attr:`calibration` makes
            of it. The most probable class is the same. Several labels a node are not calibrated.
        """
        if self.graph.task == "regression":
            raise InputError("the model predicts a number, which has no probabilities: use predict().")
        if self.graph.task == "multilabel":
            return self.answered(self.raw_logits(graph))
        logits = self.raw_logits(graph)
        return (Calibrated() if raw else self.only().calibration).apply(logits)

    def answered(self, out: FloatArray) -> FloatArray:
        """Return what outputs (n, C) mean: probabilities of several labels, or numbers in their unit."""
        if not self.runs:
            raise InputError("the model does not know its training nodes, whose mean and spread its numbers have.")
        return self.task.answers(out, self.task.standard(self.task.known(self.graph), self.runs[0].split.train))

    def predict(self, graph: Graph | None = None) -> AnyArray:
        """Return the most probable class of every node, shape (n,), numbered as in :attr:`class_names`.

        Of several labels a node 0 and 1 of each, (n, L), as int64: 1 above :attr:`threshold`. Of a number a node the
        number, (n,), as float64.
        """
        if self.graph.task == "regression":
            return self.answered(self.raw_logits(graph))[:, 0]
        found = self.probabilities(graph)
        if self.graph.task == "multilabel":
            return np.asarray(found > self.threshold, dtype=np.int64)
        return np.asarray(found.argmax(axis=1), dtype=np.int64)

    @property
    def threshold(self) -> float:
        """Above which probability a label is predicted, where nodes have several.

        The same for all labels: that of the best micro F1 on validation nodes; ½ with fewer than 10 of them.
        """
        found = self.only().records[0].extra.get(f"val_{THRESHOLD}", 0.5) if self.records else 0.5
        return float(found)

    @property
    def nodes_aside(self) -> IntArray:
        """The nodes of known target that are in no part of the split: they had no influence on the model whatsoever."""
        if not self.runs:
            return np.empty(0, dtype=np.int64)
        free, split = known_nodes(self.graph), self.runs[0].split
        free[np.concatenate([split.train, split.val, split.test])] = False
        return np.flatnonzero(free)

    def predict_interval(self, coverage: float = 0.9, graph: Graph | None = None) -> FloatArray:
        """Return an interval around the number of every node, (n, 2): that of :meth:`predict` minus and plus q.

        q is the ⌈(m + 1) · coverage⌉-th smallest absolute error of the m nodes in :attr:`nodes_aside` (split conformal
        prediction). Of nodes that are drawn as those were, the interval holds the true number with at least this
        frequency, on average over draws; nothing is promised of single nodes, or of nodes unlike them, such as new
        ones. :func:`fishergcn.fit` sets nodes aside for it.

        Parameters
        ----------
        coverage : float
            Between 0 and 1. With m nodes, at most m / (m + 1).
        graph : Graph, optional
            Another graph, as in :meth:`predict`.
        """
        return interval_around(self, self.predict(graph), coverage)

    def predict_proba(self, graph: Graph | None = None) -> FloatArray:
        """Return :meth:`probabilities`, under the name that scikit-learn has for it."""
        return self.probabilities(graph)

    @property
    def classes_(self) -> IntArray:
        """The classes as :meth:`predict` numbers them, in the order of the columns of :meth:`predict_proba`."""
        return np.arange(self.num_classes, dtype=np.int64)

    def score(
        self, graph: Graph | None = None, score: str | None = None, *, nodes: Sequence[int] | AnyArray | None = None
    ) -> float:
        """Return the accuracy, or another score by its name, on nodes whose class is known.

        Of several labels a node micro F1, of a number R², if no score is named.

        Parameters
        ----------
        graph : Graph, optional
            Another graph with labels, as in :meth:`probabilities`; classes are matched by name where both have names.
        score : str, optional
            ``"accuracy"``, ``"macro-f1"``, ``"roc-auc"``, ``"log-loss"`` or any other registered score.
        nodes : sequence of int, optional
            Which nodes; by default all that the model was neither trained nor validated on, which it knows by name.
        """
        return score_on(self, graph, score, nodes)

    def new_nodes(self, graph: Graph) -> tuple[str, ...]:
        """Return the names of nodes of another graph that this model's graph does not have."""
        known = set(self.node_names)
        return tuple(name for name in node_names_of(graph) if name not in known)

    def nodes_in_words(self, graph: Graph) -> str:
        """Say in a sentence how many nodes of another graph are known from training, new, or missing."""
        return nodes_in_words(self.graph, graph)

    def predict_sets(
        self,
        graph: Graph | None = None,
        *,
        coverage: float | None = None,
        by_class: bool = False,
        never_empty: bool = False,
    ) -> BoolArray:
        """Return which classes are in the set of each node, n x C, so that a share of the sets has the true class.

        The share is ``coverage``, on average over draws of the nodes that were set aside by ``fit(graph,
        coverage=0.9)``, for nodes drawn like them. It is not promised for a single node, for new nodes, or for nodes
        unlike the labeled ones: see :attr:`guarantee`.

        Parameters
        ----------
        graph : Graph, optional
            Another graph, as in :meth:`probabilities`.
        coverage : float, optional
            Between 0 and 1; by default that of training.
        by_class : bool
            Whether the share is to hold in each class. A class of which too few nodes were set aside is in all sets.
        never_empty : bool
            Put the most probable class into a set that has none. Sets are empty where more nodes would be right than
            is promised.
        """
        check_classes(self, "predict_sets")
        return predict_sets(self, graph, coverage, by_class=by_class, never_empty=never_empty)

    def set_aside(self, nodes: Any, coverage: float = 0.9) -> TrainedModel:
        """Return the model with labeled nodes for prediction sets, which it must not have seen in any part of its run.

        :func:`fishergcn.fit` sets nodes aside by itself where a coverage is asked for.
        """
        check_classes(self, "set_aside")
        return with_aside(self, nodes, coverage)

    @property
    def guarantee(self) -> tuple[str, ...]:
        """What prediction sets promise, for which nodes, and what they do not, in words."""
        return tuple(guarantee(known_aside(self.only())))

    def decide(
        self,
        graph: Graph | None = None,
        *,
        threshold: float | str | None = None,
        costs: Any = None,
        abstain: float | str | None = None,
        coverage: float | None = None,
    ) -> IntArray:
        """Return the answer for each node, a class or -1 for none, shape (n,); by default the most probable class.

        Parameters
        ----------
        graph : Graph, optional
            Another graph, as in :meth:`probabilities`.
        threshold : float or str, optional
            For two classes: the probability from which on to answer the second one, or the score for which validation
            nodes choose it: ``"accuracy"``, ``"balanced-accuracy"``, ``"macro-f1"``.
        costs : table, optional
            The cost c_ij of answering j where i is true, C x C, or for two classes the cost of a false alarm (the
            second class where the first is true) and that of a miss. The answer is the one of least expected cost.
        abstain : float or "sets", optional
            No answer where its probability is below this number, or where the prediction set, of ``coverage``, has more
            than one class, or none since none is likely.
        coverage : float, optional
            As in :meth:`predict_sets`.
        """
        check_classes(self, "decide")
        return decide(self, graph, threshold=threshold, costs=costs, abstain=abstain, coverage=coverage)

    def cautions(self, graph: Graph) -> tuple[str, ...]:
        """Return why to be careful with each node of another graph: one text a node, "" for nothing.

        A new node is named if it has no links, if none of its features is known, or if it is farther from the training
        nodes, in the last layer, than 99% of the nodes of the graph of training.
        """
        return cautions(self, graph)

    def predictions_csv(self, graph: Graph | None = None, **asked: Any) -> str:
        """Return a table as CSV: node id, name of the most probable class, probability of each class.

        Of several labels a node those that it has, separated by ``|``; of a number a node the number and, if nodes were
        set aside, the ends of an interval that holds 90% of such numbers, or the share that ``coverage`` says.

        With ``coverage`` or ``by_class`` (see :meth:`predict_sets`) there is a column ``set``, with ``threshold``,
        ``costs`` or ``abstain`` (see :meth:`decide`) a column ``decision``, with ``certified``, a word for each node
        (see :func:`fishergcn.certificates.certify`), a column of these, and where there are new nodes one of their
        :meth:`cautions`.
        """
        return predictions_csv(self, graph, Asked(**asked))

    def prediction_rows(self, graph: Graph | None = None, **asked: Any) -> list[dict[str, Any]]:
        """Return a dictionary for each node with what :meth:`predictions_csv` has of it."""
        return list(prediction_rows(self, graph, Asked(**asked)))

    def network(self) -> GCN:
        """Return the only network as a module of torch, ready to predict: one with W and b alone."""
        self.check_network(weights=True)
        one = self.only()
        others = sorted({name.partition(".")[0] for name in one.weights} - {"weights", "biases"})
        if others:
            raise InputError(
                f"a fishergcn.GCN has weights and biases alone, and the network has {', '.join(others)} too."
            )
        layers = by_layer(one.weights, "weights")
        hidden = [each.shape[2] for each in layers[:-1]]
        # The initial weights are replaced below; a generator of their own leaves the user's alone.
        bias = "biases.0" in one.weights
        options: dict[str, Any] = {"generator": torch.Generator(), "dtype": self.dtype, "bias": bias}
        made = GCN(layers[0].shape[1], hidden, self.num_classes, self.config.dropout, **options)
        made.load_state_dict({name: each[0] for name, each in one.weights.items()})
        return made.to(self.device).eval()

    def check_network(self, *, links: bool = False, weights: bool = False, symmetric: bool = False) -> None:
        """Raise if there is no network, or none with links, with a symmetric matrix, or of known weights.

        Links are those of the matrix alone: where they are features too, another matrix would be half of a change.
        """
        if not self.method.trained:
            raise InputError(f"method {self.method.name!r} trains no network, which is needed here; gcn does.")
        if (links or symmetric) and self.graph.targets is not None:
            raise InputError(
                f"this is for models that classify nodes, and the task of this one is {self.graph.task!r}."
            )
        if links and self.config.links_as_features:
            raise InputError(
                "the network also reads the links as features (links_as_features), which would not change here with "
                "the propagation matrix; one without them is needed."
            )
        if links and not self.method.uses_graph:
            raise InputError(f"method {self.method.name!r} does not read the links, which is needed here; gcn does.")
        if symmetric and not self.method.matrix.symmetric:
            raise InputError(
                f"method {self.method.name!r} multiplies with {self.method.matrix.title}, but a symmetric matrix is "
                "needed here; gcn has one."
            )
        if weights and not self.weights:
            raise InputError("the network must be a fishergcn.GCN here: the weights of a function are not known.")

    def card(self) -> str:
        """Return what a person wants to know before using the only network, in Markdown."""
        return model_card(self)

    def save(self, folder: str | os.PathLike[str], *, runs: Sequence[RunRecord] = (), overwrite: bool = False) -> None:
        """Write a model folder; it is there wholly or not at all.

        Parameters
        ----------
        folder : str or Path
            A new or an empty folder.
        runs : sequence of RunRecord
            All runs from which this one was chosen, if there were others.
        overwrite : bool
            Replace a model folder that is there. A folder with other files in it is never replaced.
        """
        model = dataclasses.replace(self, chosen_from=len(runs) or self.chosen_from)
        write_folder(folder, {"": model}, runs or [self.record], overwrite=overwrite)

    def refit(self, graph: Graph, split: Split | str | None = None, device: str = "auto") -> TrainedModel:
        """Train it again on a graph with more labels, other nodes or links: see :func:`fishergcn.models.refit`."""
        from fishergcn.models._refit import refit

        return refit(self, graph, split, device)

    def explain(
        self, node: int | str, graph: Graph | None = None, *, label: int | str | None = None, limit: int = 20
    ) -> Explanation:
        """Say which links and features of a node speak for and against its class, by computing anew without each.

        Parameters
        ----------
        node : int or str
            The number of the node, or its name.
        graph : Graph, optional
            Another graph that has the node, as in :meth:`probabilities`.
        label : int or str, optional
            The class to explain, by number or name; the predicted one by default.
        limit : int
            How many links, and how many features, are computed at most; of more, those that derivatives rank first.
        """
        from fishergcn.models._explanation import explain

        return explain(self, node, graph, label=label, limit=limit)

    def to_pyg(self) -> torch.nn.Module:
        """Return a plain module with layers of PyTorch Geometric and the same outputs, ready to predict or to train on.

        ``forward(x, edge_index, edge_weight=None)`` takes features as the graph has them, in the columns of training,
        and links in both directions (:meth:`fishergcn.Graph.to_pyg` has both), and returns logits, shape (n, C); of an
        ensemble or label propagation log p. What was done to features and links is part of the module. For a method
        with suffix ``-t``, ``edge_index`` and ``edge_weight`` are the entries of the high-order matrix; an ensemble
        takes them as ``walks=(edge_index, edge_weight)``. Where links are features, and for label propagation, the
        nodes of training come first, in their order.
        """
        from fishergcn.models._to_pyg import to_pyg

        check_classes(self, "to_pyg")
        return to_pyg(self)

    def facts(self) -> tuple[MemberFacts, ...]:
        """Return what is written of the members of an ensemble; a single model has none."""
        return ()

    def _by_rule(self, operator: Operator, graph: Graph) -> Tensor:
        """Return what a method that trains nothing says of the nodes of a graph."""
        return self.task.by_rule(self.method.rule, operator, *self._known_labels(graph), self.num_classes)

    def _known_labels(self, graph: Graph) -> tuple[AnyArray, tuple[IntArray, ...]]:
        """Return labels of the nodes of a graph, and the training nodes of each run among them.

        The majority class is that of the training nodes wherever they are; label propagation finds them by name.
        """
        labels, nodes = self.task.known(self.graph), self._learned_from
        if graph is self.graph or not self.method.uses_graph:
            return labels, nodes
        return moved_labels(labels, self.node_names, graph, nodes)
