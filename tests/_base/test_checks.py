"""Argument checks, safe files and optional packages: the small tools everything else leans on."""

from __future__ import annotations

import fractions
import os
import stat
import sys

import numpy as np
import pytest

from fishergcn._base import checks, files, imports
from fishergcn.errors import (
    ConvergenceError,
    DataFileError,
    FisherGCNError,
    InputError,
    MissingExtraError,
    reason,
    suggestion,
)


class TestInteger:
    @pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
    def test_accepted_as_a_plain_int(self, value):
        number = checks.check_integer("rank", value, minimum=3, maximum=3)
        assert number == 3
        assert type(number) is int

    @pytest.mark.parametrize("value", [3.0, "3", None, True, np.bool_(True), np.float64(3)])
    def test_not_whole(self, value):
        with pytest.raises(InputError, match=r"^rank must be a whole number, got .*\.$"):
            checks.check_integer("rank", value)

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ({"minimum": 4}, "rank must be at least 4, got 3."),
            ({"maximum": 2}, "rank must be at most 2, got 3."),
            ({"minimum": 5, "maximum": 9}, "rank must be between 5 and 9, got 3."),
        ],
    )
    def test_out_of_range(self, bounds, message):
        with pytest.raises(InputError) as caught:
            checks.check_integer("rank", 3, **bounds)
        assert str(caught.value) == message


class TestReal:
    @pytest.mark.parametrize("value", [0.5, np.float32(0.5), fractions.Fraction(1, 2)])
    def test_accepted_as_a_plain_float(self, value):
        number = checks.check_real("threshold", value, minimum=0.5, maximum=0.5, above=0.4, below=0.6)
        assert number == 0.5
        assert type(number) is float

    def test_integers_are_numbers(self):
        assert checks.check_real("threshold", 1) == 1.0

    @pytest.mark.parametrize("value", ["0.5", None, True, 1j, [0.5]])
    def test_not_a_number(self, value):
        with pytest.raises(InputError, match=r"^threshold must be a number, got .*\.$"):
            checks.check_real("threshold", value)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 10**400])
    def test_not_finite(self, value):
        with pytest.raises(InputError, match="threshold must be finite"):
            checks.check_real("threshold", value)

    @pytest.mark.parametrize(
        ("value", "bounds", "message"),
        [
            (-1, {"minimum": 0, "below": 1}, "t must be at least 0 and less than 1, got -1."),
            (1, {"minimum": 0, "below": 1}, "t must be at least 0 and less than 1, got 1."),
            (0, {"above": 0}, "t must be greater than 0, got 0."),
            (2, {"maximum": 1}, "t must be at most 1, got 2."),
            (1.00000001, {"maximum": 1}, "t must be at most 1, got 1.00000001."),
        ],
    )
    def test_out_of_range(self, value, bounds, message):
        with pytest.raises(InputError) as caught:
            checks.check_real("t", value, **bounds)
        assert str(caught.value) == message


def test_choice():
    assert checks.check_choice("mode", "keep", ("keep", "drop")) == "keep"
    with pytest.raises(InputError) as caught:
        checks.check_choice("mode", "kep", ("keep", "drop"))
    assert str(caught.value) == "mode must be one of 'keep', 'drop', got 'kep' (did you mean 'keep'?)."
    with pytest.raises(InputError, match="got None"):
        checks.check_choice("mode", None, ("keep", "drop"))


class TestErrors:
    def test_each_is_also_the_builtin_people_catch(self):
        for kind, builtin in (
            (InputError, ValueError),
            (DataFileError, ValueError),
            (ConvergenceError, RuntimeError),
            (MissingExtraError, ImportError),
        ):
            assert issubclass(kind, builtin)
            assert issubclass(kind, FisherGCNError)

    def test_suggestion_ignores_case(self):
        assert suggestion("Cora", ["cora"]) == " (did you mean 'cora'?)"
        assert suggestion("coar", ["cora", "pubmed"]) == " (did you mean 'cora'?)"
        assert suggestion("zzz", ["cora", "pubmed"]) == ""

    def test_reason_is_one_line(self):
        assert reason(ValueError("one.\ntwo.")) == "one"
        assert reason(ValueError()) == "ValueError"


class TestFiles:
    def test_write_and_replace(self, tmp_path):
        path = tmp_path / "a.txt"
        files.write_text(path, "eins")
        files.write_text(str(path), "zwei ü")
        assert path.read_text(encoding="utf-8") == "zwei ü"
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]

    def test_failure_leaves_the_old_file_and_no_other(self, tmp_path):
        path = tmp_path / "a.txt"
        files.write_text(path, "old")

        def write_half():
            with files.atomic_path(path) as temporary:
                temporary.write_text("half")
                raise RuntimeError("stop")

        with pytest.raises(RuntimeError, match="stop"):
            write_half()
        assert path.read_text() == "old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]

    def test_temporary_keeps_the_suffix(self, tmp_path):
        with files.atomic_path(tmp_path / "picture.svg") as temporary:
            assert temporary.suffix == ".svg"
            assert temporary.parent == tmp_path

    @pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
    def test_permissions_follow_the_umask(self, tmp_path):
        old = os.umask(0o027)
        try:
            files.write_text(tmp_path / "a.txt", "x")
        finally:
            os.umask(old)
        assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640

    @pytest.mark.skipif(os.name == "nt", reason="links need rights there")
    def test_a_link_is_written_through(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link.txt").symlink_to(tmp_path / "folder" / "real.txt")
        files.write_text(tmp_path / "link.txt", "x")
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "folder" / "real.txt").read_text() == "x"

    def test_places_that_cannot_be_written(self, tmp_path):
        files.write_text(tmp_path / "file", "x")
        for path in (tmp_path, tmp_path / "no" / "a.txt", tmp_path / "file" / "a.txt"):
            with pytest.raises(DataFileError, match=r"^Cannot write .*\.$"):
                files.write_text(path, "x")
        assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


class TestImports:
    def test_present(self):
        assert imports.require("os.path", extra="report", purpose="a test") is os.path

    def test_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
        with pytest.raises(MissingExtraError, match=r"A picture needs .*'matplotlib'.* 'fishergcn\[report\]'"):
            imports.require("matplotlib.figure", extra="report", purpose="A picture")
