"""Tokenised windows on disk: one file of named columns, memory-mapped, never loaded whole.

The file is an ordinary safetensors file (https://huggingface.co/docs/safetensors), so other
programs can open it: a plain column is one tensor; a ragged column ``name`` is its values end to
end plus a tensor ``name.starts`` of rows + 1 positions. Facts about the store are JSON in the
header. Reserved columns: ``tokens``, the length of each window, and ``weight``, its loss count.
"""

from __future__ import annotations

import json
import mmap
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from lightwork.errors import DataError

Column = NDArray[Any] | tuple[NDArray[Any], NDArray[np.int64]]
"""A plain column, or (values, starts) of a ragged one."""

FORMAT = 3
_STARTS = ".starts"
_DTYPES = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "F32": np.float32,
    "F64": np.float64,
}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_COPIED_BYTES = 1 << 18


class StoreWriter:
    """Writes a store piece by piece; what it holds in memory does not grow with the store.

    Used as a context: each column grows in a file of its own, without a name, on the disk of
    ``path``, so that a process that is killed leaves none of them. :meth:`finish` makes ``path``
    of them; make it appear whole with :func:`data.once.build_once`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tensors: dict[str, _Growing] = {}
        self._files = ExitStack()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        self._files.close()

    def append(self, columns: Mapping[str, Column]) -> None:
        """Add rows to every column; all pieces have the same names and dtypes."""
        flat = _flat(columns)
        if not self._tensors:
            for name, tensor in flat.items():
                file = self._files.enter_context(TemporaryFile(dir=self._path.parent))  # noqa: SIM115
                self._tensors[name] = _Growing(file, tensor.dtype)
        assert flat.keys() == self._tensors.keys(), "pieces of a store with other columns"
        for name, tensor in flat.items():
            growing = self._tensors[name]
            if name.endswith(_STARTS) and growing.length:
                tensor = tensor[1:] + growing.last  # noqa: PLW2901
            growing.append(tensor)

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write ``path``: the header, then each column, the widest dtype first."""
        facts_json = json.dumps(facts, ensure_ascii=False)
        header: dict[str, Any] = {"__metadata__": {"format": str(FORMAT), "facts": facts_json}}
        order = sorted(self._tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
        stop = 0
        for name, tensor in order:
            start, stop = stop, stop + tensor.length * tensor.dtype.itemsize
            header[name] = {
                "dtype": _NAMES[tensor.dtype],
                "shape": [tensor.length],
                "data_offsets": [start, stop],
            }
        text = json.dumps(header, ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)  # so that every tensor begins at a multiple of its width
        with self._path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, tensor in order:
                tensor.file.seek(0)
                shutil.copyfileobj(tensor.file, file, _COPIED_BYTES)
                tensor.file.close()  # gives its room on the disk back


@dataclass
class _Growing:
    """A flat tensor in a file."""

    file: IO[bytes]
    dtype: np.dtype[Any]
    length: int = 0
    last: Any = 0

    def append(self, values: NDArray[Any]) -> None:
        assert values.dtype == self.dtype
        assert values.ndim == 1
        self.file.write(np.ascontiguousarray(values).data)
        self.length += len(values)
        if len(values):
            self.last = values[-1]


def _flat(columns: Mapping[str, Column]) -> dict[str, NDArray[Any]]:
    """Every column as one array, and a ragged one as a second array of starts."""
    tensors: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        if isinstance(column, tuple):
            tensors[name], tensors[name + _STARTS] = column
        else:
            tensors[name] = column
    return tensors


class Columns:
    """Read access to named columns in memory; safe to share between threads."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = _flat(columns)

    def __len__(self) -> int:
        """The number of windows."""
        return len(self._columns["tokens"])

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def column(self, name: str) -> NDArray[Any]:
        """All values of a column; of a ragged one, end to end."""
        return self._columns[name]

    def row(self, name: str, index: int) -> NDArray[Any]:
        """One row of a ragged column, without copying."""
        starts = self._columns[name + _STARTS]
        row: NDArray[Any] = self._columns[name][starts[index] : starts[index + 1]]
        return row

    def text(self, name: str, index: int) -> str:
        """One row of a ragged ``uint8`` column, decoded as UTF-8."""
        return self.row(name, index).tobytes().decode("utf-8")


class Store(Columns):
    """The columns of a store file; cheap to open, safe to share between threads.

    Raises DataError when the file is not a whole store.
    """

    def __init__(self, path: Path) -> None:
        super().__init__({})
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            header, body = _read_header(self._map)
            facts = header.pop("__metadata__")
            if facts["format"] != str(FORMAT):
                raise ValueError(f"store format {facts['format']}, expected {FORMAT}")
            self._columns.update({name: self._view(entry, body) for name, entry in header.items()})
            self.facts: dict[str, Any] = json.loads(facts["facts"])
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{path} is not a whole store of tokenised windows ({error}); "
                "delete it and it will be made again"
            ) from error

    def _view(self, entry: dict[str, Any], body: int) -> NDArray[Any]:
        start, stop = entry["data_offsets"]
        if body + stop > len(self._map):
            raise ValueError(f"the file ends at byte {len(self._map)}, needs {body + stop}")
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        flat = np.frombuffer(self._map, dtype, (stop - start) // dtype.itemsize, body + start)
        return flat.reshape(entry["shape"])


def _read_header(data: mmap.mmap) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file and the byte where its tensors begin."""
    size = int.from_bytes(data[:8], "little")
    if not 2 <= size <= len(data) - 8:
        raise ValueError("the header is cut off")
    header: dict[str, Any] = json.loads(data[8 : 8 + size])
    return header, 8 + size
