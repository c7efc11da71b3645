from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn import datasets, splits
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.splits import Split

NAMES = ("cora", "citeseer", "pubmed")
TRAIN_SIZES = {"cora": 140, "citeseer": 120, "pubmed": 60}


def mersenne_twister(seed: int) -> random.Random:
    """What numpy.random.RandomState(seed) draws from: Python's generator, seeded as Matsumoto's code does."""
    state = [seed]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) % 2**32)
    generator = random.Random()
    generator.setstate((3, (*state, 624), None))
    return generator


def reference_shuffle(nodes: list[int], seed: int) -> list[int]:
    """Fisher and Yates from the end, each place drawn by masked rejection."""
    generator = mersenne_twister(seed)
    nodes = list(nodes)
    for last in range(len(nodes) - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        while (place := generator.getrandbits(32) & mask) > last:
            pass
        nodes[last], nodes[place] = nodes[place], nodes[last]
    return nodes


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [2019, 2020, 2038, 0, 2**32 - 1])
def test_shuffled_index_for_index(name, seed):
    graph = datasets.load(name)
    standard, train = graph.standard_split, TRAIN_SIZES[name]
    nodes = reference_shuffle([*range(train + 500), *sorted(standard["test"].tolist())], seed)
    split = splits.shuffled(graph, seed)
    assert split.name == f"shuffled:{seed}"
    assert split.train.tolist() == nodes[:train]
    assert split.val.tolist() == nodes[train : train + 500]
    assert split.test.tolist() == nodes[train + 500 :]


@pytest.mark.parametrize(
    ("name", "seed", "train", "val", "test"),
    [
        ("cora", 2019, [1779, 318, 107, 1768, 1955], [2517, 1893, 2478], [2251, 370, 2164]),
        ("cora", 2038, [1956, 1868, 2374, 606, 584], [2256, 28, 2012], [2705, 8, 2209]),
        ("citeseer", 2019, [363, 5, 2965, 2654, 2445], [3317, 2839, 10], [2880, 370, 2793]),
        ("citeseer", 2038, [2615, 247, 3199, 274, 2580], [2593, 2946, 2447], [3272, 8, 2838]),
        ("pubmed", 2019, [19336, 19294, 19227, 19565, 223], [391, 19476, 18721], [19340, 370, 19253]),
        ("pubmed", 2038, [46, 18972, 19088, 19232, 192], [18818, 19147, 18965], [53, 8, 19298]),
    ],
)
def test_shuffled_known_values(name, seed, train, val, test):
    """Written down once: they change only if NumPy's frozen stream, the data or the protocol does."""
    split = splits.shuffled(datasets.load(name), seed)
    assert split.train[:5].tolist() == train
    assert split.val[:3].tolist() == val
    assert split.test[-3:].tolist() == test


@pytest.mark.parametrize("name", NAMES)
def test_public(name):
    graph, train = datasets.load(name), TRAIN_SIZES[name]
    split = splits.public(graph)
    assert split.name == "public"
    assert split.train.tolist() == list(range(train))
    assert split.val.tolist() == list(range(train, train + 500))
    assert (np.diff(split.test) > 0).all()
    assert split.test.size == 1000
    assert split.test[-1] == graph.num_nodes - 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("train", "val"), [(20, 30), (1, 0), (5, 100)])
def test_per_class_counts(name, train, val):
    graph = datasets.load(name)
    split = splits.per_class(graph, train, val, seed=3)
    assert split.name == f"per-class:{train}+{val}:3"
    assert np.bincount(graph.labels[split.train]).tolist() == [train] * graph.num_classes
    assert np.bincount(graph.labels[split.val], minlength=graph.num_classes).tolist() == [val] * graph.num_classes
    together = np.sort(np.concatenate([split.train, split.val, split.test]))
    assert np.array_equal(together, np.flatnonzero(graph.labels >= 0))


def test_per_class_depends_on_the_seed_alone():
    graph = datasets.load("cora")
    assert splits.per_class(graph, seed=1) == splits.per_class(graph, seed=1)
    assert splits.per_class(graph, seed=1) != splits.per_class(graph, seed=2)
    assert splits.per_class(graph) == splits.per_class(graph, 20, 30, seed=0)


def ring(labels=None, **arguments) -> Graph:
    return Graph.from_edges([(i, (i + 1) % 6) for i in range(6)], labels=labels, name="ring", **arguments)


def test_per_class_draws_uniformly():
    graph = ring([0, 0, 0, 1, 1, 1])
    counts = np.zeros(6)
    for seed in range(600):
        counts[splits.per_class(graph, 1, 1, seed=seed).train] += 1
    assert (abs(counts - 200) < 5 * np.sqrt(600 * 2 / 9)).all()


