"""From files to bytes and text: gzip is unpacked, UTF-8 decoded, nothing is changed.

What a file is packed with is told by its first bytes, not by its name.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from lightwork.errors import DataError

_GZIP = b"\x1f\x8b"
_OTHER_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
"""Byte-order marks; that of UTF-16 is the beginning of one of UTF-32."""
_OTHER_PACKING = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ": "packed with xz",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
}


@dataclass
class OpenFile:
    """``stream`` gives the unpacked bytes; ``first`` are the first four of them."""

    stream: IO[bytes]
    first: bytes
    packed: bool
    _raw: IO[bytes]
    _size: int

    @property
    def share(self) -> float:
        """How much of the file on disk was read, from 0 to 1."""
        return min(1.0, self._raw.tell() / self._size) if self._size else 1.0


@contextmanager
def opened(file: Path) -> Iterator[OpenFile]:
    """The bytes of ``file``, unpacked; a ``DataError`` where that fails, also while reading."""
    try:
        with file.open("rb") as raw:
            start = raw.read(6)
            raw.seek(0)
            for magic, name in _OTHER_PACKING.items():
                if start.startswith(magic):
                    raise DataError(f"{file}: the file is {name}; unpack it, or use gzip")
            packed = start.startswith(_GZIP)
            if file.suffix == ".gz" and not packed:
                raise DataError(f"{file}: the name ends in .gz, but the file is not gzip")
            stream: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw
            first = stream.read(4)
            stream.seek(0)
            yield OpenFile(stream, first, packed, raw, file.stat().st_size)
    except EOFError:
        raise DataError(f"{file}: the gzip file is cut off; fetch or pack it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{file}: the gzip file is damaged ({error})") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error})") from None


def decoded(file: Path, data: bytes, before: int = 0) -> str:
    """``data``, which stands ``before`` bytes into the file, as text without a byte-order mark."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        guess = (
            ""
            if before
            else next(
                (
                    f" (it begins like {name})"
                    for mark, name in _OTHER_MARKS
                    if data.startswith(mark)
                ),
                "",
            )
        )
        raise DataError(
            f"{file}: not valid UTF-8 at byte {before + error.start}{guess}; save the file as UTF-8"
        ) from None
    return text if before else text.removeprefix("\ufeff")
