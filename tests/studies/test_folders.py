"""What is said of folders without runs."""

from __future__ import annotations

import pytest

from fishergcn.errors import DataFileError
from fishergcn.studies import make_plan, open_runs, run


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            [],
            "contains no runs (neither runs.sqlite nor plan.json); to create some: fishergcn reproduce quick --out {}",
        ),
        (["photo.jpg"], "to create some: fishergcn reproduce quick --out new-folder"),
        (["model.json"], "holds a model but no runs of a study; use it with: fishergcn predict {}"),
        (["gcn/model.json"], "holds models but no runs of a study; use one with: fishergcn predict {}/gcn"),
        (["study.sqlite", "tuning.json"], "holds a search by fishergcn tune but no runs of a study; its trials"),
        (["study.sqlite"], "holds a search by fishergcn tune but no runs of a study; it is not finished."),
        (
            ["points.csv", "study.json"],
            "holds a study of robustness made by fishergcn 0.1, whose files this version does not read, but no runs of "
            "a study; repeat it with: fishergcn robustness --out new-folder, or read it with that version.",
        ),
        (["cora/points.jsonl"], "holds a study of robustness made by fishergcn 0.1"),
        (["table1.csv", "table1.md"], "holds a table of data set statistics but no runs"),
    ],
)
def test_what_a_folder_holds_is_told(tmp_path, files, words):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    with pytest.raises(DataFileError) as caught:
        open_runs(tmp_path)
    assert words.format(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_folder(tmp_path):
    with pytest.raises(DataFileError, match="does not exist; to create runs there: fishergcn reproduce"):
        open_runs(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for place, words in ((tmp_path / "file", "is a file"), (tmp_path / "odd\0name", "\0"), ("a b", "--out 'a b'")):
        with pytest.raises(DataFileError, match=words):
            open_runs(place)


def test_a_model_beside_runs_is_no_obstacle(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    plan = make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    with pytest.raises(DataFileError, match="holds a model; use another folder for the study"):
        run(plan, tmp_path, device="cpu", workers=1)
    (tmp_path / "runs.sqlite").write_text("")
    run(plan, tmp_path, device="cpu", workers=1).close()
    (tmp_path / "old" / "cora").mkdir(parents=True)
    (tmp_path / "old" / "cora" / "points.jsonl").write_text("")
    with pytest.raises(DataFileError, match=r"made by fishergcn 0\.1, .*; use another folder for the study"):
        run(plan, tmp_path / "old", device="cpu", workers=1)
    run(plan, tmp_path / "nowhere", device="cpu", workers=1).close()
