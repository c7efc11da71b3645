"""Pages of searches: what was tried, what was best, and the command that trains it."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, datasets, studies
from fishergcn.cli import app
from fishergcn.errors import DataFileError
from fishergcn.report import write_report
from fishergcn.splits import Split
from fishergcn.studies import load_selection, load_tuning


def words_of(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def sections(folder):
    return re.findall(r'<section id="([a-z-]+)"', (folder / "report.html").read_text(encoding="utf-8"))


def test_the_best_trial_and_all_others(tuning_report):
    found = load_tuning(tuning_report)
    words = words_of(tuning_report)
    assert f"The best of 6 trials of fishergcn on {found.dataset} has a validation accuracy" in words
    assert f"{found.best.val_accuracy:.1%}" in words
    for trial in found.trials:
        assert f"{100 * trial.val_accuracy:.2f}" in words
    assert words.count("(best)") == 1
    assert sections(tuning_report) == ["headline", "trials"]


def test_a_search_by_another_score_names_it(tmp_path):
    ring = Graph.from_edges([(i, (i + 1) % 12) for i in range(12)], features=np.eye(12), labels=[0, 1] * 6, name="ring")
    split = Split("some", range(4), range(4, 8), range(8, 12))
    found = studies.tune(ring, "gcn", split, tmp_path, config=TrainConfig(max_epochs=2), trials=3, score="log-loss")
    words = words_of(write_report(tmp_path).parent)
    best = min(trial.val_cross_entropy for trial in found.trials)
    assert f"The best of 3 trials of gcn on ring has a validation cross entropy of {best:.3f} (median " in words
    assert "the mean validation cross entropy (lower is better)" in words
    assert "highest" in words
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "accuracy" not in page[page.index("<main") : page.index("<footer")]
    assert "%" not in words[words.index("All trials") :]


def test_several_searches_share_a_page(tuning_report, tmp_path):
    for name in ("gcn", "fishergcn"):
        (tmp_path / name).mkdir()
        shutil.copy(tuning_report / "tuning.json", tmp_path / name)
    assert sections(write_report(tmp_path).parent) == ["headline", "fishergcn-trials", "gcn-trials"]


def command_of(page):
    [found] = re.findall(r"<pre><code>(.*?)</code></pre>", page.read_text(encoding="utf-8"))
    return html.unescape(re.sub(r"<[^>]+>", "", found))


@pytest.mark.slow
def test_the_command_trains_the_best_trial_again(tmp_path):
    cora = datasets.load("cora")
    found = studies.tune(cora, "gcn", "public", tmp_path, [7], TrainConfig(max_epochs=2), trials=2)
    words = shlex.split(command_of(write_report(tmp_path)))
    assert words[:4] == ["fishergcn", "train", "--dataset", "cora"]
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [*words[1:-2], "--json", "--device", "cpu", "--workers", "1"])
    assert done.exit_code == 0, done.output
    [run] = json.loads(done.stdout)["runs"]
    assert (run["val_accuracy"], run["val_loss"]) == pytest.approx((found.best.val_accuracy, found.best.val_loss))
    assert run["seed"] == 7


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"},
        {"version": 2},
        {"trials": []},
        {"trials": [{}]},
        {"trials": [{"settings": {}, "val_accuracy": "<b>", "val_loss": None}]},
        {"method": "<script>"},
        {"config": {"x": 1}},
        {"runs": 3},
    ],
)
def test_a_damaged_search_is_one_sentence(tuning_report, tmp_path, change):
    values = json.loads((tuning_report / "tuning.json").read_text()) | change
    (tmp_path / "tuning.json").write_text(json.dumps(values))
    with pytest.raises(DataFileError, match=r"tuning\.json") as caught:
        write_report(tmp_path)
    assert "\n" not in str(caught.value)


def test_what_was_searched_may_be_words_and_numbers(tuning_report, tmp_path):
    trials = [
        {"settings": {"scaling": word, "dropout": 0.5}, "val_accuracy": 0.5 + place / 10, "val_loss": None}
        for place, word in enumerate(("rows", "none"))
    ]
    own = {
        "method": "gcn",
        "config": TrainConfig().to_dict(),
        "trials": trials,
        "runs": [{"split": "a b", "seed": 2019}],
    }
    values = json.loads((tuning_report / "tuning.json").read_text()) | own
    (tmp_path / "tuning.json").write_text(json.dumps(values))
    assert command_of(write_report(tmp_path)).endswith(
        "--splits 'a b' --scaling none --dropout 0.5 " + " ".join(_general_differences()) + " --out model"
    )


def _general_differences():
    from fishergcn.execution import chosen_config

    usual, paper = chosen_config(None, None).to_dict(), TrainConfig().to_dict()
    words = []
    for name, value in paper.items():
        if value != usual[name] and name not in ("scaling", "dropout"):
            words += ["--no-bias"] if name == "bias" else ["--set", f"{name}={value}"]
    return words


def test_the_choice_of_a_model(search_report):
    selection = load_selection(search_report)
    words = words_of(search_report)
    for sentence in selection.sentences:
        assert " ".join(sentence.split()) in words
    assert sections(search_report)[:2] == ["headline", "candidates"]
    assert sections(search_report)[-1] == "protocol"
    with studies.open_runs(search_report / "candidates") as runs:
        for cell in runs.plan.cells:
            assert cell.name in words


def test_any_stage_is_shown_in_its_order(search_report, tmp_path):
    wanted = ["settings", "candidates", "a new <b>", "gcn-5-layers", "gcn-9-layers", "balanced", "finalists", "final",
              "final-1"]  # fmt: skip
    tmp_path.joinpath("choice.json").write_text((search_report / "choice.json").read_text())
    for name in wanted:
        shutil.copytree(search_report / "candidates", tmp_path / name)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    shown = re.findall(r"<h2>Stage (\d+): (.*?)</h2>", page)
    assert [(int(place), html.unescape(name)) for place, name in shown] == list(enumerate(wanted, start=1))
    heads = re.findall(r"<th[^>]*>(.*?)</th>", page[page.index("<h2>Stage 1") : page.index("<h2>Stage 2")])
    words = [re.sub(r"<[^>]+>", "", each).strip() for each in heads]
    assert words[:2] == ["candidate", "validation accuracy %"]  # which a narrow screen shows


def test_a_choice_that_is_not_finished_says_so(search_report, tmp_path):
    shutil.copytree(search_report, tmp_path / "search")
    path = tmp_path / "search" / "choice.json"
    values = json.loads(path.read_text())
    del values["decisions"]["selection"]
    path.write_text(json.dumps(values))
    words = words_of(write_report(tmp_path / "search").parent)
    assert "The search is not finished" in words
    for study in (tmp_path / "search").glob("*/runs.sqlite"):
        shutil.rmtree(study.parent)
    with pytest.raises(DataFileError, match="without a finished run"):
        write_report(tmp_path / "search")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"decisions": {"selection": {}}}', '{"decisions": 1}'])
def test_a_damaged_choice_is_one_sentence(search_report, tmp_path, text):
    shutil.copytree(search_report, tmp_path / "search")
    (tmp_path / "search" / "choice.json").write_text(text)
    with pytest.raises(DataFileError, match=r"choice\.json") as caught:
        write_report(tmp_path / "search")
    assert "\n" not in str(caught.value)
