"""The Dockerfiles: linted, and everything they refer to is there; the pip commands are run by the slow test."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FILES = ["Dockerfile", "Dockerfile.cuda"]
HADOLINT = shutil.which("hadolint", path=sysconfig.get_path("scripts")) or shutil.which("hadolint")


def tool():
    spec = importlib.util.spec_from_file_location("try_docker", ROOT / "tools" / "try_docker.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(params=FILES)
def steps(request):
    return tool().steps_of((ROOT / request.param).read_text(encoding="utf-8"))


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed (extra dev)")
@pytest.mark.parametrize("name", FILES)
def test_lint(name):
    done = subprocess.run([HADOLINT, ROOT / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


def test_copied_files_are_there_and_reach_the_build(steps):
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    sources = tool().copied(steps)
    assert {"src", "pyproject.toml", "constraints.txt"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert tool().let_through(source, ignored), source
    assert tool().let_through("src/fishergcn/__init__.py", ignored)
    for path in (".git/config", "tests/test_docker.py", "src/fishergcn/__pycache__/a.pyc", "results/table2/plan.json"):
        assert not tool().let_through(path, ignored), path


def test_what_hatchling_needs_is_copied(steps):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = [project["project"]["readme"], *project["project"]["license-files"], "src/fishergcn/_version.py"]
    sources, ignored = tool().copied(steps), (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for pattern in patterns:
        found = [path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)]
        assert found, pattern
        for path in found:
            assert any(path == source or path.startswith(f"{source}/") for source in sources), path
            assert tool().let_through(path, ignored), path


def test_extras_command_and_python_are_those_of_the_package(steps):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installs = " ".join(rest for word, rest in steps if word == "RUN")
    [extras] = re.findall(r'"\.\[([^\]]*)\]"', installs)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    [entry] = [json.loads(rest) for word, rest in steps if word == "ENTRYPOINT"]
    assert entry[0] in project["scripts"]
    [image] = [rest for word, rest in steps if word == "FROM"]
    version = re.fullmatch(r"python:(3\.\d+)-slim", image)[1]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    assert [word for word, _ in steps].index("USER") < [word for word, _ in steps].index("ENTRYPOINT")


def test_the_page_on_installing_names_both():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    for name in FILES:
        uses = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if "docker " in line]
        assert len(uses) == 2
        for line in uses:
            command = line[line.index("docker ") :]
            assert command.split(" train")[0].split(" reproduce")[0] in page, command


@pytest.mark.parametrize(("index", "words"), [("", []), ("https://host/a b", ["--index-url", "https://host/a b"])])
def test_torch_comes_from_the_index_that_is_given(steps, index, words):
    [install] = [rest for word, rest in steps if word == "RUN" and rest.endswith(" torch")]
    told = 'python() { printf "%s\\n" "$@"; }; ' + install
    done = subprocess.run(["sh", "-ec", told], env={"TORCH_INDEX": index}, capture_output=True, text=True, check=True)
    usual = ["-m", "pip", "install", "--no-cache-dir", "--constraint", "constraints.txt"]
    assert done.stdout.splitlines() == [*usual, *words, "torch"]


@pytest.mark.slow
def test_built_as_far_as_a_machine_without_docker_allows():
    words = [sys.executable, ROOT / "tools" / "try_docker.py", ROOT / "Dockerfile"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("the image's files, packages and entry point work\n")
