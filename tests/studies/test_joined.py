"""Parts of one study on different data sets, read and archived as one."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fishergcn import studies
from fishergcn.cli import app
from fishergcn.errors import InputError

NAMES = ("cora", "citeseer")
SHORT = {"methods": ["gcn", "gcn-x5"], "splits": 2, "seeds": 1, "epochs": 1}


def part(folder, dataset, **changes):
    plan = studies.make_plan("quick", datasets=[dataset], **{**SHORT, **changes})
    return studies.run(plan, folder / dataset, device="cpu", workers=1)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    return [part(folder, name) for name in NAMES]


def scores(runs):
    return {(each.dataset, cell, each.split): each.test_accuracy for cell, each in runs.entries()}


def test_parts_read_as_one(parts):
    both = studies.join(parts)
    assert both.plan.datasets == ("cora", "citeseer")
    assert scores(both) == {**scores(parts[0]), **scores(parts[1])}
    assert {"data cora", "data citeseer"} <= set(both.facts)
    compared = {(each.dataset, each.cell, each.reference) for each in studies.compare(both)}
    assert compared == {(name, "gcn-x5", "gcn") for name in ("cora", "citeseer")}


def test_an_archive_of_parts_is_one_archive(parts, tmp_path):
    studies.write_archive(tmp_path / "copy", studies.join(parts))
    with studies.open_runs(tmp_path / "copy") as copy:
        assert scores(copy) == scores(studies.join(parts))
        assert copy.plan == studies.join(parts).plan


def test_the_command_joins_folders(parts, tmp_path):
    folders = [str(each.path.parent) for each in parts]
    done = CliRunner().invoke(app, ["runs", "archive", *folders, "--out", str(tmp_path / "copy")])
    assert done.exit_code == 0, done.output
    with studies.open_runs(tmp_path / "copy") as copy:
        assert len(list(copy.records())) == 8


def test_other_studies_and_the_same_data_are_refused(parts, tmp_path):
    with pytest.raises(InputError, match="different data sets, got 'cora' twice"):
        studies.join([parts[0], parts[0]])
    with pytest.raises(InputError, match="parts of one study, got splits"), part(tmp_path, "pubmed", splits=1) as other:
        studies.join([parts[0], other])
    with pytest.raises(InputError, match="at least one folder"):
        studies.join([])
