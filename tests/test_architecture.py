"""The rules of the floor plan: packages import only from the left, inside functions too; size is a cost."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src" / "fishergcn"

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
    ("models", "large"),
    ("attacks", "certificates", "geometry"),
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

#: Circles that are closed by an import inside a function: (module, imported module): why.
CIRCLES: dict[tuple[str, str], str] = {
    ("fishergcn.studies._plan", "fishergcn.studies._cost"): "Plan.cost is a shortcut to what stands on plans",
    ("fishergcn.models._trained", "fishergcn.models._refit"): "model.refit is a shortcut to what stands on models",
    ("fishergcn.models._trained", "fishergcn.models._explanation"): "model.explain is a shortcut, too",
    ("fishergcn.models._trained", "fishergcn.models._to_pyg"): "model.to_pyg is a shortcut, too",
}
#: Modules below 80 lines that one other imports: why they are an idea of their own.
IDEAS: dict[str, str] = {
    "certificates/_curve.py": "one file on disk, and what is in it",
    "_kernels/cpu_streams.py": "kernels are apart from what they compute",
    "_kernels/cuda_streams.py": "kernels are apart from what they compute",
    "training/_work.py": "how much is tried depends on it: apart from what measures time or memory",
    "cli/doctor.py": "one file a command",
    "cli/explain.py": "one file a command",
    "cli/geometry_links.py": "one file a command",
    "cli/leaderboard.py": "one file a command",
    "cli/report.py": "one file a command",
    "cli/robustness.py": "one file a command",
    "cli/spectrum.py": "one file a command",
    "cli/verify.py": "one file a command",
    "execution/_worker.py": "the program that a worker process runs",
    "geometry/statistics/_worker.py": "the program that a worker process runs",
    "geometry/statistics/_marks.py": "which steps are marked, apart from how they are measured",
    "graph/_formats/_covariates.py": "what is known about each of many graphs",
    "graph/_formats/_intake.py": "files and frames come in here, above all formats",
    "integrations/pyg/_consistency.py": "one public loss",
    "models/_weights.py": "weights on disk",
    "operators/_block.py": "what a mini-batch multiplies with",
    "operators/_dense.py": "one file an operator",
    "operators/_graphs.py": "a graph for each entry of a batch",
    "report/_certificates.py": "one section of a page",
    "report/_model_why.py": "one section of a page",
    "report/_study.py": "one file a kind of page",
    "spectrum/_quadrature.py": "one public function",
    "studies/_data_table.py": "one table of the paper",
    "training/_task_scores.py": "scores of targets that are not classes",
    "training/_temperature.py": "one calibration",
}
#: File stems that may be there three times, with their number.
STEMS: dict[str, int] = {}
#: Functions that may be longer than 80 lines, with their lines.
LONG = {}
LINES_OF_SOURCE = 64_200
PRIVATE_IMPORTS_IN_TESTS = 75

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
    """Yield all imports of our modules in a file, wherever they stand, and our modules that are named by a string."""
    file = path.relative_to(root).as_posix()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            if node.module and node.module.partition(".")[0] == "fishergcn":
                yield from (Import(file, node.lineno, node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "fishergcn":
                    yield Import(file, node.lineno, alias.name, "")
        elif module := named_module(node):
            yield Import(file, node.lineno, module, "")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def named_module(node: ast.AST) -> str:
    """Return the module that a string names, to be imported or run as a program, or "".

    A package is also named where its files are looked up, which is no import.
    """
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return ""
    named = re.fullmatch(r"(fishergcn(?:\.\w+)+)(?::[\w.]+)?", node.value)
    return named[1] if named and modules().get(named[1], SOURCE).suffix and not is_package(named[1]) else ""


def is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


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


@cache
def modules() -> dict[str, Path]:
    names = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


@cache
def needed(name: str) -> frozenset[str]:
    """Return the modules that a module needs at any time: imported, inside functions too, or named by a string."""
    path, known = modules()[name], modules()
    for_types = {
        id(each)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for kept in node.body
        for each in ast.walk(kept)
    }
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types and node.module in known:
            modules_or_names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {each if each in known else node.module for each in modules_or_names}
        elif named_module(node):
            found.add(named_module(node))
    return frozenset(found - {name, "fishergcn"})


def circle(graph: dict[str, frozenset[str]]) -> list[str]:
    """Return the modules of a circle, or none."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name not in done:
            for other in sorted(graph.get(name, ())):
                if found := visit(other, (*trail, name)):
                    return found
            done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, ()))), [])


