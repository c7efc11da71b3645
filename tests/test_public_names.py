"""What users import is in the reference, and everything there is described and has an example that runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import fishergcn
from fishergcn.errors import MissingExtraError

REFERENCE = (Path(__file__).resolve().parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
DIRECTIVE = re.compile(r"^\.\. (automodule|autoclass|autofunction|py:data):: (\S+)\n((?: +:.*\n)*)", re.MULTILINE)


UNNAMED = ("cli", "networks", "calibration")  # used through a command, and by names that are registered


def public_modules(package: ModuleType) -> Iterator[str]:
    """Yield the packages and modules that users import from, none of whose names begin with an underscore."""
    yield package.__name__
    for found in pkgutil.iter_modules(package.__path__):
        if not found.name.startswith("_") and found.name not in UNNAMED:
            name = f"{package.__name__}.{found.name}"
            if found.ispkg:
                yield from public_modules(importlib.import_module(name))
            else:
                yield name


MODULES = sorted(public_modules(fishergcn))


def look_up(name: str) -> Any:
    """Return what a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def public(module: str) -> Iterator[tuple[str, Any]]:
    """Yield what a module offers; nothing where an optional package is missing."""
    try:
        found = importlib.import_module(module)
    except MissingExtraError:
        return
    for name in found.__all__:
        yield f"{module}.{name}", getattr(found, name)


def rendered(module: str, options: str) -> Iterator[tuple[str, Any]]:
    """Yield what Sphinx writes of a module: constants only where they are assigned, others also where imported."""
    for name, thing in public(module):
        home = getattr(thing, "__module__", None) or defined_in(module, name.rpartition(".")[2])
        if home == module or (":imported-members:" in options and callable(thing)):
            yield name, thing


def defined_in(module: str, name: str) -> str:
    """Return the module that assigns a name which another one imports."""
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
            return defined_in(node.module, name)
    return module


def reference() -> Iterator[tuple[str, Any]]:
    """Yield all names in the reference with what they stand for."""
    for directive, name, options in DIRECTIVE.findall(REFERENCE):
        if directive == "automodule":
            yield from rendered(name, options)
            if name in sys.modules:
                yield name, sys.modules[name]
        elif directive == "py:data":
            full = f"{re.findall(r':module: (.+)', options)[0]}.{name}"
            yield full, look_up(full)
        else:
            yield name, look_up(name)


SHOWN = dict(reference())
OFFERED = dict(each for module in MODULES for each in public(module))
EVERYTHING = {name: thing for name, thing in sorted((SHOWN | OFFERED).items()) if not isinstance(thing, ModuleType)}
CLASSES = [name for name, thing in EVERYTHING.items() if inspect.isclass(thing)]
FUNCTIONS = [name for name, thing in EVERYTHING.items() if inspect.isfunction(thing)]
CONSTANTS = [name for name in EVERYTHING if name not in CLASSES + FUNCTIONS]


def test_the_reference_was_read() -> None:
    assert len(CLASSES) > 40
    assert len(FUNCTIONS) > 60
    assert {"fishergcn.graph.Graph", "fishergcn.models.TrainedModel", "fishergcn.report.write_report"} <= set(SHOWN)
    assert {"fishergcn.METHODS", "fishergcn.studies.CANDIDATES"} <= set(CONSTANTS)


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_is_in_the_reference(name: str) -> None:
    assert any(OFFERED[name] is thing for thing in SHOWN.values())


def test_modules_are_private_and_packages_list_what_they_export() -> None:
    alone = {"fishergcn.errors"}
    for name in MODULES:
        module = importlib.import_module(name)
        assert hasattr(module, "__path__") or name in alone, f"{name} is a public module: its package exports its names"
        assert list(module.__all__) == sorted(set(module.__all__), key=module.__all__.index)


def test_at_most_205_names_are_public() -> None:
    own = {id(thing) for thing in OFFERED.values() if callable(thing)}
    assert len(own) + len(CONSTANTS) <= 205


@pytest.mark.parametrize("name", [name for name in MODULES if name != "fishergcn"])  # which imports names at first use
def test_what_a_package_exports_is_for_users_or_for_siblings(name: str) -> None:
    """Users call what is in ``__all__``; ``SHARED`` has what only other packages need, or what functions return."""
    try:
        module = importlib.import_module(name)
    except MissingExtraError:
        return
    shared = getattr(module, "SHARED", ())
    assert list(shared) == sorted(set(shared) - set(module.__all__), key=list(shared).index)
    assert [each for each in shared if each.startswith("_") or not hasattr(module, each)] == []
    body = ast.parse(inspect.getsource(module)).body
    imported = {
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fishergcn")
        for alias in node.names
    }
    if hasattr(module, "__path__"):
        assert {each for each in imported if not each.startswith("_")} <= {*module.__all__, *shared}


def test_nothing_is_in_the_reference_that_is_not_offered() -> None:
    assert [name for name, thing in SHOWN.items() if not any(thing is other for other in OFFERED.values())
            and not isinstance(thing, ModuleType)] == []  # fmt: skip


@pytest.mark.parametrize("name", CLASSES + FUNCTIONS)
def test_has_an_example_that_runs(name: str) -> None:
    text = EVERYTHING[name].__doc__  # its own: an inherited one is about something else
    examples = doctest.DocTestParser().get_examples(text or "")
    assert any(doctest.SKIP not in example.options for example in examples)


@pytest.mark.parametrize("name", CLASSES)
def test_members_are_described(name: str) -> None:
    kinds = (FunctionType, classmethod, staticmethod, property, cached_property)
    members = {key: member for key, member in vars(EVERYTHING[name]).items() if not key.startswith("_")}
    assert [key for key, member in members.items() if isinstance(member, kinds) and not member.__doc__] == []


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_has_a_doc_comment(name: str) -> None:
    module, _, constant = name.rpartition(".")
    source = inspect.getsource(importlib.import_module(defined_in(module, constant)))
    assert re.search(rf"^#: .+\n{constant}\b", source, flags=re.MULTILINE)
