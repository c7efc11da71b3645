"""Names that others chose: shown with escapes wherever people read, harmless in spreadsheets, and unchanged as data."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fishergcn
from fishergcn import Graph
from fishergcn._base import foreign, text
from fishergcn.cli import main

SOURCE = Path(fishergcn.__file__).parents[1]
EVIL = "a\x1b]0;owned\x07\x1b[31m\x9b2J\u202eb\u200b\u2066\ufeff\u2028c"
UNSEEN = [each for each in EVIL if unicodedata.category(each) in ("Cc", "Cf", "Zl")]
FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "＝1+1", "'=1+1", "''=x"]


class TestPrintable:
    @given(st.text())
    def test_no_character_that_acts_or_hides_is_left(self, text):
        shown = foreign.printable(text)
        assert all(unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in shown)
        assert foreign.printable(shown) == shown

    @given(st.text(st.characters(categories=("L", "N", "P", "Zs"), exclude_characters="\u115f\u1160\u3164\uffa0")))
    def test_what_can_be_seen_stays(self, text):
        assert foreign.printable(text) == text

    @pytest.mark.parametrize("character", ["\x1b", "\x9b", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u3164",
                                           "\ufe0f", "\U000e0041", "\ud800", "\u2028", "\r"])  # fmt: skip
    def test_what_cannot_be_seen_is_escaped(self, character):
        assert foreign.printable(f"a{character}b").isprintable()

    @given(st.text())
    def test_json_means_the_same(self, text):
        made = foreign.json_printable(json.dumps({"name": text}, ensure_ascii=False))
        assert json.loads(made) == {"name": text}
        assert foreign.printable(made, keep="\n") == made

    def test_markdown_loads_nothing(self):
        assert "](" not in foreign.markdown("![x](http://example.org/beacon.png)")
        assert "<" not in foreign.markdown("<img src=x>").replace("\\<", "")


class TestSpreadsheets:
    @given(st.text())
    def test_cells_are_read_back_unchanged(self, text):
        assert foreign.from_spreadsheet(foreign.for_spreadsheet(text)) == text

    @given(st.text("ab;\t=-+@1.\"'"))
    def test_cells_of_other_languages_are_read_back_unchanged_and_hold_no_formula(self, cell):
        written = foreign.for_spreadsheet(cell)
        assert foreign.from_spreadsheet(written) == cell
        line = text.csv_text(["a"], [["x", written, 0.5]]).splitlines()[1]
        for each in re.split("[;\t]", line)[1:]:  # where the decimal comma is usual
            found = each.lstrip('"')
            assert found[:1] not in [*"=+-@"] or re.match(r"[+-](\d+\.?\d*|\.\d+)(\"|,|$)", found), line

    def test_a_formula_after_a_semicolon(self):
        assert foreign.for_spreadsheet("a;=1+1") == "a;'=1+1"
        assert foreign.for_spreadsheet("a;-1;b") == "a;-1;b"

    @pytest.mark.parametrize("cell", FORMULAS)
    def test_no_cell_begins_a_formula(self, cell):
        assert foreign.for_spreadsheet(cell)[0] == "'"
        [[_], [written]] = csv.reader(io.StringIO(text.csv_text(["name"], [[cell]])))
        assert written[0] not in "=+-@\t\r＝＋－＠"

    @pytest.mark.parametrize("cell", ["-1", "+1.5e-3", "-.5", "plain", "'tis", ""])
    def test_numbers_and_words_are_left_alone(self, cell):
        assert foreign.for_spreadsheet(cell) == cell

    def test_columns_too(self):
        assert text.csv_text(["=a", "b"], []).startswith("'=a,b")

    def test_numbers_stay_numbers(self):
        assert text.csv_text(["a"], [[-0.5], [float("nan")], [None]]) == 'a\n-0.5\n""\n""\n'


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of a graph whose name, nodes and classes are hostile."""
    from fishergcn.execution import train
    from fishergcn.models import save_models
    from fishergcn.splits import Split

    nodes = [EVIL, "=HYPERLINK(1)", "@x", "plain"]
    graph = Graph.from_edges(
        [(0, 1), (1, 2), (2, 3), (3, 0)], features=np.eye(4), labels=[0, 1, 0, 1], name=f"g{EVIL}",
        node_ids=nodes, class_names=[f"red{EVIL}", "-2+3"],
    )  # fmt: skip
    split = Split("s", np.array([0, 1]), np.array([2]), np.array([3]))
    records = train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=1, hidden=2), keep_weights=True)
    folder = tmp_path_factory.mktemp("evil")
    graph.save(folder / "g.npz")
    save_models(folder / "model", graph, records, split)
    (folder / "links.csv").write_text(f'"{EVIL[:-2]}","=1+1"\n"=1+1","@x"\n', encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "info", "g.npz"],
        ["data", "info", "g.npz", "--json"],
        ["predict", "model"],
        ["train", "--graph", "g.npz", "--method", "gcn", "--epochs", "1", "--splits", "held-out:50%:0"],
        ["data", "info", EVIL.replace("/", "")],
        ["predict", f"no{EVIL}"],
        [f"--{EVIL}"],
        [EVIL],
    ],
)
def test_nothing_that_a_command_prints_acts_on_the_terminal(model, arguments, monkeypatch, capfd):
    monkeypatch.chdir(model)
    monkeypatch.setattr(sys, "argv", ["fishergcn", *arguments])
    with pytest.raises(SystemExit):
        main()
    text = "".join(capfd.readouterr())
    assert "a" in text
    assert not [each for each in UNSEEN if each in text]
    assert "Traceback" not in text


