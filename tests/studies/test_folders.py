"""What is said of folders without runs."""

from __future__ import annotations

import pytest

from fishergcn.errors import DataFileError
from fishergcn.studies import open_runs
from fishergcn.studies._folders import check_free, no_runs


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
    assert "is a file" in str(no_runs(tmp_path / "file"))
    assert "\0" in str(no_runs(tmp_path / "odd\0name"))
    assert "--out 'my runs'" in str(no_runs(tmp_path.__class__("my runs")))


def test_a_model_beside_runs_is_no_obstacle(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(DataFileError, match="holds a model"):
        check_free(tmp_path)
    (tmp_path / "runs.sqlite").write_text("")
    check_free(tmp_path)
    (tmp_path / "old" / "cora").mkdir(parents=True)
    (tmp_path / "old" / "cora" / "points.jsonl").write_text("")
    with pytest.raises(DataFileError, match=r"made by fishergcn 0\.1, .*; use another folder for the study"):
        check_free(tmp_path / "old")
    check_free(tmp_path / "nowhere")
