"""Where a folder can be written is tried before the work, without a trace; what is there is safe."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fishergcn._base.files import atomic_folder, check_target
from fishergcn.errors import DataFileError


def check(folder, *, overwrite=False, ours=False):
    return check_target(folder, overwrite=overwrite, ours=lambda _: ours)


def refused(folder, **options):
    with pytest.raises(DataFileError) as caught:
        check(folder, **options)
    message = str(caught.value)
    assert message.endswith(".")
    assert message.count("Cannot write") <= 1
    return message


@pytest.mark.parametrize("name", ["new", "new/deeper/still", "empty"])
def test_a_good_place_is_left_as_it_was(tmp_path, name):
    (tmp_path / "empty").mkdir()
    assert check(tmp_path / name) == tmp_path / name
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_file_in_the_way_is_said_once(tmp_path):
    (tmp_path / "f").write_text("x")
    assert refused(tmp_path / "f") == f"Cannot write the folder '{tmp_path / 'f'}': a file with that name exists."
    assert re.fullmatch(r"Cannot write the folder '.*/f/m': Not a directory\.", refused(tmp_path / "f" / "m"))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a file system that refuses everyone")
def test_permissions_are_not_believed():
    assert refused("/proc/x").startswith("Cannot write the folder '/proc/x': ")


def test_the_trial_leaves_nothing_when_it_fails_halfway(tmp_path, monkeypatch):
    real = Path.mkdir

    def fail_last(self, *arguments, **options):
        if self.name == "m":
            real(self.parent, parents=True)
            raise OSError(28, "No space left on device")
        real(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", fail_last)
    assert "No space left on device" in refused(tmp_path / "a" / "b" / "m")
    assert os.listdir(tmp_path) == []


def test_what_is_there(tmp_path):
    (tmp_path / "x").write_text("x")
    assert "holds other files" in refused(tmp_path, overwrite=True)
    assert "holds a saved model already" in refused(tmp_path, ours=True)
    assert check(tmp_path, overwrite=True, ours=True) == tmp_path
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_names_that_no_folder_can_have(tmp_path, name):
    assert "Cannot write the folder" in refused(tmp_path / name)


def test_written_wholly_or_not_at_all(tmp_path):
    with atomic_folder(tmp_path / "m") as folder:
        (folder / "x").write_text("1")
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "m") as folder:  # noqa: PT012
        (folder / "x").write_text("2")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["m"]
    assert (tmp_path / "m" / "x").read_text() == "1"