@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (ring([0, 0, 0, 0, 1, -1]), "at least train . val = 3 nodes, but class 1 has 1"),
        (ring([0, 0, 0, 2, 2, 2]), "class 1 has 0"),
        (ring([0, 0, 0, 0, 1, 1], class_names=["a", "b"]), r"class 1 \(b\) has 2"),
        (ring(), "needs labels, and graph 'ring' has none"),
        (ring([-1] * 6), "needs labels"),
    ],
)
def test_per_class_needs_enough_members(graph, match):
    with pytest.raises(InputError, match=match):
        splits.per_class(graph, 1, 2, seed=0)


@pytest.mark.parametrize("arguments", [{"train": 0}, {"val": -1}, {"seed": -1}, {"train": 1.5}, {"seed": 2**32}])
def test_per_class_arguments(arguments):
    with pytest.raises(InputError, match=next(iter(arguments))):
        splits.per_class(ring([0, 0, 0, 1, 1, 1]), **arguments)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, True, None, "2019"])
def test_shuffled_seed(seed):
    with pytest.raises(InputError, match="seed must be"):
        splits.shuffled(datasets.load("cora"), seed)


@pytest.mark.parametrize("make", [splits.public, lambda graph: splits.shuffled(graph, 2019)])
def test_no_standard_split_says_what_to_use(make):
    with pytest.raises(
        InputError, match=r"graph 'ring' has none; use splits\.per_class .*'per-class:20\+30:0' .*'held-out:20%:0'"
    ):
        make(ring([0, 0, 0, 1, 1, 1]))


@pytest.mark.parametrize("text", ["public", "shuffled:2019", "per-class:20+30:7", "per-class:5+0:0"])
def test_parse_round_trip(text):
    graph = datasets.load("cora")
    split = splits.parse(graph, text)
    assert split.name == text
    assert splits.parse(graph, split.name) == split


def test_parse_short_form():
    graph = datasets.load("cora")
    assert splits.parse(graph, "per-class:7") == splits.per_class(graph, 20, 30, seed=7)
    assert splits.parse(graph, "shuffled:2020") == splits.shuffled(graph, 2020)


@pytest.mark.parametrize(
    "text",
    [
        *("", "publik", "Public", "public:1", "shuffled", "shuffled:", "shuffled:-1", "shuffled:1.5"),
        *("shuffled:x", "shuffled:2019\n", "shuffled:٣", "shuffled:99999999999"),
        *("per-class", "per-class:20:30:1", "per-class:a+b:1", None, 3),
    ],
)
def test_parse_refuses(text):
    with pytest.raises(InputError, match="'public', 'shuffled:SEED', 'per-class:SEED'"):
        splits.parse(datasets.load("cora"), text)


@pytest.mark.parametrize(("text", "meant"), [("held-out:20:0", "held-out:20%:0"), ("held-out:5:31", "held-out:5%:31")])
def test_parse_misses_the_percent_sign(text, meant):
    with pytest.raises(InputError, match=f"needs a percent sign: '{meant}'"):
        splits.parse(datasets.load("cora"), text)


def test_parse_does_not_suggest_what_is_there():
    with pytest.raises(InputError, match=r"or 'mask:NUMBER', got 'held-out'\."):
        splits.parse(datasets.load("cora"), "held-out")


def test_parse_suggests():
    with pytest.raises(InputError, match="did you mean 'shuffled'"):
        splits.parse(datasets.load("cora"), "shufled:2019")


def test_split_stores_read_only_copies():
    mine = np.array([2, 1], dtype=np.int32)
    split = Split("mine", mine, [0], ())
    mine[0] = 9
    assert split.train.tolist() == [2, 1]
    for part in (split.train, split.val, split.test):
        assert part.dtype == np.int64
        assert not part.flags.writeable
    with pytest.raises(AttributeError):
        split.train = [3]


def test_split_survives_the_way_to_another_process():
    split = splits.shuffled(datasets.load("cora"), 2019)
    copy = pickle.loads(pickle.dumps(split))
    assert copy == split
    assert hash(copy) == hash(split)
    assert not copy.train.flags.writeable


