"""A graph with features and labels: validated once, immutable afterwards."""

from __future__ import annotations

import copy
import mmap
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice, check_text
from fishergcn._base.files import check_target
from fishergcn._base.mapped import write_mapped
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.text import html_table, some_of
from fishergcn._base.types import AnyArray, CSRArray, FeatureMatrix, IntArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.graph._components import components
from fishergcn.graph._formats._columns import Columns
from fishergcn.graph._formats._reading import Empty, Kind, Text, check_reading
from fishergcn.graph._node_data import check_classes, check_features, check_masks, check_names, check_split, frozen
from fishergcn.graph._pairs import Directed, link_matrix, symmetrized, without_self_links
from fishergcn.graph._targets import Task, check_target_names, check_targets, known_nodes, target_words

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data
    from typing_extensions import Unpack

    from fishergcn.graph._formats._reading import Choices

# Whether links from a node to itself stay.
SelfLinks: TypeAlias = Literal["keep", "drop"]


class _Constructors(type):
    """Names the constructors where one is asked for that does not exist."""

    if not TYPE_CHECKING:  # for type checkers any name would exist

        def __getattr__(cls, name: str) -> Any:
            known = [f"Graph.{each}" for each in vars(cls) if each.startswith("from_")]
            hint = (
                f"; matrices of SciPy and NumPy go to Graph(adjacency, features, labels), others to {', '.join(known)}"
            )
            raise AttributeError(f"Graph has no attribute {name!r}{hint if name.startswith('from') else ''}.")


def _check_weights(matrix: CSRArray) -> None:
    """Raise if a weight is so small that networks, which compute in float32, would take it for no link."""
    least = matrix.data.min(initial=1.0)
    if least < np.finfo(np.float32).tiny:
        raise InputError(f"weights must be at least 1.2e-38, the least of float32, got {least:g}; scale them all.")


