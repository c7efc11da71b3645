"""``fishergcn report``: the files it writes, and that their numbers are those of the runs."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import html
import re
import shutil
import sqlite3
import webbrowser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import datasets
from fishergcn.cli import app
from fishergcn.errors import DataFileError
from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks
from fishergcn.graph import Graph
from fishergcn.report import write_report
from fishergcn.studies import control_equivalence, open_runs, write_archive

SECTIONS = [
    "headline", "summary", "results", "differences", "curves", "spectrum", "ablation", "geometry", "failures",
    "protocol",
]  # fmt: skip


def sections(folder):
    return re.findall(r'<section id="([a-z]+)"', (folder / "report.html").read_text())


def runs_of(folder):
    source = open_runs(folder)
    try:
        return list(source.entries())
    finally:
        source.close()


@pytest.fixture
def copy(plain_report, tmp_path):
    """Return a folder with the runs of the plain report and no report."""
    for path in plain_report.glob("runs.sqlite*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_all_files_are_there(plain_report):
    names = {path.name for path in plain_report.iterdir()}
    assert {"report.html", "tables.md", "tables.csv", "figures"} <= names
    figures = {path.name for path in (plain_report / "figures").iterdir()}
    stems = {name.rpartition(".")[0] for name in figures}
    assert figures == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png", "csv")}
    assert {"forest-cora", "spectrum-cora-fishergcn", "shape-cora-fishergcn", "curves-cora-val-loss"} <= stems
    assert not [name for name in names | figures if name.startswith(".")]  # no temporary file is left


def test_the_parts_are_in_order(plain_report, hostile_report, ablation_report):
    assert sections(plain_report) == [*SECTIONS[:6], "protocol"]
    assert sections(ablation_report) == [*SECTIONS[:7], "protocol"]
    assert sections(hostile_report)[-2:] == ["failures", "protocol"]
    assert sections(hostile_report) == [name for name in SECTIONS if name in sections(hostile_report)]


def test_several_comparisons_with_controls_are_summed_up(plain_report, hostile_report):
    """One comparison speaks for itself, and so does its interval."""
    assert 'id="equivalence"' not in (plain_report / "report.html").read_text()
    with open_runs(hostile_report) as runs:
        sentence = control_equivalence(runs).sentence
    assert "2 comparisons pooled" in sentence
    assert sentence in (hostile_report / "report.html").read_text()


def test_tables_equal_the_runs(plain_report):
    with (plain_report / "tables.csv").open() as stream:
        rows = {row["cell"]: row for row in csv.DictReader(stream)}
    markdown = (plain_report / "tables.md").read_text()
    for name, row in rows.items():
        runs = [run for cell, run in runs_of(plain_report) if cell == name]
        accuracies = np.array([run.test_accuracy for run in runs])
        assert int(row["runs"]) == len(runs) == 10
        assert float(row["accuracy"]) == pytest.approx(accuracies.mean(), abs=1e-15)
        assert float(row["accuracy_std"]) == pytest.approx(accuracies.std(ddof=1), abs=1e-15)
        assert float(row["loss"]) == pytest.approx(np.mean([run.test_loss for run in runs]), abs=1e-14)
        assert float(row["accuracy_low"]) < accuracies.mean() < float(row["accuracy_high"])
        assert f"| cora | {name} | 10 | {100 * accuracies.mean():.2f} [" in markdown
    difference = float(rows["gcn"]["accuracy"]) - 0.8
    assert float(rows["gcn"]["accuracy_difference"]) == pytest.approx(difference, abs=1e-15)
    assert rows["gcn"]["published_accuracy"] == "0.8"
    assert rows["gcn-x5"]["published_accuracy"] == ""


def test_the_protocol_card(plain_report):
    page = (plain_report / "report.html").read_text()
    digest = runs_of(plain_report)[0][1].graph_digest
    for text in (f"sha256:{digest}", "fishergcn reproduce x", "seeds 2019 to 2023 (5 splits)", "2019 to 2020 (2 init",
                 "torch 2.13", "30 finished of 30 planned", "reassigned at random", "by the test acc"):  # fmt: skip
        assert text in page


def test_a_second_report_is_the_same(plain_report, copy):
    write_report(copy)
    write_report(copy)
    for path in [plain_report / "report.html", plain_report / "tables.md", *(plain_report / "figures").iterdir()]:
        assert (copy / path.relative_to(plain_report)).read_bytes() == path.read_bytes()


def test_an_archive_gives_the_same_tables(plain_report, tmp_path):
    source = open_runs(plain_report)
    write_archive(tmp_path, source)
    source.close()
    write_report(tmp_path)
    assert (tmp_path / "tables.csv").read_text() == (plain_report / "tables.csv").read_text()
    assert sections(tmp_path) == sections(plain_report)


def test_the_page_asks_for_nothing(any_report):
    """Links lead to places on the page, to data inside it, or to files beside it; styles load nothing."""
    page = (any_report / "report.html").read_text()
    assert "default-src &#x27;none&#x27;" in page
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)  # the scripts, which the policy names
    links = set(re.findall(r'(?:src|href)="([^"]*)"', markup))
    assert all(link.startswith(("#", "data:", "./")) for link in links)
    for link in links:
        assert not link.startswith("./") or (any_report / unquote(link)).is_file()
    assert not re.search(r"@import|url\((?!#)", re.search(r"<style>.*?</style>", page, re.DOTALL)[0])


def test_the_policy_admits_the_scripts_of_the_page_and_nothing_else(any_report):
    page = (any_report / "report.html").read_text()
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    policy = html.unescape(re.search(r'content="(default-src[^"]*)"', page)[1])
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    assert policy.partition("script-src ")[2].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(digests) == 3
    assert "unsafe-eval" not in policy
    assert len(re.findall("<script", re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))) == 1  # the data


def test_the_libraries_are_those_that_the_notice_names():
    vendor = Path(write_report.__code__.co_filename).parent / "vendor"
    notice = (vendor / "NOTICE.md").read_text()
    for name in ("d3.min.js", "plot.umd.min.js"):
        digest = hashlib.sha256((vendor / name).read_bytes()).hexdigest()
        assert re.search(rf"\| `{re.escape(name)}` \|.*`{digest}` \|", notice)
    assert {"LICENSE-d3", "LICENSE-plot"} <= {path.name for path in vendor.iterdir()}


def test_hostile_texts_are_shown_and_never_markup(hostile_report, hostile_name):
    page = (hostile_report / "report.html").read_text()
    assert hostile_name not in page
    assert "&lt;script&gt;window.hacked = 1&lt;/script&gt;" in page
    assert "<img" not in page
    assert "<b onclick" not in page
    assert "failed: &lt;b onclick=x&gt;boom&lt;/b&gt;" in page
    assert page.count("<script") == 4  # the data of the charts, two libraries, and the script that calls them
    markdown = (hostile_report / "tables.md").read_text()
    assert "<script>" not in markdown.replace("\\<", "")


def test_the_geometry_kept_with_a_model_is_shown(copy):
    (copy / "model").mkdir()
    links = NodeLinks("a", "red", 0.9, (("a", "b", True, -0.25),), {"a": 0, "b": 1})
    record = GeometryRecord("gcn on <1>", (2.0, 1.0), (0.5, 0.1, -0.6), 0.01, (0.2, 0.1), (0.05,), links)
    record.save(copy / "model" / "geometry.json")
    write_report(copy)
    page = (copy / "report.html").read_text()
    assert sections(copy)[-2] == "geometry"
    assert "How gcn on &lt;1&gt; responds to changes of its graph. </b>" in page
    assert {f"geometry-model-links{suffix}" for suffix in (".svg", ".png", ".csv")} <= {
        path.name for path in (copy / "figures").iterdir()
    }


def test_no_data_set_is_loaded_and_no_spectrum_computed(copy, monkeypatch):
    def forbidden(*arguments, **options):
        raise AssertionError("a report comes from records alone")

    monkeypatch.setattr(datasets, "load", forbidden)
    monkeypatch.setattr(Graph, "load", forbidden)
    for name in ("eigsh", "eigs", "lobpcg", "svds"):
        monkeypatch.setattr(f"scipy.sparse.linalg.{name}", forbidden)
    assert "spectrum" in sections(write_report(copy).parent)


def test_an_unfinished_study_says_so(tmp_path, make_plan, fill):
    plan = make_plan(["cora"])
    fill(tmp_path, plan)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection, connection:
        connection.execute("DELETE FROM runs WHERE cell = 'fishergcn' AND seed = 2020")
    write_report(tmp_path)
    assert "5 of 30 planned runs are not done yet" in (tmp_path / "report.html").read_text()


def test_a_single_run_has_no_interval_and_the_page_says_so(tmp_path, make_plan, fill):
    write_report(fill(tmp_path, make_plan(["cora"], splits=1, seeds=1)))
    page = (tmp_path / "report.html").read_text()
    assert "too few runs for an interval" in page
    page = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(
        r"\bnan\b", page + (tmp_path / "tables.md").read_text() + (tmp_path / "tables.csv").read_text()
    )


def test_the_command_prints_the_path_and_opens_the_page(copy, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    result = CliRunner().invoke(app, ["report", str(copy), "--open"], catch_exceptions=False)
    page = (copy / "report.html").resolve()
    assert result.exit_code == 0
    assert result.stdout.strip() == str(page)
    assert opened == [page.as_uri()]


@pytest.mark.parametrize("kind", ["empty", "missing", "file", "foreign"])
def test_what_is_no_folder_of_ours_is_refused_with_one_sentence_that_names_what_is_accepted(tmp_path, kind):
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("x")
    elif kind != "missing":
        place.mkdir()
    if kind == "foreign":
        (place / "notes.txt").write_text("mine")
    with pytest.raises(DataFileError) as caught:
        CliRunner().invoke(app, ["report", str(place)], catch_exceptions=False)
    text = str(caught.value)
    assert "\n" not in text
    for words in (
        "a model or of several",
        "a search (fishergcn tune",
        "OUT-search",
        "reproduce, compare or robustness",
    ):
        assert words in text
    assert not (place / "report.html").exists()


def test_data_sets_whose_names_differ_in_signs_alone_have_figures_and_charts_of_their_own(tmp_path, make_plan, fill):
    write_report(fill(tmp_path, make_plan(["a b", "a-b"], splits=2, seeds=1)))
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"forest-a-b.svg", "forest-a-b-2.svg"} <= names
    one, other = ((tmp_path / "figures" / name).read_text() for name in ("forest-a-b.csv", "forest-a-b-2.csv"))
    assert one.splitlines()[1].startswith("a b,")
    assert other.splitlines()[1].startswith("a-b,")
    assert (tmp_path / "report.html").read_text().count('data-chart="forest-a-b"') == 2
