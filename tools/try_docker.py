"""Build a Dockerfile as far as a machine without Docker allows: its files, its pip commands and its entry point.

    python tools/try_docker.py Dockerfile [--build-arg TORCH_INDEX=URL]

What COPY names, and .dockerignore lets through, is copied to an empty folder. The RUN commands that call pip are run
there as they are, in a new virtual environment in place of the image's Python, with ARG at its default or as given.
Then the entry point says what it can do, and trains. Not tried: the base image, RUN commands that call anything else
(they are listed), the user, and a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

Step = tuple[str, str]  # instruction, what follows it


def steps_of(text: str) -> list[Step]:
    """Return the instructions of a Dockerfile, continued lines joined, without comments.

    Examples
    --------
    >>> steps_of("FROM a:1\\n# no\\nRUN one && \\\\\\n    two\\n")
    [('FROM', 'a:1'), ('RUN', 'one && two')]
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def copied(steps: list[Step]) -> list[str]:
    """Return the sources of all COPY instructions."""
    return [source for word, rest in steps if word == "COPY" for source in rest.split()[:-1]]


def let_through(path: str, ignored: str) -> bool:
    """Say whether .dockerignore lets a path of the repository into the build: the last line that fits decides."""
    found = True
    for line in filter(None, map(str.strip, ignored.splitlines())):
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = path.split("/")
        heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        if any(fnmatch(each, pattern) for each in (*heads, *parts)):
            found = line.startswith("!")
    return found


def stage(steps: list[Step], place: Path) -> None:
    """Copy what the image gets."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for source in copied(steps):
        paths = [path for path in (ROOT / source, *(ROOT / source).rglob("*")) if path.is_file()]
        for path in paths:
            inside = path.relative_to(ROOT).as_posix()
            if let_through(inside, ignored):
                (place / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place / inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dockerfile", type=Path, nargs="?", default=ROOT / "Dockerfile")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="as docker build has it")
    options = parser.parse_args()
    steps = steps_of(options.dockerfile.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "context"
        place.mkdir()
        stage(steps, place)
        venv.create(Path(name) / "python", with_pip=True)
        bin_folder = Path(name) / "python" / "bin"
        arguments = [*(rest for word, rest in steps if word == "ARG"), *options.build_arg]
        surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | dict(
            each.split("=", 1) for each in arguments
        )
        surroundings["PATH"] = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        for word, rest in steps:
            if word == "RUN" and " pip " in rest:
                print("RUN", rest, flush=True)
                subprocess.run(["sh", "-ec", rest], cwd=place, env=surroundings, check=True, stdout=subprocess.DEVNULL)
            elif word in ("FROM", "RUN", "USER"):
                print("not tried:", word, rest, flush=True)
        entry = json.loads(next(rest for word, rest in steps if word == "ENTRYPOINT"))
        shutil.rmtree(place / "src")  # what is installed must do
        few = ["--dataset", "cora", "--method", "gcn", "--epochs", "3", "--device", "cpu", "--out", "model"]
        for words in (["--version"], ["doctor"], ["train", *few], ["predict", "model", "--out", "p.csv"]):
            print("ENTRYPOINT", *entry, *words, flush=True)
            done = subprocess.run([bin_folder / entry[0], *entry[1:], *words], cwd=place, env=surroundings, check=False)
            if done.returncode:
                sys.exit(f"{' '.join(words)} ended with status {done.returncode}.")
    print("the image's files, packages and entry point work")


if __name__ == "__main__":
    main()
