"""How bytes, text, JSON and arrays are made hostile: each by a random generator alone."""

from __future__ import annotations

import contextlib
import io
import json
import random
import struct
import zipfile
from typing import Any

import numpy as np

TEXTS = [
    "",
    "\0",
    "../../x",
    "/etc/passwd",
    "<script>",
    "\ud800",
    "é" * 300,
    "nan",
    "-1",
    "1e999",
    "9" * 5000,
    "{}",
    "gcn",
    "\x1b]0;owned\x07\x1b[31m",
    "\u202eabc\u2066\u200b",
    "\x9b2J",
    "=1+1",
    "'=1+1",
    "@SUM(A1)",
    "1_000",
    "٣",
    "1e-300",
]
NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308, -1e-320, float("nan"), float("inf"), True, None]
Files = dict[str, bytes]


def spoil_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip, cut, repeat, insert or overwrite at a few places."""
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(spoiled) + 1)
        match rng.randrange(6):
            case 0 if at < len(spoiled):
                spoiled[at] ^= 1 << rng.randrange(8)
            case 1:
                del spoiled[at:]
            case 2:
                del spoiled[at : at + rng.randrange(1, 9)]
            case 3:
                spoiled[at:at] = spoiled[at : at + rng.randrange(1, 200)]
            case 4:
                spoiled[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                spoiled[at : at + 8] = struct.pack("<q", rng.choice((-1, 0, 2**31, 2**62, rng.getrandbits(40))))
    return bytes(spoiled)


def odd_value(rng: random.Random, depth: int = 2) -> Any:
    """Return a value that JSON can say and a reader may not expect."""
    kind = rng.randrange(8 if depth else 6)
    if kind < 3:
        return rng.choice(NUMBERS)
    if kind < 6:
        return rng.choice(TEXTS)
    items = [odd_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return items if kind == 6 else {rng.choice(TEXTS): item for item in items}


def spoil_value(rng: random.Random, value: Any) -> Any:
    """Replace, drop or add something somewhere inside a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.15:
            return {name: item for name, item in value.items() if name != key}
        return value | {key if rng.random() < 0.95 else rng.choice(TEXTS): spoil_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value[:at] + value[at + 1 :] * rng.randrange(3)
        return [*value[:at], spoil_value(rng, value[at]), *value[at + 1 :]]
    return odd_value(rng)


def to_json(value: Any, rng: random.Random) -> bytes:
    if rng.random() < 0.02:
        return b"[" * 100_000
    if rng.random() < 0.05:  # the same name twice, or a number that no float can hold
        odd = rng.choice(('{"%s": 1, "%s": 1e999, ', '{"%s": -1e400, "%s": 0, '))
        name = rng.choice(sorted(value)) if isinstance(value, dict) and value else "a"
        return json.dumps(value).replace("{", odd % (name, name), 1).encode("utf-8", "surrogatepass")
    return json.dumps(value).encode("utf-8", "surrogatepass")


def spoil_one(rng: random.Random, files: Files) -> Files:
    """Spoil the bytes of one file, swap two, or leave one out."""
    name = rng.choice(sorted(files))
    match rng.randrange(12):
        case 0:
            return {other: data for other, data in files.items() if other != name}
        case 1:
            return files | {name: files[rng.choice(sorted(files))]}
        case _:
            return files | {name: spoil_bytes(rng, files[name])}


def spoil_text(rng: random.Random, text: str, separators: str = ",;\t =\n") -> str:
    cells = text.splitlines(keepends=True)
    for _ in range(rng.choice((1, 2, 4))):
        at = rng.randrange(len(cells))
        line = cells[at]
        head, separator, tail = line.partition(rng.choice(separators))
        cells[at] = rng.choice(
            (
                head + separator + rng.choice(TEXTS) + "\n",
                rng.choice(TEXTS) + separator + tail,
                f"{rng.choice(NUMBERS)}{separator}{tail}",
                line.replace(",", rng.choice(";\t \"'#")),
                "# " + line,
                '"' + line,
                line * 2,
                line[:-1],
                "",
            )
        )
    return "".join(cells)


def odd_array(rng: random.Random, array: Any) -> bytes:
    """Return an ``.npy`` whose type, shape or content is not what it was."""
    stream = io.BytesIO()
    match rng.randrange(6):
        case 0:
            array = array.astype(rng.choice(("f8", "i1", "u8", "c16", "?", "S3", "U2", "M8[s]", ">i4", "f2")))
        case 1:
            array = np.resize(array, rng.choice(((), (0,), (1, 1), (2, 3), (1, 2, 3), (array.size + 1,))))
        case 2:
            array = array.ravel().copy()
            if array.size:
                with contextlib.suppress(OverflowError, ValueError, TypeError):
                    array[rng.randrange(array.size)] = rng.choice([n for n in NUMBERS if n is not None])
        case 3:
            shape = rng.choice(((2**40,), (2**31, 2**31), (-1,), (10**30,), (0, 2**62), ()))
            head = repr({"descr": "<f8", "fortran_order": False, "shape": shape})
            return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n" + b"\0" * 16
        case 4:
            np.lib.format.write_array(stream, array)
            return spoil_bytes(rng, stream.getvalue())
        case _:
            array = np.array([odd_value(rng)], dtype=object)
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=True)
    return stream.getvalue()


def spoil_npz(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.4:
        return spoil_bytes(rng, data)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        names = source.namelist()
        chosen = rng.sample(names, min(len(names), rng.choice((1, 1, 2))))
        for name in names:
            content = source.read(name)
            if name in chosen:
                array = np.load(io.BytesIO(content))
                if name == "description.npy" and rng.random() < 0.8:
                    text = to_json(spoil_value(rng, json.loads(array.tobytes())), rng)
                    stream = io.BytesIO()
                    np.lib.format.write_array(stream, np.frombuffer(text, dtype=np.uint8))
                    content = stream.getvalue()
                elif rng.random() < 0.1:
                    continue
                else:
                    content = odd_array(rng, array)
            target.writestr(rng.choice((name,) * 9 + ("../x.npy",)), content)
    spoiled = out.getvalue()
    return spoil_bytes(rng, spoiled) if rng.random() < 0.1 else spoiled