def test_the_card_and_the_tables_of_a_model(model):
    card = (model / "model" / "README.md").read_text(encoding="utf-8")
    assert r"\\x1b" in card
    assert not [each for each in UNSEEN if each in card]
    with (model / "model" / "predictions.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert all(cell[0] not in "=+-@" for row in rows for cell in row)
    assert [foreign.from_spreadsheet(row[0]) for row in rows[1:]] == [EVIL, "=HYPERLINK(1)", "@x", "plain"]


def test_predictions_are_read_back_as_labels(model, tmp_path):
    """What the package wrote for a spreadsheet, its reader of tables takes for what it was."""
    with (model / "model" / "predictions.csv").open(newline="", encoding="utf-8") as stream:
        rows = [row[:2] for row in csv.reader(stream)][2:]
    with (tmp_path / "labels.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    (tmp_path / "links.csv").write_text("'=HYPERLINK(1),@x\n@x,plain\n")
    graph = Graph.from_files(tmp_path / "links.csv", labels=tmp_path / "labels.csv", header=[])
    assert set(graph.node_ids) == {"=HYPERLINK(1)", "@x", "plain"}
    assert set(graph.class_names) <= {"-2+3", f"red{EVIL}".strip()}


def test_a_page_shows_escapes():
    from fishergcn.drawing import tag

    made = tag("td", EVIL, title=EVIL)
    assert not [each for each in UNSEEN if each in made]


def test_an_archive_of_runs_with_odd_names_is_read_back(tmp_path):
    from fishergcn import studies

    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    with studies.run(plan, tmp_path / "runs", device="cpu", workers=1) as runs:
        values = json.loads(json.dumps(plan.to_dict()).replace('"cora"', '"=cora"'))
        odd = type(plan).from_dict(values)

        import dataclasses

        records = [dataclasses.replace(record, dataset="=cora") for record in runs.records()]
        renamed = studies._archive.Archive(odd, {}, {("=cora", odd.cells[0].name): records}, {})
        studies.write_archive(tmp_path / "archive", renamed, curves="none")
    assert "\n'=cora," in (tmp_path / "archive" / "runs.csv").read_text(encoding="utf-8")
    with studies.open_runs(tmp_path / "archive") as back:
        assert [record.dataset for record in back.records()] == ["=cora"]