def test_splits_differ_by_name_order_and_content():
    split = Split("a", [0, 1], [2], [3])
    assert split == Split("a", [0, 1], [2], [3])
    assert split != Split("b", [0, 1], [2], [3])
    assert split != Split("a", [1, 0], [2], [3])
    assert split != Split("a", [0, 1], [3], [2])
    assert split != "a"


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        (([0, 7], [7], [1]), "train and val must be disjoint, but both list node 7"),
        (([0], [1], [2, 0]), "train and test must be disjoint, but both list node 0"),
        (([0], [1, 4], [4]), "val and test must be disjoint, but both list node 4"),
        (([0, 3, 3], [1], [2]), "train must list every node once, but node 3 is repeated"),
        (([0], [-1], [2]), "val must list nodes by indices of at least 0, got -1"),
        (([0.0], [1], [2]), "train must be a list of node indices, got an array of float64"),
        (([0], [1], [True, False]), "test must be .* numpy.flatnonzero"),
        (([[0]], [1], [2]), "train must be a list of node indices"),
        (([0], 1, [2]), "val must be a list of node indices"),
        (([0], [[1], [2, 3]], [4]), "val must be a list of node indices"),
        ((["a"], [1], [2]), "train must be a list of node indices"),
        (([0], [1], None), "test must be a list of node indices"),
        (([], [1], [2]), "train must list at least one node"),
        (([2**64 - 1], [1], [2]), "train must list nodes by indices"),
    ],
)
def test_split_refuses(parts, match):
    with pytest.raises(InputError, match=match):
        Split("mine", *parts)


@pytest.mark.parametrize("name", ["", None, 3])
def test_split_needs_a_name(name):
    with pytest.raises(InputError, match="name of a split"):
        Split(name, [0], [1], [2])


def test_check_names_the_part_and_the_node():
    split = Split("mine", [0], [1], [5])
    assert split.check(6) is split
    with pytest.raises(InputError, match="test of split 'mine' must list nodes below 5, got 5"):
        split.check(5)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 5), min_size=3, max_size=6, unique=True))
@settings(max_examples=30)
def test_shuffled_keeps_nodes_and_sizes(seed, nodes):
    parts = {"train": nodes[:1], "val": nodes[1:2], "test": nodes[2:]}
    split = splits.shuffled(ring(standard_split=parts), seed)
    assert [split.train.size, split.val.size, split.test.size] == [1, 1, len(nodes) - 2]
    dealt = np.concatenate([split.train, split.val, split.test]).tolist()
    assert sorted(dealt) == sorted(nodes)
    assert dealt == reference_shuffle(nodes, seed)


class TestHeldOut:
    LABELS = np.repeat([0, 1, 2, 3, -1], [10, 4, 2, 1, 5])

    def graph(self, labels=None):
        count = len(self.LABELS if labels is None else labels)
        links = [(node, node + 1) for node in range(count - 1)]
        return Graph.from_edges(links, labels=self.LABELS if labels is None else labels)

    @pytest.mark.parametrize(
        ("percent", "held"), [(20, [2, 1, 1, 0]), (1, [1, 1, 1, 0]), (50, [5, 2, 1, 0]), (99, [9, 3, 1, 0])]
    )
    def test_share_of_each_class(self, percent, held):
        split = splits.held_out(self.graph(), percent, seed=3)
        assert split.name == f"held-out:{percent}%:3"
        np.testing.assert_array_equal(np.bincount(self.LABELS[split.val], minlength=4), held)
        np.testing.assert_array_equal(np.sort(np.concatenate([split.train, split.val])), np.arange(17))
        assert split.test.size == 0
        assert (np.diff(split.train) > 0).all()
        assert (np.diff(split.val) > 0).all()

    def test_seeds(self):
        graph = self.graph()
        assert splits.held_out(graph, seed=1) == splits.held_out(graph, seed=1)
        assert len({tuple(splits.held_out(graph, seed=seed).val) for seed in range(10)}) > 5

    def test_by_name(self):
        graph = self.graph()
        assert splits.parse(graph, "held-out:4") == splits.held_out(graph, 20, seed=4)
        for text in ("held-out:20%:4", "held-out:35%:0"):
            assert splits.parse(graph, text).name == text

    def test_refused(self):
        with pytest.raises(InputError, match="needs a class with two labeled nodes or more"):
            splits.held_out(self.graph([0, 1, 2, -1]))
        with pytest.raises(InputError, match="needs labels"):
            splits.held_out(self.graph([-1, -1]))
        for percent in (0, 100, 0.2):
            with pytest.raises(InputError, match="percent must be"):
                splits.held_out(self.graph(), percent)
        with pytest.raises(InputError, match="percent must be between 1 and 99"):
            splits.parse(self.graph(), "held-out:0%:1")


