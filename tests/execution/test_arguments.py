"""Wrong types are refused with one sentence that says how to get the right one; splits may be given by name."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.errors import InputError
from fishergcn.execution import check_graph, check_records, chosen_config

CONFIG = TrainConfig(max_epochs=2, hidden=4)


@pytest.fixture(scope="module")
def graph() -> Graph:
    labels = np.arange(12) % 2
    return Graph.from_edges([(i, (i + 2) % 12) for i in range(12)], features=np.eye(12), labels=labels, name="rings")


def test_training_by_the_name_of_a_split_is_training_on_it(graph) -> None:
    [named] = train(graph, "gcn", "per-class:2+1:0", config=CONFIG)
    [given] = train(graph, "gcn", splits.per_class(graph, 2, 1, seed=0), config=CONFIG)
    assert named.split == "per-class:2+1:0"
    assert named.curves == given.curves


def test_numbers_of_seeds_may_come_from_numpy(graph) -> None:
    records = train(graph, "gcn", "per-class:2+1:0", seeds=np.int64(2), config=CONFIG)
    assert [record.seed for record in records] == [2019, 2020]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph": "cora"}, r"graph must be a Graph, got str; fishergcn\.datasets\.load\('cora'\) gives one\."),
        ({"graph": "mine"}, r"graph must be a Graph, got str; Graph\.from_edges, from_files, .* make one\."),
        ({"graph": np.eye(3)}, "graph must be a Graph, got ndarray"),
        ({"config": {"max_epochs": 2}}, r"config must be a TrainConfig, got dict; TrainConfig\(\*\*config\)"),
        ({"config": 3}, r"config must be a TrainConfig, got int\."),
        ({"splits": "pubic"}, "did you mean 'public'"),
        ({"splits": "public"}, "needs a graph that comes with a standard split"),
        ({"splits": 3}, "Every class must have at least"),
        ({"splits": 0}, "splits must be at least 1, got 0"),
        ({"splits": [None]}, "a split must be a Split, its name, such as 'public', or a number of splits, got None"),
        ({"splits": []}, "at least one split"),
        ({"splits": ["per-class:2+1:0"] * 2}, "distinct names"),
        ({"seeds": 2.0}, r"seeds must be a whole number, got 2\.0"),
        ({"seeds": None}, "seeds must be a whole number, got None"),
        ({"seeds": "2"}, "seeds must be a whole number, got '2'"),
        ({"seeds": True}, "seeds must be a whole number, got True"),
        ({"method": 5}, "method must be one of"),
    ],
)
def test_wrong_arguments_of_train(graph, changes, message) -> None:
    arguments = {"graph": graph, "method": "gcn", "splits": "per-class:2+1:0", "config": CONFIG}
    with pytest.raises(InputError, match=message):
        train(**(arguments | changes))


def test_right_ones_come_back_as_they_are(graph) -> None:
    [record] = train(graph, "gcn", "per-class:2+1:0", config=CONFIG)
    assert check_graph(graph) is graph
    assert chosen_config(CONFIG, None) is CONFIG
    [same] = check_records(iter([record]))
    assert same is record


def test_settings_by_name_or_by_difference() -> None:
    assert chosen_config(None, "paper") == TrainConfig()
    assert chosen_config(None, None) == TrainConfig.named("general")
    assert chosen_config(None, {"hidden": 16}) == TrainConfig.named("general", hidden=16)
    with pytest.raises(InputError, match="give config or settings, not both"):
        chosen_config(CONFIG, "paper")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "records must hold at least one RunRecord, got none"),
        (3, "records must be a list of RunRecord, got int"),
        ([3], r"record must be one RunRecord, got int\."),
        ([[]], r"record must be one RunRecord, got list; best_run\(records\) chooses one\."),
    ],
)
def test_what_is_no_list_of_records(given, message) -> None:
    with pytest.raises(InputError, match=message):
        check_records(given)
