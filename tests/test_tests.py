"""Every test can fail: it holds an assertion, or a call of something that asserts."""

from __future__ import annotations

import ast
from pathlib import Path

ASSERTING = ("pytest.raises", "pytest.warns", "pytest.fail", "np.testing.", "numpy.testing.", "torch.testing.")


def asserts(node):
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    own = name.rpartition(".")[2]
    return name.startswith(ASSERTING) or own == "check" or own.startswith(("check_", "assert_"))


def helpers(tree):
    """Functions of the module that assert by themselves, wherever they are defined."""
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {each.name for each in functions if any(map(asserts, ast.walk(each)))}


def without_assertion(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known = helpers(tree)
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name.startswith("test"):
            called = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
            if function.name not in known and not called & known:
                yield f"{path.name}::{function.name}"


def test_no_test_is_without_an_assertion():
    paths = sorted(Path(__file__).parent.rglob("test_*.py"))
    assert len(paths) > 50
    assert [name for path in paths for name in without_assertion(path)] == []


def test_an_empty_test_would_be_found(tmp_path):
    path = tmp_path / "test_empty.py"
    path.write_text("def test_one():\n    print(1)\n\ndef test_two():\n    assert True\n")
    assert list(without_assertion(path)) == ["test_empty.py::test_one"]
