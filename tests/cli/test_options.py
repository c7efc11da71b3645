"""Options have one name, one meaning and one default in all commands."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
import typer
from typer.testing import CliRunner

from fishergcn import studies
from fishergcn.cli import _options as shared
from fishergcn.cli import app
from fishergcn.cli.train import train
from fishergcn.errors import InputError


def commands(command, place=()):
    found = getattr(command, "commands", None)
    if found is None:
        yield place, command
    else:
        for name, child in found.items():
            yield from commands(child, (*place, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
OPTIONS = defaultdict(dict)
for PLACE, COMMAND in COMMANDS.items():
    for PARAMETER in COMMAND.params:
        for OPTION in () if getattr(PARAMETER, "hidden", False) else PARAMETER.opts:
            OPTIONS[OPTION][PLACE] = PARAMETER
CHOICES = {
    "train": ("--directed", "--self-links", "--stopping", "--test-at", "--norm"),
    "tune": ("--directed", "--self-links", "--grid"),
    "data import": ("--directed", "--self-links"),
    "spectrum": ("--component",),
    "geometry distance": ("--laplacian", "--compute"),
    "geometry neighborhood": ("--noise",),
    "geometry fisher": ("--kind",),
    "geometry links": ("--links",),
    "runs archive": ("--curves",),
}


@pytest.mark.parametrize(
    "option", ["--method", "--dataset", "--splits", "--device", "--workers", "--quiet", "--json", "--plot"]
)
def test_is_declared_once(option):
    assert len(OPTIONS[option]) > 1
    assert len({(each.help, each.multiple, str(each.default)) for each in OPTIONS[option].values()}) == 1


def test_the_words_that_architecture_asks_for():
    training = {("train",), ("tune",), ("reproduce",), ("robustness",), ("compare",)}
    for option in ("--method", "--dataset", "--graph", "--splits"):
        assert set(OPTIONS[option]) == training | (
            {("predict",), ("explain",)} if option in ("--dataset", "--graph") else set()
        )
        assert all(each.multiple for each in OPTIONS[option].values())
    assert {each.default for each in OPTIONS["--device"].values()} == {"auto"}
    for gone in ("--methods", "--datasets", "--attacks", "--split", "--max-epochs", "--learning-rate"):
        assert gone not in OPTIONS
    assert ("geometry", "links") in COMMANDS


@pytest.mark.parametrize(("place", "option"), [(name, option) for name, some in CHOICES.items() for option in some])
def test_words_that_an_option_does_not_know(place, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tuple(place.split())
    needed = ["--out", "x", "--edges", "x", "--node", "x"]
    given = [word for name, value in zip(needed[::2], needed[1::2], strict=True) if place in OPTIONS[name]
             for word in (name, value)]  # fmt: skip
    arguments = [each for each in COMMANDS[place].params if each.param_type_name == "argument"]
    done = CliRunner().invoke(app, [*place, *["x"] * len(arguments), *given, option, "fire"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "'fire' is not" in done.stderr
    assert not list(tmp_path.iterdir())


def test_every_command_prints_json():
    assert set(OPTIONS["--json"]) == set(COMMANDS)


@pytest.mark.parametrize("place", COMMANDS, ids=" ".join)
def test_the_help_fits_80_columns(place):
    done = CliRunner().invoke(app, [*place, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert done.exit_code == 0
    for line in done.stdout.splitlines():
        assert len(line) <= 80
        assert not line.startswith("╭") or line.endswith("──╮")  # a title that is cut runs into the corner
    usage = " ".join(done.stdout.partition("Usage:")[2].split())
    for argument in (each for each in COMMANDS[place].params if each.param_type_name == "argument"):
        shown = argument.metavar if argument.required else f"[{argument.metavar}]"
        assert f" {shown}" in usage.partition("[OPTIONS]")[2][:60]
    for odd in ("<bool>", "<list", "default: (", "None", "{"):
        assert odd not in done.stdout


def test_types_are_in_capitals_and_long_choices_folded():
    found, fisher = (
        CliRunner().invoke(app, [*words, "--help"]).stdout for words in (["train"], ["geometry", "fisher"])
    )
    assert "keep|drop" in found
    assert "TEXT" in found
    assert "exact|" in fisher
    assert "exact|empirical" not in fisher


def test_attacks_are_those_of_the_library():
    assert tuple(OPTIONS["--attack"]["robustness",].metavar.split("|\n")) == studies.ATTACKS


def test_words_of_a_command_leave_out_its_defaults():
    values = {"device": "auto", "seeds": 2, "splits": ["public", "2"], "set_": None, "self_links": "drop"}
    expected = ["--seeds", "2", "--splits", "public", "--splits", "2", "--self-links", "drop"]
    assert shared.words_of(train, values) == expected


@pytest.mark.parametrize("text", ["1_0", "٣", "６４"])
def test_numbers_of_options_are_of_plain_digits(text):
    for option, value in (("--hidden", text), ("--set", f"rank={text}")):
        done = CliRunner().invoke(app, ["train", "--dataset", "cora", "--method", "gcn", option, value])
        assert isinstance(done.exception, InputError)
        assert "must be" in str(done.exception)


@dataclass(frozen=True)
class Inner:
    deep: bool = shared.option("Deep.", "--deep", default=False)
    unused: int = shared.option("Unused.", default=3)


@dataclass(frozen=True)
class Outer:
    needed: int = shared.option("Needed.", default=shared.REQUIRED)
    inner: Inner = field(default_factory=Inner)
    words: list[str] | None = shared.option("Words.", "--word", metavar="WORD")


class TestDataclasses:
    def run(self, *arguments):
        taken, own = [], typer.Typer()

        @own.command()
        @shared.takes_options(without=("unused",))
        def command(place: shared.GraphName, outer: Outer, json: shared.Json = False):
            taken.extend([place, outer, json])

        done = CliRunner().invoke(own, [*arguments], env={"COLUMNS": "100"})
        return done, taken

    def test_a_command_gets_one_object(self):
        done, taken = self.run("here", "--needed", "2", "--deep", "--word", "a", "--word", "b", "--json")
        assert done.exit_code == 0
        assert taken == ["here", Outer(needed=2, inner=Inner(deep=True), words=["a", "b"]), True]
        assert self.run("here", "--needed", "2")[1] == ["here", Outer(needed=2), False]

    def test_what_must_be_given_and_what_there_is_not(self):
        assert "Missing option '--needed'" in self.run("here")[0].stderr
        assert "No such option: --unused" in self.run("here", "--needed", "1", "--unused", "1")[0].stderr

    def test_help(self):
        text = self.run("--help")[0].stdout
        assert all(word in text for word in ("--needed", "--deep", "--word", "WORD", "Needed.", "[required]"))
        assert "unused" not in text
