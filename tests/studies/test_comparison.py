"""Studies on graphs and splits of one's own: planned, run, taken up again, or refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, datasets, splits, studies, train
from fishergcn.errors import DataFileError, InputError
from fishergcn.report import write_report
from fishergcn.splits import Split

FEW = TrainConfig(max_epochs=2, hidden=4, rank=2)


def ring(name="ring", nodes=12, seed=0, **arguments):
    rng = np.random.default_rng(seed)
    links = [(node, (node + step) % nodes) for node in range(nodes) for step in (1, 2)]
    arguments = {"features": rng.random((nodes, 3)), **arguments}
    return Graph.from_edges(links, labels=np.arange(nodes) % 2, name=name, **arguments)


def mine(name="mine", shift=0):
    nodes = (np.arange(12) + shift) % 12
    return Split(name, nodes[:4], nodes[4:8], nodes[8:])


def with_masks(name="masked", count=3):
    parts = [mine(shift=shift) for shift in range(count)]
    rows = np.zeros((3, count, 12), dtype=bool)
    for number, split in enumerate(parts):
        for part, nodes in enumerate((split.train, split.val, split.test)):
            rows[part, number, nodes] = True
    return ring(name, masks=dict(zip(("train", "val", "test"), rows, strict=True)))


class TestPlan:
    def test_references_are_added_and_all_graphs_have_the_same_splits(self):
        plan = studies.make_comparison([with_masks("a"), with_masks("b")], ["gcn-x5-c"], seeds=2, config=FEW)
        assert [cell.name for cell in plan.cells] == ["gcn", "mlp-x5", "mlp-x5-c", "gcn-x5", "gcn-x5-c"] * 2
        assert plan.datasets == ("a", "b")
        assert plan.splits == ("mask:0", "mask:1", "mask:2")  # all masks, since there are fewer than ten
        assert (len(plan), plan.published, plan.changed) == (60, (), ())
        assert {cell.config for cell in plan.cells} == {FEW}

    def test_a_number_of_splits_by_the_rule_that_all_graphs_admit(self):
        assert studies.make_comparison(["cora"], ["gcn"], splits=1).splits == ("shuffled:2019",)
        assert len(studies.make_comparison(["cora"], ["gcn"]).splits) == 10
        large = ring(nodes=120)
        assert studies.make_comparison(["cora", large], ["gcn"], splits=2).splits == (
            "per-class:20+30:2019",
            "per-class:20+30:2020",
        )

    def test_names_are_those_that_the_splits_have(self):
        plan = studies.make_comparison([ring(nodes=120)], ["gcn"], splits="per-class:7")
        assert plan.splits == ("per-class:20+30:7",)

    def test_own_splits_are_in_the_digests_and_not_in_the_plain_values(self):
        plan = studies.make_comparison([ring()], ["gcn"], splits=[mine("a"), mine("b", 1)])
        assert plan.splits == ("a", "b")
        assert set(plan.digests) == {"ring", "ring, splits"}
        values = plan.to_dict()
        assert not {"graphs", "own_splits"} & set(values)
        again = studies.Plan.from_dict(values)
        assert again == plan
        assert (dict(again.graphs), dict(again.own_splits)) == ({}, {})

    def test_by_the_name_of_the_graph(self):
        graphs = [ring("a"), ring("b")]
        plan = studies.make_comparison(graphs, ["gcn"], splits={"a": mine(), "b": [mine(shift=3)]})
        assert plan.own_splits == {"a": (mine(),), "b": (mine(shift=3),)}
        mixed = studies.make_plan("quick", datasets=[ring("a")], splits=[mine(), "held-out:25%:1"])
        assert mixed.splits == ("mine", "held-out:25%:1")
        assert mixed.own_splits == {"a": (mine(),)}

    @pytest.mark.parametrize(
        ("wanted", "message"),
        [
            ({"a": mine()}, r"splits must be given for each of a, b, got those of a\."),
            ({"a": mine(), "b": mine("other")}, "the same names on all graphs, but those of 'b' differ"),
            ([mine()], "splits of your own belong to one graph: for several, give them by the name of the graph"),
            ({"a": mine(), "b": Split("mine", [0], [1], [99])}, "must list nodes below 12, got 99"),
            ("mask:0", "graph 'a' comes with no masks"),
            ([], "at least one cell, one split and one seed"),
        ],
    )
    def test_splits_that_are_refused(self, wanted, message):
        with pytest.raises(InputError, match=message):
            studies.make_comparison([ring("a"), ring("b")], ["gcn"], splits=wanted)

    def test_graphs_that_are_refused(self):
        with pytest.raises(InputError, match="graphs must hold at least one graph, got none"):
            studies.make_comparison([], ["gcn"])
        with pytest.raises(InputError, match="different names, got 'ring' twice"):
            studies.make_comparison([ring(), ring(seed=1)], ["gcn"])
        with pytest.raises(InputError, match="graph 'bare' has no labels to learn from"):
            studies.make_comparison([Graph.from_edges([(0, 1)], name="bare")], ["gcn"])


class TestRun:
    def test_records_are_those_of_training(self, tmp_path):
        graphs = [ring("a"), ring("b", seed=1)]
        plan = studies.make_comparison(graphs, ["gcn-x5"], splits={"a": mine(), "b": mine(shift=2)}, config=FEW)
        with studies.run(plan, tmp_path, device="cpu", workers=1) as runs:
            found = {(record.dataset, name): record for name, record in runs.entries()}
            compared = {(each.dataset, each.cell, each.reference, each.role) for each in studies.compare(runs)}
        assert ("b", "gcn-x5", "gcn", "baseline") in compared
        assert ("b", "gcn-x5", "mlp-x5", "without links") in compared
        [expected] = train(graphs[1], "gcn-x5", mine(shift=2), config=FEW, device="cpu")
        assert found["b", "gcn-x5"].test_loss == expected.test_loss
        assert found["b", "gcn-x5"].graph_digest == graphs[1].digest

    def test_methods_without_a_network_or_without_the_links(self, tmp_path):
        plan = studies.make_comparison([with_masks()], ["mlp", "lp", "majority"], config=FEW)
        with studies.run(plan, tmp_path, device="cpu", workers=1) as runs:
            found = {(name, record.split): record for name, record in runs.entries()}
        for method in ("gcn", "mlp", "lp", "majority"):
            [expected] = train(with_masks(), method, "mask:1", config=FEW, device="cpu")
            assert found[method, "mask:1"].test_cross_entropy == expected.test_cross_entropy

    def test_a_study_is_taken_up_with_the_same_splits_only(self, tmp_path):
        options = {"device": "cpu", "workers": 1}
        plan = studies.make_comparison([ring()], ["gcn"], splits=mine(), config=FEW)
        studies.run(plan, tmp_path, **options).close()
        again = studies.make_comparison([ring()], ["gcn"], splits=mine(), config=FEW)
        with studies.run(again, tmp_path, **options) as runs:
            assert runs.counts() == {"ok": 2}
        other = studies.make_comparison([ring()], ["gcn"], splits=mine(shift=1), config=FEW)
        with pytest.raises(DataFileError, match="you asked for: data of ring, splits"):
            studies.run(other, tmp_path, **options)
        read = studies.Plan.from_dict(plan.to_dict())
        with pytest.raises(InputError, match="data set 'ring' is not built in"):
            studies.run(read, tmp_path / "new", **options)

    def test_own_splits_of_a_shipped_graph_are_asked_for(self, tmp_path):
        own = splits.shuffled(datasets.load("cora"), 2019)
        plan = studies.make_plan("quick", methods=["gcn"], splits=Split("mine", own.train, own.val, own.test), epochs=1)
        with pytest.raises(InputError, match="the study uses custom splits on 'cora'; pass them to the plan"):
            studies.run(studies.Plan.from_dict(plan.to_dict()), tmp_path, device="cpu", workers=1)

    def test_the_report_has_no_columns_of_the_paper(self, tmp_path):
        plan = studies.make_comparison([with_masks()], ["fishergcn"], config=FEW)
        studies.run(plan, tmp_path, device="cpu", workers=2).close()
        page = write_report(tmp_path).read_text(encoding="utf-8")
        assert "paper’s" not in page.partition('id="results"')[2].partition("</section>")[0]
        markdown = (tmp_path / "tables.md").read_text(encoding="utf-8")
        assert "paper" not in markdown
        assert "| masked | fishergcn − gcn-x5 | control |" in markdown
