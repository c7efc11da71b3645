"""Text that is read as a table: a regular file or, by the name ``-``, standard input; checked before it is parsed.

Devices and pipes have no end that is known beforehand. A line is held in memory as a whole, and cell by cell takes
several times its size, so that it has a limit too.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fishergcn.errors import DataFileError, reason

_LARGEST_FILE = 4 << 30
_LONGEST_LINE = 16 << 20
_CHUNK = 1 << 20
_RATIO = 200  # how many times its size a compressed file may unpack to
_IN_MEMORY = 64 << 20  # of standard input and of what was compressed; more goes to a temporary file


def title(path: Path) -> str:
    """Return what messages call a source."""
    return "standard input" if str(path) == "-" else str(path)


def suffix_of(path: Path) -> str:
    """Return how a file's name ends, in lower case, without the .gz of a compressed one."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.TextIOWrapper]:
    """Yield the text of a file, or of standard input for ``-``, after it was checked as a whole."""
    with regular(path) as binary, _utf8(path, binary) as text:
        try:
            _check(path, text)
            text.seek(0)
        except OSError as error:
            raise _unreadable(path, error) from error
        yield io.TextIOWrapper(text, encoding="utf-8-sig", newline="")


@contextlib.contextmanager
def _utf8(path: Path, binary: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the bytes as they are, or UTF-8 in place of UTF-16 with a byte-order mark, as spreadsheets write it."""
    try:
        mark = binary.read(2)
        binary.seek(0)
    except OSError as error:
        raise _unreadable(path, error) from error
    if mark not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        yield binary
        return
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
        try:
            _copy(path, _Encoded(binary), copy)
        except UnicodeDecodeError as error:
            raise DataFileError(f"{title(path)} begins as UTF-16, and is damaged ({reason(error)}).") from None
        yield copy


class _Encoded:
    """A stream of UTF-16 that is read as UTF-8."""

    def __init__(self, binary: IO[bytes]) -> None:
        self._binary, self._decoder = binary, codecs.getincrementaldecoder("utf-16")()

    def read(self, size: int) -> bytes:
        text = ""
        while not text and (chunk := self._binary.read(size)):
            text = self._decoder.decode(chunk)
        return (text or self._decoder.decode(b"", final=True)).encode()


@contextlib.contextmanager
def regular(path: Path) -> Iterator[IO[bytes]]:
    """Yield the bytes of a regular file, unpacked if it is named .gz, or of standard input for ``-``."""
    if str(path) == "-":
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
            source = getattr(sys.stdin, "buffer", None)
            if source is None:
                raise DataFileError("standard input is closed, and - reads from it.")
            _copy(path, source, copy)
            yield copy
        return
    try:
        # Without waiting, since opening a pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise DataFileError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a device or a pipe, which may have no end; for standard input give -"
        raise DataFileError(f"{path} must be a file, but it is {'a folder' if stat.S_ISDIR(mode) else what}.")
    with os.fdopen(descriptor, "rb") as stream:
        if path.suffix.lower() != ".gz":
            yield stream
            return
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
            try:
                with gzip.GzipFile(fileobj=stream) as packed:
                    _copy(path, packed, copy, stream)  # a chunk at a time: a small file may hold more than a disk
            except (OSError, EOFError, zlib.error) as error:
                raise DataFileError(f"{path} is not a gzip file, or it is damaged ({reason(error)}).") from error
            yield copy


def _copy(
    path: Path, source: IO[bytes] | gzip.GzipFile | _Encoded, copy: IO[bytes], packed: IO[bytes] | None = None
) -> None:
    size = 0
    while chunk := source.read(_CHUNK):
        size += len(chunk)
        if packed is not None and size > max(_IN_MEMORY, _RATIO * packed.tell()):
            raise DataFileError(
                f"{path} unpacks to more than {_RATIO} times its size, as no honest table does; unpack it first."
            )
        if size > _LARGEST_FILE:
            raise _too_large(path)
        copy.write(chunk)
    copy.seek(0)


def _check(path: Path, binary: IO[bytes]) -> None:
    """Raise unless this is UTF-8 text within the limits; a chunk at a time, so that memory does not depend on it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, size, tail = 1, 0, 0  # of the chunk's first byte; bytes so far; bytes since the last line end
    while True:
        chunk = binary.read(_CHUNK)
        size += len(chunk)
        if size > _LARGEST_FILE:
            raise _too_large(path)
        if (zero := chunk.find(b"\0")) >= 0:
            place = line + chunk.count(b"\n", 0, zero)
            raise DataFileError(f"{title(path)} line {place}: the file must be UTF-8 text, got {_what(chunk)}.")
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            place, byte = line + error.object.count(b"\n", 0, error.start), error.object[error.start]
            raise DataFileError(
                f"{title(path)} line {place}: the file must be UTF-8 text, got byte 0x{byte:02x}; a file in another "
                "encoding, such as Latin-1 or Windows-1252, must be saved as UTF-8 first."
            ) from None
        if not chunk:
            return
        line += chunk.count(b"\n")
        last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        tail = len(chunk) - last - 1 if last >= 0 else tail + len(chunk)
        if tail > _LONGEST_LINE:
            raise DataFileError(
                f"{title(path)} line {line}: a line must have at most {_LONGEST_LINE >> 20} MiB, and this has more; "
                "features of many columns are read from .npz files."
            )


def _what(chunk: bytes) -> str:
    """Say what a chunk with zero bytes is."""
    if chunk.startswith(b"PK\x03\x04"):
        return "a workbook or another archive: save the sheet as CSV"
    zeros = chunk.count(b"\0")
    if zeros > len(chunk) // 3 and max(chunk[0::2].count(b"\0"), chunk[1::2].count(b"\0")) == zeros:
        return "UTF-16 without a byte-order mark: save it as UTF-8"
    return "binary data"


def _too_large(path: Path) -> DataFileError:
    return DataFileError(
        f"{title(path)} must have at most {_LARGEST_FILE >> 30} GiB as text, and has more; larger graphs are read from "
        ".npz files."
    )


def _unreadable(path: Path, error: Exception) -> DataFileError:
    return DataFileError(f"{title(path)} cannot be read: {getattr(error, 'strerror', None) or reason(error)}.")
