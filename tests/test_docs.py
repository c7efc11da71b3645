"""The documentation is correct: links resolve, code runs, commands exist, numbers come from results."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fishergcn.cli import app

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.glob("[a-z]*.md")),
    *sorted((DOCS / "gallery").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]
# Every python block of these is run, in order.
#: Pages whose blocks run.
QUICK = ("guide_own_data.md", "guide_sklearn.md", "reports.md")
LONG = ("guide.md", "own_networks.md", "probabilities.md", "tasks.md")


def name_of(page: Path) -> str:
    return page.name


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """Return the page without code blocks and inline code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]+`", "code", text)


def anchors(page: Path) -> set[str]:
    """Return what one can link to: headings as GitHub and MyST spell them, and named targets."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE))


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)) + re.findall(r'src="([^"]+)"', prose(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_internal_links_resolve(page: Path) -> None:
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = set()
    for block in blocks(DOCS / "index.md", "{toctree}"):
        listed |= {line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")}
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.glob("**/[a-z]*.md")}
    assert listed == {page for page in pages if not page.startswith("_")} - {"index"}


def commands(page: Path) -> list[list[str]]:
    """Return the fishergcn commands of a page, as words, without prompts and comments."""
    found = []
    for language in ("console", "sh"):
        for line in "".join(blocks(page, language)).replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words and words[0] == "fishergcn":
                found.append(words[1:])
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in commands(page):
        place, shown, depth = [], help_of(()), 0
        while depth < len(words) and re.search(rf"^\W*{re.escape(words[depth])}\s", shown, flags=re.MULTILINE):
            if not _is_group_help(shown):
                break
            place.append(words[depth])
            shown, depth = help_of(tuple(place)), depth + 1
        named = not _is_group_help(shown) or all(word.startswith("-") for word in words[depth:])
        assert named, words
        for word in words[depth:]:
            if word.startswith("--"):
                assert re.search(rf"(^|[\s,]){re.escape(word.partition('=')[0])}\b", shown), (word, words)


def _is_group_help(shown: str) -> bool:
    return "COMMAND [ARGS]" in shown


_HELP: dict[tuple[str, ...], str] = {}


def help_of(place: tuple[str, ...]) -> str:
    if place not in _HELP:
        done = CliRunner().invoke(app, [*place, "--help"], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
        assert done.exit_code == 0, place
        _HELP[place] = done.output
    return _HELP[place]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_python_blocks_compile_and_what_they_import_exists(page: Path) -> None:
    for code in blocks(page, "python"):
        tree = ast.parse(code)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in imports:
            if "fishergcn" in ast.unparse(node):
                found: dict[str, Any] = {}
                exec(ast.unparse(node), found)
                assert len(found) > 1  # besides __builtins__


def test_geometry_example_of_the_readme_runs() -> None:
    [code] = [code for code in blocks(ROOT / "README.md", "python") if "bures_distance" in code]
    found: dict[str, Any] = {}
    exec(code, found)
    assert 0 < found["intrinsic"].bures_distance(found["a"], found["b"]) < 1


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_python_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page in one namespace, with few epochs in place of the defaults."""
    code = blocks(DOCS / name, "python")
    assert code
    monkeypatch.chdir(tmp_path)
    short = "\n".join(code).replace("TrainConfig()", "TrainConfig(max_epochs=3)")
    script = tmp_path / "page.py"
    script.write_text(re.sub(r"epochs( ?= ?)\d+", r"epochs\g<1>3", short), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def check_predictions(found: str, shown: str) -> None:
    """Compare the lines that a page shows: names as they are, probabilities up to rounding in training."""
    lines = shown.splitlines()
    assert lines.pop() == "…"
    for one, other in zip(lines, found.splitlines(), strict=False):
        given, got = one.split(","), other.split(",")
        assert given[:2] == got[:2]
        if given[0] != "node":
            assert [float(cell) for cell in given[2:]] == pytest.approx([float(cell) for cell in got[2:]], abs=0.002)


@pytest.mark.slow
def test_the_differences_that_the_guide_to_own_data_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "guide_own_data.md"
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks(page, "python")[0], "make_club.py", "exec"), {})
    [words] = [words for words in commands(page) if "gcn-x5" in words and "fishergcn" in words and words[0] == "train"]
    [shown] = [text for text in blocks(page, "text") if "Paired differences" in text]
    done = CliRunner().invoke(app, [*words, "--quiet", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    for line in shown.splitlines():
        assert " ".join(line.split()) in [" ".join(each.split()) for each in done.stdout.splitlines()]


@pytest.mark.slow
def test_commands_of_the_guide_to_own_data_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "guide_own_data.md"
    monkeypatch.chdir(tmp_path)
    for code in blocks(page, "python")[:3]:  # the files of the club, with other columns, and with a new member
        exec(compile(code, "make_club.py", "exec"), {})
    given = commands(page)
    assert len(given) >= 6
    told = ""
    for words in given:
        whole = words[-1] == "model-gcn"  # whose predictions the page shows
        few = ["--epochs", "3", "--quiet", "--workers", "1"]
        short = [*words, *few] if words[0] in ("train", "tune") and not whole else words
        done = CliRunner().invoke(app, short)
        assert done.exit_code == 0, (words, done.output, done.exception)
        told += done.stderr
        if whole and words[0] == "predict":
            check_predictions(done.stdout, *[text for text in blocks(page, "text") if text.startswith("node,class")])
    shown = re.findall(r"It prints `([^`]+)`", page.read_text(encoding="utf-8"))
    assert shown
    assert all(sentence in told for sentence in shown)
    assert "9 of 45 labeled nodes are held out for validation" in told  # of which the page speaks
    lines = (tmp_path / "predictions.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "node,class,p:chess,p:rowing,p:theater"
    assert len(lines) == 181
    lines = (tmp_path / "predictions-now.csv").read_text(encoding="utf-8").splitlines()
    assert lines[-1].startswith("Ada,")


@pytest.mark.parametrize("tool", ["results_tables", "robustness_tables", "trust_page", "how_long"])
def test_numbers_come_from_the_results(
    tool: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(ROOT / "tools" / f"{tool}.py")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.setattr(sys, "argv", [program, "--check"])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(program, run_name="__main__")
    assert done.value.code == 0, capsys.readouterr()


def test_the_files_to_touch_are_there() -> None:
    named = re.findall(r"`((?:src|tests)/[^`]+)`", (DOCS / "where.md").read_text(encoding="utf-8"))
    assert len(named) > 25
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_tests_that_show_corrections_are_there() -> None:
    text = (DOCS / "mathematics.md").read_text(encoding="utf-8")
    text = text[text.index("(corrections)=") :]
    files = re.findall(r"`(tests/[^`]+\.py)`", text)
    named = set(re.findall(r"`(test_\w+)`", text))
    known = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 50
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert [name for name in sorted(named) if f"def {name}(" not in known] == []