def test_modules_do_not_need_each_other_in_a_circle() -> None:
    """Not by an import inside a function either, nor by a program that is started by its name."""
    graph = {name: needed(name) - {other for one, other in CIRCLES if one == name} for name in modules()}
    assert circle(graph) == []


def test_a_circle_is_found() -> None:
    pairs = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"d", "b"}), "d": frozenset()}
    assert circle(pairs) == ["b", "c", "b"]
    assert circle(pairs | {"c": frozenset({"d"})}) == []
    assert "fishergcn.execution._worker" in needed("fishergcn.execution._executors")  # started by name


def test_small_modules_are_ideas_of_their_own() -> None:
    importers = defaultdict(set)
    for name in modules():
        for other in needed(name):
            importers[other].add(name)
    small = {
        path.relative_to(SOURCE).as_posix()
        for name, path in modules().items()
        if not is_package(name) and len(importers[name]) == 1 and lines_of(path) < 80
    }
    assert sorted(small - set(IDEAS)) == []
    assert sorted(set(IDEAS) - small) == []  # no exception that nothing needs


def test_no_file_name_comes_three_times() -> None:
    stems = Counter(path.stem for path in SOURCE.rglob("*.py") if path.stem != "__init__")
    assert {stem: count for stem, count in stems.items() if count > max(2, STEMS.get(stem, 0))} == {}


def test_functions_are_short() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()} {node.name}": node.end_lineno - node.lineno + 1
        for path in modules().values()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    }
    assert {name: lines for name, lines in found.items() if lines > LONG.get(name, 80)} == {}


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_size_is_a_cost() -> None:
    assert sum(map(lines_of, modules().values())) <= LINES_OF_SOURCE


def test_tests_go_through_what_users_call() -> None:
    found = Counter[str]()
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name}" for name in names]
            found[path.name] += any(re.match(r"fishergcn\.(\w+\.)*_", name) for name in names)
    assert sum(found.values()) <= PRIVATE_IMPORTS_IN_TESTS, found.most_common(10)


def called_kernels(root: Path = SOURCE) -> dict[str, str]:
    """Return the options of every numba kernel that another one calls."""
    kernels: dict[str, tuple[ast.FunctionDef, str]] = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                options = " ".join(ast.unparse(each) for each in node.decorator_list)
                if "njit" in options:
                    assert node.name not in kernels, f"two kernels are called {node.name}"
                    kernels[node.name] = node, options
    calls = (each for node, _ in kernels.values() for each in ast.walk(node) if isinstance(each, ast.Call))
    names = {ast.unparse(each.func) for each in calls} & kernels.keys()
    return {name: kernels[name][1] for name in names}


def test_kernels_that_others_call_are_inlined() -> None:
    """Else a process that compiles them rounds differently from one that loads them (see fishergcn._kernels)."""
    options = called_kernels()
    assert {"csr_times_dense", "sum_lines", "_dot"} <= options.keys()
    is_inlined = re.compile(r"\binline='always'|\bforceinline=True")
    assert [name for name in sorted(options) if not is_inlined.search(options[name])] == []


FORBIDDEN = {
    "from fishergcn.cli import main": "is not to the left of",
    "def f():\n    from fishergcn.studies import run": "is not to the left of",
    "from fishergcn.graph._pairs import link_matrix": "a private module or name of another package",
    "from fishergcn import Graph": "import it from its package",
    "import fishergcn.report": "is not to the left of",
    'start_python("fishergcn.cli.train")': "is not to the left of",
    'import_module("fishergcn.studies._runner")': "is not to the left of",
    'measure = "fishergcn.studies._attack:measure"': "is not to the left of",
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
