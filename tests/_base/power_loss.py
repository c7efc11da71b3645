"""A file system that forgets at a power loss what was not synced: system calls are recorded, and replayed to a prefix.

``record`` runs a script under strace and returns what it did to files below a folder. ``states`` replays ever more of
that, and yields for each prefix what can be on disk if the power fails then, in two extremes:

- *nothing more*: content as of the last fsync of each file, names as of the last fsync of each folder;
- *names first*: all names as they were, with the content of the last fsync; a file that was never synced is empty.

Real file systems do something between the two. A folder that the script makes under the name ``mark-N`` says that it
has promised something by then.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CALLS = ",".join(
    ["open", "openat", "creat", "write", "pwrite64", "writev", "pwritev", "lseek", "ftruncate", "fsync", "fdatasync",
     "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "close", "dup", "dup2",
     "dup3", "copy_file_range", "sendfile"]
)  # fmt: skip
_CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)\)\s+=\s+(-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"^(?:AT_FDCWD|(-?\d+))")


def strace() -> str:
    found = shutil.which("strace")
    if found is None or subprocess.run([found, "-f", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs strace")
    return found


def record(script: str, folder: Path, log: Path, *arguments: str, env=None) -> list[tuple]:
    command = [strace(), "-f", "-qq", "-xx", "-s", "1000000000", "-e", f"trace={CALLS}", "-o", str(log)]
    done = subprocess.run(
        [*command, sys.executable, "-c", script, str(folder), *arguments],
        capture_output=True, text=True, timeout=300, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls = []
    for line in _joined(log.read_text(encoding="ascii", errors="replace").splitlines()):
        match = _CALL.match(line)
        if match and int(match[3]) >= 0:
            texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(match[2])]
            calls.append((match[1], _TEXT.sub('""', match[2]), texts, int(match[3])))
    return calls


def _joined(lines):
    """Put together the two halves of calls that were interrupted by another thread."""
    waiting = {}
    for line in lines:
        thread = line.split(maxsplit=1)[0]
        if line.endswith("<unfinished ...>"):
            waiting[thread] = line.removesuffix("<unfinished ...>")
        elif (match := re.search(r"<\.\.\. \w+ resumed>\s?", line)) and thread in waiting:
            yield waiting.pop(thread) + line[match.end() :]
        else:
            yield line


@dataclass
class Node:
    """A file (content) or a folder (names), as it is and as it is on disk."""

    now: bytearray | dict = field(default_factory=bytearray)
    synced: bytes | dict = b""

    def sync(self):
        self.synced = dict(self.now) if isinstance(self.now, dict) else bytes(self.now)


class Disk:
    def __init__(self, root: Path):
        self.root = root
        self.top = self._read(root)
        self.open: dict[int, list] = {}  # node and offset of each descriptor
        self.marks: list[int] = []

    def _read(self, path: Path) -> Node:
        if path.is_dir():
            names = {each.name: self._read(each) for each in path.iterdir()}
            return Node(names, dict(names))
        return Node(bytearray(path.read_bytes()), path.read_bytes())

    def _find(self, path: Path):
        """Return the folder of a path and its last name; None outside of the root."""
        try:
            parts = path.relative_to(self.root).parts
        except ValueError:
            return None, ""
        node = self.top
        for part in parts[:-1]:
            node = node.now.get(part)
            if node is None:
                return None, ""
        return node, parts[-1] if parts else ""

    def _node(self, path: Path):
        folder, name = self._find(path)
        return None if folder is None else self.top if not name else folder.now.get(name)

    def apply(self, name: str, shape: str, texts: list[bytes], result: int) -> bool:
        """Do what a call did; return whether anything below the root was concerned."""
        paths = [Path(text.decode(errors="surrogateescape")) for text in texts]
        number = _DESCRIPTOR.match(shape)
        descriptor = int(number[1]) if number and number[1] else -1
        if name in ("open", "openat", "creat"):
            folder, last = self._find(paths[0])
            if folder is None:
                self.open.pop(result, None)
                return False
            node = self.top if not last else folder.now.get(last)
            if node is None:
                node = folder.now[last] = Node()
            if "O_TRUNC" in shape or name == "creat":
                node.now = bytearray()
            self.open[result] = [node, 0, "O_APPEND" in shape]
            return True
        if name in ("mkdir", "mkdirat"):
            folder, last = self._find(paths[0])
            if folder is None:
                return False
            folder.now[last] = Node({}, {})
            if last.startswith("mark-"):
                self.marks.append(int(last[5:]))
            return True
        if name.startswith("rename"):
            (source, old), (target, new) = (self._find(path) for path in paths[:2])
            if source is None or target is None:
                return False
            if "RENAME_EXCHANGE" in shape:
                source.now[old], target.now[new] = target.now[new], source.now[old]
            else:
                target.now[new] = source.now.pop(old)
            return True
        if name in ("unlink", "unlinkat", "rmdir"):
            base = self.open.get(descriptor) if name == "unlinkat" else None
            folder, last = (base[0], str(paths[0])) if base and not paths[0].is_absolute() else self._find(paths[0])
            return folder is not None and folder.now.pop(last, None) is not None
        if descriptor not in self.open:
            return False
        entry = self.open[descriptor]
        node = entry[0]
        if name == "close":
            del self.open[descriptor]
        elif name.startswith("dup"):
            self.open[result] = entry
        elif name == "lseek":
            entry[1] = result
        elif name in ("fsync", "fdatasync"):
            node.sync()
            return True
        elif name == "ftruncate":
            size = int(shape.split(",")[1])
            node.now[:] = node.now[:size].ljust(size, b"\0")
            return True
        elif name in ("write", "writev", "pwrite64", "pwritev"):
            at = int(shape.rsplit(",", 1)[1]) if name.startswith("p") else len(node.now) if entry[2] else entry[1]
            data = b"".join(texts)[:result]
            node.now[:] = node.now.ljust(at, b"\0")
            node.now[at : at + len(data)] = data
            if not name.startswith("p"):
                entry[1] = at + len(data)
            return True
        elif name in ("copy_file_range", "sendfile"):
            raise AssertionError(f"{name} is not replayed")
        return False

    def restore(self, place: Path, *, names_first: bool) -> None:
        """Write what a power loss leaves to a folder."""
        shutil.rmtree(place, ignore_errors=True)
        self._write(self.top, place, names_first)

    def _write(self, node: Node, place: Path, names_first: bool) -> None:
        if isinstance(node.now, dict):
            place.mkdir()
            for name, child in (node.now if names_first else node.synced).items():
                self._write(child, place / name, names_first)
        else:
            place.write_bytes(node.synced)


def states(calls: list[tuple], disk: Disk, place: Path):
    """Yield after each call that concerned the folder, for both extremes, the marks that were set by then."""
    for call in calls:
        if disk.apply(*call):
            for names_first in (False, True):
                disk.restore(place, names_first=names_first)
                yield set(disk.marks), names_first