class TestChoose:
    def test_names_numbers_and_splits(self):
        cora = datasets.load("cora")
        mine = Split("mine", [0], [1], [2])
        assert splits.named([2, "public", "1"]) == ["shuffled:2019", "shuffled:2020", "public", "shuffled:2019"]
        assert splits.named(2, "per-class") == ["per-class:20+30:2019", "per-class:20+30:2020"]
        assert splits.named(1, "public") == splits.named("public") == ["public"]
        expected = [mine, splits.public(cora), splits.shuffled(cora, 2019)]
        assert splits.choose(cora, (each for each in [mine, "public", np.int64(1)])) == expected
        assert splits.choose(cora, mine) == [mine]
        assert splits.choose(cora, "public") == splits.choose(cora) == [splits.public(cora)]

    @pytest.mark.parametrize(
        ("wanted", "message"),
        [
            (0, "splits must be at least 1, got 0"),
            ("-3", "splits must be at least 1, got -3"),
            (True, "a split must be a Split, its name, such as 'public', or a number of splits, got True"),
            ([None], "a split must be a Split, its name, such as 'public', or a number of splits, got None"),
            (2.0, "a split must be a Split"),
            ("pubic", "did you mean 'public'"),
        ],
    )
    def test_refused(self, wanted, message):
        with pytest.raises(InputError, match=message):
            splits.choose(datasets.load("cora"), wanted)
        with pytest.raises(InputError, match="splits must be 1, since there is one public split, got 2"):
            splits.named(2, "public")

    def test_a_graph_without_a_public_split_is_held_out_and_told(self):
        links = [(node, node + 1) for node in range(6)]
        graph = Graph.from_edges(links, labels=[0, 0, 0, 0, 0, 1, -1], class_names=["many", "one"])
        with pytest.warns(UserWarning, match="held out|one labeled node") as caught:
            [split] = splits.choose(graph)
        assert split == splits.held_out(graph)
        told = [str(each.message) for each in caught]
        assert told == [
            "1 of 6 labeled nodes are held out for validation (20% of each class, at least one where it has two).",
            "a class with one labeled node is learned but not validated: 'one'.",
        ]
        assert {each.filename for each in caught} == {__file__}
        with pytest.raises(InputError, match=r"at least train \+ val = 50 nodes, but class 0 \(many\) has 5"):
            splits.choose(graph, 2)


class TestMasks:
    """Splits that came with the data as rows of booleans."""

    @staticmethod
    def graph(**arguments):
        rows = np.eye(4, dtype=bool)
        masks = {"train": rows[:2], "val": rows[[2, 2]], "test": rows[[3, 0]]}
        return Graph.from_edges([(0, 1), (1, 2), (2, 3)], labels=[0, 1, 0, 1], masks=masks, **arguments)

    def test_all_of_them_by_name_and_by_number(self):
        graph = self.graph()
        first, second = splits.masks(graph)
        assert first == Split("mask:0", [0], [2], [3])
        assert second == Split("mask:1", [1], [2], [0])
        assert splits.parse(graph, "mask:1") == second
        assert splits.choose(graph, 2) == splits.choose(graph, ["mask:0", "mask:1"]) == [first, second]
        assert splits.named(3, "mask") == ["mask:0", "mask:1", "mask:2"]

    def test_by_default_the_first_and_before_it_the_public_split(self):
        assert splits.choose(self.graph()) == [splits.parse(self.graph(), "mask:0")]
        both = self.graph(standard_split={"train": [3], "val": [1], "test": [0]})
        assert splits.choose(both) == [splits.public(both)]
        assert splits.usual_rule(both) == "mask"

    def test_a_rule_for_several_graphs(self):
        cora, masked, bare = datasets.load("cora"), self.graph(), Graph.from_edges([(0, 1)])
        assert splits.usual_rule(masked, masked) == "mask"
        assert splits.usual_rule(cora, cora) == "shuffled"
        assert splits.usual_rule(cora, masked) == splits.usual_rule(bare) == "per-class"

    def test_refused(self):
        with pytest.raises(InputError, match="Split 'mask:2' is not there: graph 'given' comes with the masks 0 to 1"):
            splits.choose(self.graph(), 3)
        for call in (
            lambda: splits.masks(datasets.load("cora")),
            lambda: splits.parse(datasets.load("cora"), "mask:0"),
        ):
            with pytest.raises(InputError, match="graph 'cora' comes with no masks"):
                call()


def test_weights_of_nodes_belong_to_a_split():
    plain, weighted = Split("mine", [0], [1], []), Split("mine", [0], [1], [], [2.0, 0.0])
    assert plain != weighted == Split("mine", [0], [1], [], np.array([2.0, 0.0]))
    assert hash(weighted) != hash(plain)
    copied = pickle.loads(pickle.dumps(weighted))
    assert copied == weighted
    with pytest.raises(ValueError, match="read-only"):
        copied.node_weight[0] = 1.0
    assert weighted.check(2) is weighted
    with pytest.raises(InputError, match="node_weight of split 'mine' must have a number for each of 3 nodes, got 2"):
        weighted.check(3)
    for wrong, message in (
        ([-1.0, 1.0], "none of them negative"),
        ([np.nan, 1.0], "finite"),
        ([[1.0, 1.0]], "one for each node"),
        ([0.0, 1.0], "positive for at least one training node"),
        ([], "positive for at least one training node"),
    ):
        with pytest.raises(InputError, match=message):
            Split("mine", [0], [1], [], wrong)
