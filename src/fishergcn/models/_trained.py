"""A trained model: networks of one method, side by side, with the graph that they were trained on.

    p = softmax(logits)

of the network on the graph itself, without perturbation and without dropout. A method that trains nothing is what it
makes of the nodes that it learned from: its logits are log p.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.checks import check_integer
from fishergcn._base.tensors import check_outputs
from fishergcn._base.text import csv_text
from fishergcn._base.types import CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn._settings.choices import Scaling
from fishergcn.errors import InputError
from fishergcn.execution import check_graph
from fishergcn.graph import Graph
from fishergcn.models._card import model_card, model_html
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
from fishergcn.models._selection import Selection
from fishergcn.nn import GCN, Features, FeatureScaling, View, by_layer, full_view, local_view, make_features, with_links
from fishergcn.operators import Operator, SparseMatrix
from fishergcn.splits import Split
from fishergcn.training import (
    Method,
    Problem,
    Run,
    RunRecord,
    Targets,
    TrainConfig,
    network_inputs,
    scores,
)


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
    _learned_from: tuple[IntArray, ...] = ()  # the training nodes, for a method that trains nothing
    _scaling: FeatureScaling | None = None
    _sizes: tuple[Mapping[str, int], ...] = ()
    _function: Callable[[Operator], Tensor] | None = None
    _matrix: CSRArray | None = None
    _matrix_is_given: bool = False
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
        size = f"{self.graph.num_nodes} nodes, {self.num_classes} classes"
        if len(self.records) != 1:
            what = f"{len(self)} networks, {self.method.name!r}" if self.records else "a network trained elsewhere"
            return f"TrainedModel({what}, {size})"
        [found] = self.records
        tested = f"test_accuracy={found.test_accuracy:.4f}, " if np.isfinite(found.test_accuracy) else ""
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
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; their numbers where they have none."""
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
        if self.graph.labels is None:
            raise InputError("the graph has no labels to test with.")
        if not self.runs:
            raise InputError(
                "the model does not know its test nodes: it was trained elsewhere, or saved by an older version."
            )
        nodes = [run.split.test for run in self.runs]
        return Targets.of(nodes, self.graph.labels, None, self.device, self.dtype)

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
            return self.method.rule.log_probabilities(operator, *self._known_labels(self.graph), self.num_classes)
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
            labels, learned = self._known_labels(self.graph)
            whole = SparseMatrix.from_scipy(operator, device=self.device, dtype=self.dtype)
            return self.method.rule.log_probabilities(whole, labels, learned, self.num_classes)[nodes]
        stacked = sparse.csr_array(sparse.vstack([self.graph.adjacency, matrix]))
        both = self._prepare(stacked_features(self.graph, given), stacked)
        itself = self.method.network.sees_itself(self.config)
        place: dict[str, Any] = {"device": self.device, "dtype": self.dtype, "itself": itself}
        return self.over(local_view(both, operator, nodes, self.depth, **place))

    @torch.no_grad()
    def test(self, operator: Operator | None = None, features: Features | None = None) -> tuple[Tensor, Tensor]:
        """Return cross entropy and accuracy of each network on its test nodes, two of shape (R,)."""
        return scores(self.logits(operator, features), self.targets)

    @torch.no_grad()
    def probabilities(self, graph: Graph | None = None) -> FloatArray:
        """Return the probability of each class for every node, n x C.

        Parameters
        ----------
        graph : Graph, optional
            Another graph; its nodes may be others and other in number. Its features are matched by the names of their
            columns if both graphs have them, else by number, and keep the centers and scales that they had in training.
            It has a propagation matrix of its own, by the method and the settings of the model. Its labels are not
            looked at. Label propagation knows the labels of its training nodes, which it finds there by name.
        """
        one = self.only()
        place = one.graph if graph is None else graph
        if graph is None:
            out = one._logits(None, None)
        elif one.method.trained:
            # Features first: they are refused at once, and an operator may take long.
            features = one.features_of(check_graph(graph))
            out = one._logits(one.operator_of(graph), features)
        else:
            known = one._known_labels(check_graph(graph))
            out = one.method.rule.log_probabilities(one.operator_of(graph), *known, one.num_classes)
        checked = check_outputs(out, node_names_of(place).__getitem__)
        found: FloatArray = torch.softmax(checked[:, 0].double(), dim=1).cpu().numpy()
        return found

    def predict(self, graph: Graph | None = None) -> IntArray:
        """Return the most probable class of every node, shape (n,), numbered as in :attr:`class_names`."""
        return np.asarray(self.probabilities(graph).argmax(axis=1), dtype=np.int64)

    def new_nodes(self, graph: Graph) -> tuple[str, ...]:
        """Return the names of nodes of another graph that this model's graph does not have."""
        known = set(self.node_names)
        return tuple(name for name in node_names_of(graph) if name not in known)

    def nodes_in_words(self, graph: Graph) -> str:
        """Say in a sentence how many nodes of another graph are known from training, new, or missing."""
        return nodes_in_words(self.graph, graph)

    def predictions_csv(self, graph: Graph | None = None) -> str:
        """Return a table as CSV: node id, name of the most probable class, probability of each class."""
        names = self.class_names
        rows = [[node, names[row.argmax()], *(f"{each:.9g}" for each in row)] for node, row in self._by_node(graph)]
        return csv_text(["node", "class", *(f"p:{name}" for name in names)], rows)

    def prediction_rows(self, graph: Graph | None = None) -> list[dict[str, Any]]:
        """Return a dictionary for each node: its id, the name of the most probable class, and all probabilities."""
        names = self.class_names
        return [
            {"node": node, "class": names[row.argmax()], "probabilities": dict(zip(names, row.tolist(), strict=True))}
            for node, row in self._by_node(graph)
        ]

    def _by_node(self, graph: Graph | None) -> Iterator[tuple[str, FloatArray]]:
        """Return each node's id with its probabilities."""
        found = self.probabilities(graph)  # first: it refuses what is not a graph
        return zip(node_names_of(self.graph if graph is None else graph), found, strict=True)

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

    def facts(self) -> tuple[MemberFacts, ...]:
        """Return what is written of the members of an ensemble; a single model has none."""
        return ()

    def _known_labels(self, graph: Graph) -> tuple[IntArray, tuple[IntArray, ...]]:
        """Return labels of the nodes of a graph, and the training nodes of each run among them.

        The majority class is that of the training nodes wherever they are; label propagation finds them by name.
        """
        labels, nodes = self.graph.labels, self._learned_from
        if labels is None:
            raise AssertionError("prepare() refuses graphs without labels")
        if graph is self.graph or not self.method.uses_graph:
            return labels, nodes
        return moved_labels(labels, self.node_names, graph, nodes)
