"""The rule of the floor plan: a package imports only from packages to its left, inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "fishergcn"

#: The layers, left to right. Packages of one layer do not know each other.
LAYERS = (
    ("errors", "_version"),
    ("_base",),
    ("_kernels", "_settings"),
    ("graph",),
    ("datasets",),
    ("splits",),
    ("streams",),
    ("operators",),
    ("propagation",),
    ("spectrum",),
    ("perturbation",),
    ("nn",),
    ("training",),
    ("execution",),
    ("models",),
    ("attacks", "geometry"),
    ("studies",),
    ("drawing",),
    ("report",),
    ("integrations", "cli"),
)
#: Private packages of which every other one may import the modules: they are what all stand on.
SHARED = ("_base", "_kernels", "_settings", "_version")
#: What may be imported against the rule: (file, imported module): why.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("__init__.py", "*"): "the package itself offers names of all layers",
    ("__main__.py", "fishergcn.cli"): "python -m fishergcn is the command line",
}

RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}


@dataclass(frozen=True)
class Import:
    """One import of a module of ours: where it stands, and what it names."""

    file: str
    line: int
    module: str
    name: str

    @property
    def importer(self) -> str:
        """The package in which the import stands."""
        return self.file.partition("/")[0].removesuffix(".py")

    @property
    def imported(self) -> str:
        """The package from which something is imported; "" for the root."""
        parts = self.module.split(".")[1:]
        return parts[0] if parts else self.name if self.name in RANK else ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}{f'.{self.name}' if self.name else ''}"


def imports_of(path: Path, root: Path = SOURCE) -> Iterator[Import]:
    """Yield all imports of our modules in a file, wherever they stand."""
    file = path.relative_to(root).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            if node.module and node.module.partition(".")[0] == "fishergcn":
                yield from (Import(file, node.lineno, node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "fishergcn":
                    yield Import(file, node.lineno, alias.name, "")


def excused(found: Import) -> bool:
    return any((found.file, module) in EXCEPTIONS for module in (found.module, "*"))


def violations(root: Path = SOURCE) -> list[str]:
    """List every import that breaks the rule, with what is wrong about it."""
    broken = []
    for found in chain.from_iterable(imports_of(path, root) for path in sorted(root.rglob("*.py"))):
        if excused(found) or found.importer == found.imported:
            continue
        if found.importer not in RANK or (found.imported and found.imported not in RANK):
            broken.append(f"{found}: the package is in no layer")
        elif not found.imported:
            broken.append(f"{found}: import it from its package, not from the root")
        elif RANK[found.imported] >= RANK[found.importer]:
            broken.append(f"{found}: {found.imported} is not to the left of {found.importer}")
        elif found.imported not in SHARED and any(
            part.startswith("_") for part in (*found.module.split(".")[1:], found.name)
        ):
            broken.append(f"{found}: a private module or name of another package")
    return broken


def test_packages_import_only_from_the_left() -> None:
    assert violations() == []


def test_every_package_is_in_the_table() -> None:
    there = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - set(RANK) <= {"__init__", "__main__", "__pycache__", "py.typed"}
    assert set(RANK) <= there


def test_exceptions_are_needed() -> None:
    files = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
    assert {file for file, _ in EXCEPTIONS} <= files
    assert all(EXCEPTIONS.values())


def test_few_private_modules_stand_at_the_root() -> None:
    private = [path.name for path in SOURCE.iterdir() if path.name.startswith("_") and not path.name.startswith("__")]
    assert len(private) <= 4, private


def modules() -> dict[str, Path]:
    names = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """At import time; an import inside a function or for the type checker alone cannot close a circle."""
    known = modules()
    graph = {name: set(top_level_imports(path, known)) - {name} for name, path in known.items() if name != "fishergcn"}
    order: dict[str, int] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail[trail.index(name) :], name))
        if name not in order and name in graph:
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            order[name] = len(order)

    for name in sorted(graph):
        visit(name, ())


def top_level_imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    own = path.relative_to(SOURCE.parent).with_suffix("").parts
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module in known:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                target = module if module in known else node.module
                if not (own[-1] == "__init__" and target == ".".join(own[:-1])):
                    yield target


FORBIDDEN = {
    "from fishergcn.cli import main": "is not to the left of",
    "def f():\n    from fishergcn.studies import run": "is not to the left of",
    "from fishergcn.graph._digest import graph_digest": "a private module or name of another package",
    "from fishergcn import Graph": "import it from its package",
    "import fishergcn.report": "is not to the left of",
}


@pytest.mark.parametrize("code", FORBIDDEN)
def test_a_forbidden_import_is_found(code: str, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "_new.py").write_text(code)
    [found] = violations(tmp_path)
    assert found.startswith("training/_new.py:")
    assert FORBIDDEN[code] in found


def test_an_allowed_import_is_not(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "_new.py").write_text(
        "from fishergcn.graph import Graph\nfrom fishergcn._base.files import write_text"
    )
    assert violations(tmp_path) == []
