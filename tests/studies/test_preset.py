"""Every shipped preset is valid, holds the published numbers, and has its controls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fishergcn import studies
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import _preset, make_plan
from fishergcn.training import TrainConfig, control_of

# accuracy (Cora, CiteSeer, PubMed), then loss, copied from the paper and from its reference code
PUBLISHED = {
    "table2": {
        "gcn": (80.52, 69.59, 78.17, 1.07, 1.36, 0.75),
        "fishergcn": (80.70, 69.80, 78.43, 1.06, 1.35, 0.74),
        "gcn-t": (81.20, 70.31, 78.99, 1.04, 1.33, 0.70),
        "fishergcn-t": (81.46, 70.48, 79.34, 1.03, 1.32, 0.69),
    },
    "table3": {
        "gcn": (81.42, 70.62, 78.81, 1.07, 1.37, 0.74),
        "fishergcn": (81.87, 70.92, 78.92, 1.06, 1.36, 0.73),
        "gcn-t": (81.88, 71.61, 79.11, 1.05, 1.33, 0.70),
        "fishergcn-t": (82.20, 71.82, 79.05, 1.03, 1.32, 0.69),
    },
    "three-layers": {
        "gcn": (79.16, 67.68, 76.65, 0.93, 1.31, 0.89),
        "fishergcn": (79.80, 68.32, 77.00, 0.89, 1.26, 0.85),
        "gcn-t": (80.40, 68.28, 78.11, 0.87, 1.29, 0.79),
        "fishergcn-t": (80.85, 68.67, 78.50, 0.84, 1.24, 0.76),
    },
}


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduction.md"


def test_run_counts_on_the_page_are_those_of_the_presets():
    text = PAGE.read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `fishergcn reproduce (\S+) --out \S+` \|.*\| ([\d,]*) ?\|$", text, flags=re.MULTILINE))
    assert set(told) == set(studies.available_presets())
    for name, count in told.items():
        found = studies.load_preset(name)
        assert count == ("" if found.kind == "data" else f"{len(make_plan(found)):,}"), name


def test_the_example_on_the_page(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "wide.toml").write_text(example)
    plan = make_plan(studies.load_preset(tmp_path / "wide.toml"))
    assert [cell.name for cell in plan.cells] == ["gcn", "gcn-x5", "fishergcn", "fishergcn hidden=64"]
    assert [cell.config.hidden for cell in plan.cells] == [(16,), (16,), (16,), (64,)]
    assert (len(plan), len(plan.published), plan.changed) == (24, 1, ())
    listed = set(re.findall(r"`\[*(\w+)\]*`", "".join(re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE))))
    assert listed >= set(_preset._KEYS)  # every entry is described


def test_all_are_there():
    expected = {"ablation", "curves", "quick", "table1", "table2", "table3", "three-layers"}
    expected |= {"robustness", "robustness-quick", "perturbations"}
    expected |= {"consistency", "consistency-public", "consistency-settings"}
    assert set(studies.available_presets()) == expected


@pytest.mark.parametrize("name", studies.available_presets())
def test_every_preset_is_valid(name):
    found = studies.load_preset(name)
    assert found.name == name
    assert found.title
    assert found.source
    assert found.notes
    if found.kind == "data":
        assert {facts["dataset"] for facts in found.facts} == set(found.datasets)
        return
    plan = make_plan(found)
    assert len({(cell.dataset, cell.name) for cell in plan.cells}) == len(plan.cells)
    alone = sum("runs" in cell.options for cell in plan.cells)  # the attack on one network after the other
    assert (alone > 0) == (found.kind == "attack")
    every = found.splits * found.seeds
    assert len(plan) == len(plan.cells) * every - alone * (every - found.attacks.get("prbcd", {"runs": every})["runs"])


@pytest.mark.parametrize("name", [name for name in studies.available_presets() if name != "table1"])
def test_every_comparison_has_its_references(name):
    found = studies.load_preset(name)
    plan = make_plan(found)
    for cell in plan.cells:
        references = {other.method: role for other, role in plan.references(cell).items()}
        assert "gcn" in references or cell.method == "gcn"
        assert cell.control is None or references[cell.control] == "control"
        assert all(other.options == cell.options for other in plan.references(cell))
    # Written in the file itself, not only added by the plan.
    listed = {control_of(method, found.config) for method in found.methods} - {None}
    assert {"gcn", *listed} <= set(found.methods)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers(name):
    found = {(entry.method, entry.dataset): entry for entry in studies.load_preset(name).published}
    assert len(found) == 12
    for method, numbers in PUBLISHED[name].items():
        for index, dataset in enumerate(("cora", "citeseer", "pubmed")):
            entry = found[method, dataset]
            assert entry.accuracy == pytest.approx(numbers[index] / 100, abs=1e-12)
            assert entry.loss == numbers[index + 3]
            assert entry.source


def test_the_protocol():
    table2, table3, deep, curves = map(studies.load_preset, ("table2", "table3", "three-layers", "curves"))
    assert table2.config == table3.config == TrainConfig()
    assert (table2.split_rule, table2.splits, table2.seeds) == ("shuffled", 20, 10)
    assert (table3.split_rule, table3.splits, table3.seeds) == ("public", 1, 50)
    assert deep.config == TrainConfig(hidden=(64, 64))
    assert curves.config == TrainConfig(max_epochs=100, stopping="none")


def test_the_ablation_turns_every_screw():
    variants = studies.load_preset("ablation").variants
    turned = {key for variant in variants for key in variant.config}
    wanted = {"radius", "rank", "samples", "noise", "directions", "adversarial", "scale", "perturbation"}
    assert wanted <= turned
    assert {variant.config.get("radius") for variant in variants} >= {0.5, 1.0, 2.0, 4.0}
    assert {variant.config.get("perturbation") for variant in variants} >= {"link-flip", "link-drop"}


def test_a_preset_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "t"\nsource = "s"\ndatasets = ["cora"]\nmethods = ["gcn"]\n[config]\nradius = 2\n')
    found = studies.load_preset(path)
    assert (found.name, found.split_rule, found.config.radius) == ("mine", "public", 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "not valid TOML"),
        ('source = "s"\ndatasets = ["cora"]\nmethods = ["gcn"]', "'title'"),
        ('title = "t"\nsource = "s"\ndatasets = ["coar"]\nmethods = ["gcn"]', "did you mean 'cora'"),
        ('title = "t"\nsource = "s"\ndatasets = ["cora"]\nmethods = ["gnc"]', "method must be"),
        ('title = "t"\nsource = "s"\ndatasets = ["cora"]', "at least one method"),
        ('title = "t"\nsource = "s"\ndatasets = ["cora"]\nmethods = ["gcn"]\nseed = 1', "unknown entry 'seed'"),
        ('title = "t"\nsource = "s"\ndatasets = ["cora"]\nmethods = ["gcn"]\n[config]\nrate = 1', "unknown setting"),
        (
            'title = "t"\nsource = "s"\ndatasets = ["cora"]\nmethods = ["gcn"]\n[splits]\nrule = "public"\ncount = 2',
            "count",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        studies.load_preset(path)


def test_unknown_names(tmp_path):
    with pytest.raises(InputError, match="did you mean 'table2'"):
        studies.load_preset("tabel2")
    with pytest.raises(DataFileError, match="cannot be read"):
        studies.load_preset(tmp_path / "none.toml")
