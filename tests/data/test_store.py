"""The store on disk and the way it is made once."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from lightwork.data.once import build_once, content_key
from lightwork.data.store import Column, Columns, Store, StoreWriter
from lightwork.errors import DataError


def small_columns() -> dict[str, Column]:
    text = "naïve 中文 🙂".encode()
    return {
        "tokens": np.array([3, 0, 2], np.int32),
        "input_ids": (np.arange(5, dtype=np.int32), np.array([0, 3, 3, 5])),
        "weight": np.ones(3, np.float32),
        "context": (np.frombuffer(text, np.uint8), np.array([0, len(text)])),
    }


def small_store(path: Path) -> None:
    with StoreWriter(path) as writer:
        writer.append(small_columns())
        writer.finish({"examples": 2, "note": "é"})


def test_columns_in_memory_read_like_those_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "store.safetensors"
    small_store(path)
    store, columns = Store(path), Columns(small_columns())
    assert len(columns) == len(store) == 3
    assert columns.text("context", 0) == store.text("context", 0)
    for index in range(3):
        assert columns.row("input_ids", index).tolist() == store.row("input_ids", index).tolist()
    assert columns.column("tokens").tolist() == store.column("tokens").tolist()
    assert "weight" in columns
    assert "absent" not in columns


def test_columns_come_back(tmp_path: Path) -> None:
    path = tmp_path / "store.safetensors"
    small_store(path)
    store = Store(path)
    assert len(store) == 3
    assert [store.row("input_ids", i).tolist() for i in range(3)] == [[0, 1, 2], [], [3, 4]]
    assert store.text("context", 0) == "naïve 中文 🙂"
    assert store.facts == {"examples": 2, "note": "é"}
    assert "weight" in store
    assert "absent" not in store
    assert store.row("input_ids", 0).base is not None, "a row must be a view of the file"


def rows_of(columns: dict[str, Column], first: int, last: int) -> dict[str, Column]:
    """These rows of every column; the last piece has what a shorter column has left."""
    cut: dict[str, Column] = {}
    for name, column in columns.items():
        if isinstance(column, tuple):
            values, starts = column
            own = starts[first : last + 1]
            begin, end = (own[0], own[-1]) if len(own) else (0, 0)
            cut[name] = (values[begin:end], own - begin if len(own) else np.array([0]))
        else:
            cut[name] = column[first:last]
    return cut


@pytest.mark.parametrize("borders", [[0, 3], [0, 1, 3], [0, 0, 1, 2, 3, 3]])
def test_pieces_give_the_file_of_the_whole(tmp_path: Path, borders: list[int]) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    small_store(whole)
    with StoreWriter(pieces) as writer:
        for first, last in itertools.pairwise(borders):
            writer.append(rows_of(small_columns(), first, last))
        writer.finish({"examples": 2, "note": "é"})
    assert pieces.read_bytes() == whole.read_bytes()
    assert sorted(tmp_path.iterdir()) == [pieces, whole]


def test_other_programs_read_it(tmp_path: Path) -> None:
    path = tmp_path / "store.safetensors"
    small_store(path)
    tensors = load_file(path)
    expected = Columns(small_columns())
    assert sorted(tensors) == sorted(
        ["tokens", "weight", "input_ids", "input_ids.starts", "context", "context.starts"]
    )
    for name, tensor in tensors.items():
        assert tensor.dtype == expected.column(name).dtype
        assert tensor.tolist() == expected.column(name).tolist()
    with safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["facts"]) == {"examples": 2, "note": "é"}
    size = int.from_bytes(path.read_bytes()[:8], "little")
    assert size % 8 == 0, "the widest tensors, which come first, begin at a multiple of 8"


def test_what_fails_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        with StoreWriter(tmp_path / "store") as writer:
            writer.append(small_columns())
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        broken()
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from lightwork.data.once import build_once
from lightwork.data.store import StoreWriter

def build(place):
    with StoreWriter(place) as writer:
        for _ in range(100):
            writer.append({"tokens": np.zeros(10_000, np.int32)})
        os.kill(os.getpid(), signal.SIGKILL)

build_once(Path(sys.argv[1]), build, print)
"""


@pytest.mark.processes
def test_a_kill_while_writing_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "store"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["store.lock"]
    assert build_once(target, small_store, print)
    assert len(Store(target)) == 3


@pytest.mark.parametrize("keep", [0, 4, 20, -1])
def test_a_cut_off_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "store.safetensors"
    small_store(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="not a whole store"):
        Store(path)


def test_built_once_and_reused(tmp_path: Path) -> None:
    calls: list[Path] = []

    def build(place: Path) -> None:
        calls.append(place)
        place.write_text("made")

    target = tmp_path / "deep" / "thing"
    assert build_once(target, build, print)
    assert not build_once(target, build, print)
    assert len(calls) == 1
    assert target.read_text() == "made"


def test_a_half_written_one_is_never_used(tmp_path: Path) -> None:
    target = tmp_path / "thing"

    def broken(place: Path) -> None:
        place.mkdir()
        (place / "half").write_text("…")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        build_once(target, broken, print)
    assert not target.exists()
    assert build_once(target, lambda place: place.mkdir(), print)
    assert list(target.iterdir()) == []


def test_no_room_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"data\.cache"):
        build_once(tmp_path / "file" / "thing", lambda place: None, print)


CONTENDER = """
import os, sys, time
from pathlib import Path
from lightwork import disk
from lightwork.data.once import build_once
disk.SILENCE_S = 0.1

def build(place):
    time.sleep(0.5)
    with (place.parent / "builds").open("a") as file:
        file.write("x")
    place.write_text("made")

build_once(Path(sys.argv[1]), build, print)
"""


@pytest.mark.processes
def test_one_process_builds_and_the_others_wait_and_say_so(tmp_path: Path) -> None:
    target = tmp_path / "thing"
    command = [sys.executable, "-c", CONTENDER, str(target)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(3)
    ]
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert (tmp_path / "builds").read_text() == "x"
    assert sum("waiting for it" in text for text in said) >= 1
    assert target.read_text() == "made"


def test_keys_depend_on_every_fact() -> None:
    keys = [
        content_key(data="a", length=384, version=1),
        content_key(data="b", length=384, version=1),
        content_key(data="a", length=383, version=1),
        content_key(data="a", length=384, version=2),
        content_key(data="a", length=384, version=1, extra=None),
    ]
    assert len(set(keys)) == len(keys)
    assert content_key(version=1, length=384, data="a") == keys[0]
