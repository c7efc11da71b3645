"""The source is valid in every Python that the package supports, and uses nothing newer than the oldest."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fishergcn

SOURCE = Path(fishergcn.__file__).parent
SUPPORTED = ("3.10", "3.11", "3.12", "3.13")
# What came to the standard library after 3.10, and where it is imported from.
NEWER = {
    "enum": {"StrEnum", "verify", "member", "nonmember"},
    "datetime": {"UTC"},
    "typing": {"Self", "LiteralString", "Never", "assert_never", "assert_type", "override", "TypeVarTuple", "Unpack"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "contextlib": {"chdir"},
    "math": {"cbrt", "exp2", "sumprod"},
    "importlib.resources": {"abc"},
    "asyncio": {"TaskGroup", "timeout", "Runner"},
    "warnings": {"deprecated"},
}
NEWER_BUILTINS = {"ExceptionGroup", "BaseExceptionGroup", "PythonFinalizationError"}


def interpreter(version):
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    return str(installed[-1]) if installed else None


@pytest.mark.parametrize("version", SUPPORTED)
def test_it_compiles(version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    code = (
        "import pathlib, sys\n"
        "paths = sorted(pathlib.Path(sys.argv[1]).rglob('*.py'))\n"
        "for path in paths: compile(path.read_bytes(), str(path), 'exec', dont_inherit=True)\n"
        "print('%d.%d' % sys.version_info[:2], len(paths))\n"
    )
    command = [python, "-W", "error", "-c", code, str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{version} {len(list(SOURCE.rglob('*.py')))}\n"


def guarded(tree):
    """Nodes that only a newer Python or only a type checker sees."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and re.search("version_info|TYPE_CHECKING", ast.unparse(node.test)):
            yield from (inner for part in node.body for inner in ast.walk(part))


def newer_names(tree):
    spared = set(map(id, guarded(tree)))
    for node in ast.walk(tree):
        if id(node) in spared:
            continue
        if isinstance(node, ast.ImportFrom):
            yield from (
                f"{node.module}.{each.name}" for each in node.names if each.name in NEWER.get(node.module or "", ())
            )
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name == "tomllib")
        if isinstance(node, ast.Attribute) and node.attr in NEWER.get(ast.unparse(node.value), ()):
            yield ast.unparse(node)
        if isinstance(node, ast.Name) and node.id in NEWER_BUILTINS:
            yield node.id
        if isinstance(node, ast.Attribute) and node.attr == "add_note":
            yield ast.unparse(node)


def test_nothing_newer_than_the_oldest_python_is_used():
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if names := sorted(newer_names(ast.parse(path.read_text(encoding="utf-8")))):
            found[path.relative_to(SOURCE).as_posix()] = names
    assert found == {}


@pytest.mark.parametrize(
    "code",
    ["import tomllib", "from enum import StrEnum", "import typing\nx: typing.Self", "raise ExceptionGroup('', [])"],
)
def test_the_search_finds_what_is_newer(code):
    assert len(list(newer_names(ast.parse(code)))) == 1


def test_the_search_spares_what_is_guarded():
    code = "if sys.version_info >= (3, 11):\n    import tomllib\nelse:\n    import tomli as tomllib"
    assert list(newer_names(ast.parse(code))) == []