class Graph(metaclass=_Constructors):
    """An undirected, weighted graph with optional node features and labels.

    Parameters
    ----------
    adjacency
        Matrix A, n x n with n ≥ 2: symmetric, finite, non-negative; SciPy sparse or dense. ``a_ij`` is the
        weight of the link between nodes i and j, ``a_ii`` that of a self-link.
    features
        Matrix X, n x D, SciPy sparse or dense; stored as float32.
    labels
        One class per node as an integer from 0, with -1 for an unknown class; or, for several labels a node, a matrix
        n x L of 0 and 1, with a row of -1 where they are unknown; or a number per node, NaN where it is unknown.
    name
        A short name, such as ``"cora"``. It takes part in a training run's identity.
    node_ids, class_names
        What nodes and classes (or labels, or the number) are called outside, if that is not their index.
    feature_names
        What the columns of the features are called, if they have names: those of another graph are matched by them.
    standard_split
        Index arrays ``train``, ``val`` and ``test`` that are published with the data.
    masks
        Several splits that are published with the data: boolean arrays ``train``, ``val`` and ``test`` of K x n, a row
        for each split.
    reading
        How the tables of the graph were read, as :meth:`from_files` keeps it for ``like``; plain values.
    self_links
        ``"keep"`` or ``"drop"`` the diagonal of A.
    directed
        What to do with an asymmetric A: ``"refuse"`` it, or ``"symmetrize"`` to max(A, Aᵀ).
    task
        What ``labels`` are for: ``"classification"``, ``"multilabel"`` or ``"regression"``. By default it is found out:
        a matrix has several labels a node, numbers that are not whole are predicted as numbers.

    Examples
    --------
    >>> import numpy as np
    >>> triangle = Graph(np.ones((3, 3)) - np.eye(3), labels=[0, 1, -1])
    >>> triangle.num_nodes, triangle.num_links, triangle.num_classes, triangle.num_components
    (3, 3, 2, 1)
    >>> triangle.replace(labels=[[1, 1], [0, 1], [-1, -1]]).task, triangle.replace(labels=[0.5, 2, np.nan]).task
    ('multilabel', 'regression')
    """

    def __init__(
        self,
        adjacency: MatrixLike,
        features: MatrixLike | None = None,
        labels: Sequence[int] | AnyArray | None = None,
        *,
        name: str | None = None,
        node_ids: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        standard_split: Mapping[str, Sequence[int] | AnyArray] | None = None,
        masks: Mapping[str, AnyArray] | None = None,
        reading: Mapping[str, Any] | None = None,
        self_links: SelfLinks = "keep",
        directed: Literal["refuse", "symmetrize"] = "refuse",
        task: Task | None = None,
    ) -> None:
        check_choice("self_links", self_links, get_args(SelfLinks))
        check_choice("directed", directed, ("refuse", "symmetrize"))
        matrix = check_adjacency(symmetrized(adjacency) if directed == "symmetrize" else adjacency)
        _check_weights(matrix)
        self._adjacency = frozen(without_self_links(matrix) if self_links == "drop" else matrix)
        self._features: FeatureMatrix | None = None if features is None else check_features(features, self.num_nodes)
        self._describe(labels, name, node_ids, class_names, feature_names, standard_split, masks, reading, task)

    def _describe(
        self,
        labels: Any,
        name: Any,
        node_ids: Any,
        class_names: Any,
        feature_names: Any,
        split: Any,
        masks: Any,
        reading: Any,
        task: Any = None,
    ) -> None:
        """Check and keep what is said about the nodes, once links and features are there; then nothing changes."""
        self.name: str | None = None if name is None else check_text("name", name)
        self._labels, self._targets = (None, None) if labels is None else check_targets(labels, self.num_nodes, task)
        self.node_ids = check_names("node_ids", node_ids, self.num_nodes)
        self.class_names = check_names("class_names", class_names)
        if self.class_names is not None and self._largest_label >= len(self.class_names):
            raise InputError(
                f"labels go up to {self._largest_label}, but class_names has {len(self.class_names)} names."
            )
        if self._labels is not None:
            check_classes(self._labels, self.class_names)
        if self._targets is not None:
            check_target_names(self.class_names, self._targets)
        self.feature_names = check_names("feature_names", feature_names, self.num_features, "columns of features")
        self.standard_split = check_split(split, self.num_nodes)
        self.masks = check_masks(masks, self.num_nodes)
        self.reading: Mapping[str, Any] | None = check_reading(reading)
        self._frozen = True

    def __setattr__(self, key: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"a Graph is immutable; build a new one instead of setting {key!r}")
        super().__setattr__(key, value)

    @property
    def adjacency(self) -> CSRArray:
        """A, symmetric n x n CSR in float64 with sorted indices; its arrays are read-only."""
        # A new shell around the same arrays: SciPy methods such as setdiag swap a matrix's arrays in place.
        return copy.copy(self._adjacency)

    @property
    def features(self) -> FeatureMatrix | None:
        """X, n x D float32, CSR or dense, or None; read-only."""
        return copy.copy(self._features) if isinstance(self._features, sparse.csr_array) else self._features

    @property
    def labels(self) -> IntArray | None:
        """The class of each node, -1 where unknown, or None, as in other tasks; read-only."""
        return self._labels

    @property
    def targets(self) -> AnyArray | None:
        """What is to be predicted in a task without classes, or None; read-only.

        Several labels a node: int8 (n, L) of 0 and 1, a row of -1 where they are unknown. A number a node: float64
        (n,), NaN where it is unknown.
        """
        return self._targets

    @property
    def task(self) -> Task:
        """``"classification"``, ``"multilabel"`` or ``"regression"``."""
        if self._targets is None:
            return "classification"
        return "multilabel" if self._targets.ndim == 2 else "regression"

    @property
    def num_nodes(self) -> int:
        """The number n of nodes."""
        return int(self._adjacency.shape[0])

    @cached_property
    def num_self_links(self) -> int:
        """How many nodes are linked to themselves."""
        return int(np.count_nonzero(self._adjacency.diagonal()))

    @property
    def has_self_links(self) -> bool:
        """Whether any node is linked to itself."""
        return self.num_self_links > 0

    @property
    def num_links(self) -> int:
        """The number of undirected links, without self-links."""
        return (int(self._adjacency.nnz) - self.num_self_links) // 2

    @property
    def num_features(self) -> int:
        """The number D of feature columns; 0 without features."""
        return 0 if self._features is None else int(self._features.shape[1])

    @property
    def num_classes(self) -> int:
        """The number of classes: that of class names if given, else one more than the largest label.

        Of several labels a node their number L, of a number a node 1: that of the outputs of a network.
        """
        if self._targets is not None:
            return int(self._targets.shape[1]) if self._targets.ndim == 2 else 1
        return self._largest_label + 1 if self.class_names is None else len(self.class_names)

    @property
    def _largest_label(self) -> int:
        return -1 if self._labels is None else int(self._labels.max())

    @cached_property
    def num_components(self) -> int:
        """The number of connected components."""
        return int(components(self._adjacency).max()) + 1

    @property
    def mapped(self) -> bool:
        """Whether the links lie in a file that is mapped, and not in memory."""
        array: Any = self._adjacency.data
        while isinstance(array, np.ndarray):
            array = array.base
        return isinstance(array, mmap.mmap)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of links, weights, features, labels and published splits: equal for equal content."""
        from fishergcn.graph._formats._arrays import graph_digest

        return graph_digest(self)

    def __eq__(self, other: object) -> bool:
        """Equal content: links, weights, features, labels and published splits, whatever things are called."""
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        title = f" {self.name!r}" if self.name else ""
        return (
            f"<Graph{title}: {self.num_nodes} nodes, {self.num_links} links, "
            f"{self.num_features} features, {target_words(self)}>"
        )

    def _repr_html_(self) -> str:
        """Return a short table for notebooks."""
        known = int(known_nodes(self).sum())
        what, one = {"multilabel": ("labels", "labels"), "regression": ("number", "a number")}.get(
            self.task, ("classes", "a class")
        )
        rows = [
            *(("nodes", self.num_nodes), ("links", self.num_links), ("features", self.num_features)),
            (what, some_of(self.class_names or range(self.num_classes))),
            (f"nodes with {one}", known),
            ("components", self.num_components),
        ]
        return html_table(f"Graph {self.name}" if self.name else "Graph", rows)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies sent to other processes go through the constructor, so that they are read-only too.
        return partial(Graph, **self._extras()), (self._adjacency, self._features, self._given)

    def replace(self, **changes: Any) -> Graph:
        """Return a new graph with some arguments changed; other features have names only if they are given too.

        Examples
        --------
        >>> import numpy as np
        >>> pair = Graph(np.array([[0, 1], [1, 0]]))
        >>> pair.replace(name="pair")
        <Graph 'pair': 2 nodes, 1 links, 0 features, 0 classes>
        """
        if changes.keys() == {"name"} and changes["name"] is not None:
            # Arrays that were checked, and may be mapped files larger than the memory, are shared instead of copied.
            made = object.__new__(Graph)
            made.__dict__.update(self.__dict__, name=check_text("name", changes["name"]))
            return made
        arguments = {"adjacency": self._adjacency, "features": self._features, "labels": self._given}
        extras = self._extras() | ({"feature_names": None} if "features" in changes else {})
        if changes.get("labels") is not None:  # which may be for another task
            _, targets = check_targets(changes["labels"], self.num_nodes, changes.get("task"))
            others = targets is not None or self._targets is not None
            extras |= {"task": None} | ({"class_names": None} if others else {})
        return Graph(**{**arguments, **extras, **changes})

    @property
    def _given(self) -> AnyArray | None:
        """What the constructor takes as labels."""
        return self._labels if self._targets is None else self._targets

    def _extras(self) -> dict[str, Any]:
        names = {name: getattr(self, name) for name in ("name", "node_ids", "class_names", "feature_names")}
        published = {"standard_split": self.standard_split, "masks": self.masks}
        parts = {kind: None if parts is None else dict(parts) for kind, parts in published.items()}
        task = {} if self._targets is None else {"task": self.task}
        return {**names, **parts, "reading": self.reading, **task}

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[int, int]] | AnyArray,
        *,
        num_nodes: int | None = None,
        weights: Sequence[float] | AnyArray | None = None,
        directed: Directed = "undirected",
        **arguments: Any,
    ) -> Graph:
        """Build a graph from pairs of node indices.

        Parameters
        ----------
        edges
            Pairs (i, j), shape m x 2. A link may come once or in both orders; duplicates are merged.
        num_nodes
            The number of nodes; one more than the largest index by default.
        weights
            One positive weight per pair (1 by default). Repeated pairs must agree in it, unless symmetrized.
        directed
            ``"undirected"``: a pair is a link. ``"symmetrize"``: a pair is an arc, and a link's weight is the
            largest of its arcs. ``"refuse"``: both arcs must be listed.
        **arguments
            Passed on to :class:`Graph`.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (1, 2), (2, 1)]).num_links
        2
        """
        return cls(link_matrix(edges, num_nodes, weights, directed), **arguments)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph,
        *,
        weight: str = "weight",
        label: str | Sequence[str] | None = None,
        attributes: bool | Sequence[str] = (),
        parts: str | Sequence[str] = (),
        columns: Mapping[str, Kind] | None = None,
        text: Text = "refuse",
        empty: Empty = "refuse",
        missing: str | Sequence[str] | None = None,
        fill_from: Graph | None = None,
        task: Task | None = None,
        **arguments: Any,
    ) -> Graph:
        """Build a graph from a NetworkX one, nodes in its order.

        Parameters
        ----------
        graph
            A NetworkX graph; a directed one needs ``directed="symmetrize"``.
        weight
            The attribute of links that is their weight; a link without it weighs 1.
        label, parts
            Attributes of nodes: the class, as text or number, or one for each of several labels; and the part of the
            split (train, val or test).
        attributes
            Those that become features, or True for all others: numbers, lists of numbers, or text.
        columns, text, empty, missing, fill_from, task
            What to do with text and with missing values, and what labels are for, as in :meth:`from_files`.
        **arguments
            Passed on to :class:`Graph`.

        Examples
        --------
        >>> import networkx
        >>> club = Graph.from_networkx(networkx.karate_club_graph(), label="club")
        >>> club.class_names, club.labels[:3].tolist()
        (('Mr. Hi', 'Officer'), [0, 0, 0])
        """
        from fishergcn.graph._formats._libraries import networkx_arguments

        said = Columns(
            label=label, parts=parts, columns=columns, text=text, empty=empty, missing=missing,
            fill_from=fill_from, task=task,
        )  # fmt: skip
        found = networkx_arguments(graph, weight, attributes, said)
        said.tell()
        return cls(**{**found, **arguments})

    @classmethod
    def from_pyg(cls, data: Data, **arguments: Any) -> Graph:
        """Build a graph from a PyTorch Geometric ``Data``: edge_index or adj_t, weights, x, y and masks.

        Weights are those of ``edge_weight`` or else, if it is a single column of numbers, of ``edge_attr``, as
        :class:`fishergcn.integrations.pyg.BuresAdversary` reads them. ``arguments`` go to :meth:`from_edges`:
        ``weights=None`` leaves weights out, and edge_index must list both arcs of a link unless
        ``directed="symmetrize"`` is among them.

        Examples
        --------
        >>> Graph.from_pyg(Graph.from_edges([(0, 1), (1, 2)]).to_pyg()).num_links
        2
        """
        from fishergcn.graph._formats._libraries import pyg_arguments

        return cls.from_edges(**{**pyg_arguments(data), **arguments})

    def to_pyg(self, *, sparse: bool = False) -> Data:
        """Return a PyTorch Geometric ``Data``: edge_index, edge_weight (if any is not 1), x, y and masks.

        Parameters
        ----------
        sparse : bool
            Keep sparse features as a sparse tensor (COO, which ``subgraph`` can slice) instead of a dense matrix.
            Layers that first multiply x with their weights take it (GCNConv, GATConv); dropout and SAGEConv do not.

        Examples
        --------
        >>> Graph.from_edges([(0, 1)]).to_pyg().edge_index.tolist()
        [[0, 1], [1, 0]]
        >>> import fishergcn
        >>> fishergcn.datasets.load("cora").to_pyg(sparse=True).x.layout
        torch.sparse_coo
        """
        from fishergcn.graph._formats._libraries import to_pyg

        return to_pyg(self, sparse)

    @classmethod
    def from_files(
        cls,
        edges: str | os.PathLike[str],
        features: str | os.PathLike[str] | None = None,
        labels: str | os.PathLike[str] | None = None,
        *,
        header: bool | Collection[str] | None = None,
        **choices: Unpack[Choices],
    ) -> Graph:
        """Build a graph from tables: text (CSV, TSV or separated by blanks, also ``.gz``), Parquet or Feather.

        What is not said is understood from names of columns and first lines, and a notice tells how.

        Parameters
        ----------
        edges
            A link a line: two node ids (any text) and, optionally, a weight, which is a column called ``weight`` (also
            ``edge_weight``, ``strength`` or ``w``), or the third of three without names unless it holds text, years
            or times; or an edge list as NetworkX writes it, or a ``.graphml`` file, whose nodes have their attributes
            as features. Without features, these are all nodes, ordered by value if all ids are whole numbers and
            alphabetically otherwise. One of the three files may be ``"-"``, standard input.
        features
            A node a line: its id, then numbers; this fixes the nodes and their order, and a header names
            the features. Or an ``.npz`` with a SciPy sparse matrix or one 2-d array, whose row i belongs to node id i.
        labels
            A node a line: its id and the name of its class. Nodes may be left out. A class that is empty or one of
            ``missing`` is unknown, and so is -1 unless there is one other class only.
        header
            Which text files begin with a line of column names: True for all, False or an empty list for none, or
            names (``"edges"``, ``"features"``, ``"labels"``). By default, and in files not named, it is found out.
        **choices
            All others are passed on to :class:`Graph`.

            - ``source``, ``target``, ``weight``: columns of ``edges``, by name or by number from 1; those not chosen
              are left out. ``weight="none"`` reads links without weights.
            - ``id``, ``label``: columns of ``features`` and ``labels``: the node ids, and the classes, in either file;
              a list of columns that hold 1 or 0 for several labels a node.
            - ``task``: ``"classification"``, ``"multilabel"`` (labels separated by ``|`` or ``;`` in a cell, in lines
              of their own, or in several columns; a separator alone is no label at all) or ``"regression"``. By
              default it is found out, and a notice tells.
            - ``parts``: a column of either that says train, val, test or nothing, which becomes the public split;
              several, which become masks; or an ``.npz`` with ``train_mask``, ``val_mask`` and ``test_mask`` (n, n x K
              or K x n).
            - ``drop``: columns of ``features`` to leave out.
            - ``columns``: what single columns of ``features`` are, such as ``{"kind": "one-hot", "price": "number"}``:
              ``"number"`` (other cells count as empty), ``"decimal-comma"``, ``"one-hot"`` (a feature for each text),
              or ``"drop"``.
            - ``text``: other columns with text: ``"refuse"`` (the default), ``"drop"`` or ``"one-hot"``.
            - ``empty``: columns with empty cells: ``"refuse"`` (the default) or ``"drop"`` them, or ``"fill"`` the
              cells with the mean of the others.
            - ``missing``: texts that stand for no value, in any case, beside an empty cell: by default NA, N/A, #N/A,
              ``<NA>``, NaN, null, None and ?.
            - ``unknown``: links and labels of nodes that have no row: ``"refuse"`` (the default) or ``"drop"`` them.
            - ``repeated``: nodes with several rows: ``"refuse"`` them (the default), or keep the ``"first"`` row.
            - ``directed``: as in :meth:`from_edges`, ``"undirected"`` by default; links of a GraphML file that says
              ``directed`` are arcs, which must be listed both ways unless symmetrized.
            - ``like``: a graph that was read from other tables, such as ``model.graph``. What is not said is as it was
              there: columns by their names, the texts of one-hot columns, means for empty cells. For new nodes.
            - ``fill_from``: a graph whose means fill empty cells, and nothing else of it.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     print("Ada;Bob", file=file, flush=True)
        ...     Graph.from_files(file.name).node_ids
        ('Ada', 'Bob')
        """
        from fishergcn.graph._formats._intake import file_arguments

        files = {"edges": edges, "features": features, "labels": labels}
        return cls(**file_arguments(files, header, choices))

    @classmethod
    def from_frames(cls, edges: Any, nodes: Any = None, labels: Any = None, **choices: Unpack[Choices]) -> Graph:
        """Build a graph from data frames of pandas or polars, or tables of pyarrow, as from files with the same cells.

        Parameters
        ----------
        edges, nodes, labels
            What the files of :meth:`from_files` hold. A pandas index counts as a first column, unless it only
            numbers the rows.
        **choices
            As in :meth:`from_files`.

        Examples
        --------
        >>> import pyarrow
        >>> links = pyarrow.table({"source": ["Ada", "Bob"], "target": ["Bob", "Cy"]})
        >>> people = pyarrow.table({"id": ["Ada", "Bob", "Cy"], "age": [36, 41, 29], "team": ["a", "b", "b"]})
        >>> Graph.from_frames(links, people, label="team")
        <Graph: 3 nodes, 2 links, 1 features, 2 classes>
        """
        from fishergcn.graph._formats._intake import frame_arguments

        return cls(**frame_arguments({"edges": edges, "nodes": nodes, "labels": labels}, choices))

    @classmethod
    def from_planetoid(cls, directory: str | os.PathLike[str], name: str) -> Graph:
        """Build a graph from the original Planetoid files, without trusting them.

        The pickles are never run: they are walked by an unpickler that knows NumPy arrays, SciPy CSR matrices and
        dicts of lists, and refuses everything else.

        Parameters
        ----------
        directory
            The folder with the files ``ind.NAME.x``, ``.y``, ``.tx``, ``.ty``, ``.allx``, ``.ally``, ``.graph``
            and ``.test.index``.
        name
            NAME in the file names, such as ``"cora"``; also the name of the graph.

        Returns
        -------
        Graph
            Links without weights, self-links kept; features as they are in the files, in float32; label -1 and
            an empty feature row where the files have none; the public split as ``standard_split``.

        Raises
        ------
        DataFileError
            If a file is missing, damaged, too large, or holds anything but data.
        """
        from fishergcn.graph._formats._planetoid import planetoid_arguments

        return cls(**planetoid_arguments(directory, name))

    def save(self, path: str | os.PathLike[str], *, mapped: bool = False, overwrite: bool = True) -> None:
        """Write the graph to an ``.npz`` file without pickles; the file is there wholly or not at all.

        Parameters
        ----------
        path
            The file, or with ``mapped`` a new folder.
        mapped
            Write a folder of plain arrays instead. :meth:`load` maps them: what is not looked at is not read, and all
            processes of a machine share one copy.
        overwrite
            Replace a file that is there. A folder is never replaced.
        """
        if mapped:
            target = check_target(path, overwrite=False, ours=lambda _: False)
            write_mapped(target, self.to_arrays())
            return
        from fishergcn.graph._formats._archive import save_graph

        save_graph(self, path, overwrite=overwrite)

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the graph as arrays by name, which share its memory; :meth:`from_arrays` undoes it."""
        from fishergcn.graph._formats._arrays import graph_arrays

        return graph_arrays(self)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Graph:
        """Return the graph of :meth:`to_arrays` on the memory of these arrays: mapped files, or shared memory.

        They are checked as those of any graph are, a block at a time, and must not change afterwards.

        Examples
        --------
        >>> pair = Graph.from_edges([(0, 1)], name="pair")
        >>> Graph.from_arrays(pair.to_arrays()) == pair
        True
        """
        from fishergcn.graph._formats._arrays import graph_from_arrays

        return graph_from_arrays(cls, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        """Read a graph written by :meth:`save`, or one that is kept as plain arrays; anything else is refused.

        A folder that was saved with ``mapped`` is not read but mapped.

        Plain arrays in an ``.npz``: ``edges`` (m x 2 node indices); ``x_indptr``, ``x_indices``, ``x_data`` and
        ``x_shape`` for features in compressed sparse rows; ``labels``, -1 where unknown; and, if splits are published
        with the data, ``train_masks``, ``val_masks`` and ``test_masks`` (K x n booleans). Features or labels may be
        missing. The graph is named after the file.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        ...     Graph.from_edges([(0, 1)], name="pair").save(file.name)
        ...     Graph.load(file.name)
        <Graph 'pair': 2 nodes, 1 links, 0 features, 0 classes>
        """
        from fishergcn.graph._formats._archive import load_folder, load_graph

        return load_folder(cls, path) if os.path.isdir(path) else load_graph(cls, path)
