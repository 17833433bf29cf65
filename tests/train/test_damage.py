"""No damaged checkpoint is taken for a whole one: every byte of every file counts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lightwork.disk import Storage
from lightwork.errors import CheckpointError
from lightwork.manifest import MANIFEST, problem_of
from lightwork.train.checkpoint import Checkpoints
from tests.train.test_checkpoint import parts

FLIPS = 600
CUTS = 200


@pytest.fixture
def run(tmp_path: Path) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path, "mine")
    for step in (9, 10):
        checkpoints.write(step, parts(step))
    return checkpoints


def files(checkpoint: Path) -> list[Path]:
    found = [path for path in sorted(checkpoint.rglob("*")) if path.is_file()]
    assert checkpoint / MANIFEST in found
    assert len(found) == 5
    return found


def passed_over(run: Checkpoints) -> str:
    """What is said of step 10, before step 9 is taken."""
    said: list[str] = []
    assert run.newest(said.append) == run.at(9)
    (line,) = said
    assert line.startswith("the checkpoint step-000010 is damaged and passed over: ")
    assert "\n" not in line
    return line


def test_every_flipped_byte_is_found(run: Checkpoints) -> None:
    draw = random.Random(1)
    for number in range(FLIPS):
        path = files(run.at(10))[number % 5]
        whole = path.read_bytes()
        place = draw.randrange(len(whole))
        flipped = bytearray(whole)
        flipped[place] ^= draw.randrange(1, 256)
        path.write_bytes(flipped)
        passed_over(run)
        path.write_bytes(whole)
    assert run.newest(pytest.fail) == run.at(10)


def test_every_byte_of_the_manifest_is_guarded(run: Checkpoints) -> None:
    path = run.at(10) / MANIFEST
    whole = path.read_bytes()
    draw = random.Random(2)
    for place in range(len(whole)):
        for change in (1 << draw.randrange(8), whole[place] ^ ord(" "), whole[place] ^ ord("1")):
            flipped = bytearray(whole)
            flipped[place] ^= change
            path.write_bytes(flipped)
            assert (problem_of(run.at(10)) is None) == (change == 0), (place, change)


def test_every_cut_and_every_missing_file_is_found(run: Checkpoints) -> None:
    draw = random.Random(3)
    for number in range(CUTS):
        path = files(run.at(10))[number % 5]
        whole = path.read_bytes()
        path.write_bytes(whole[: draw.randrange(len(whole))])
        passed_over(run)
        path.write_bytes(whole)
    for path in files(run.at(10)):
        whole = path.read_bytes()
        path.write_bytes(whole + b"\n")
        passed_over(run)
        path.unlink()
        assert f"{path.relative_to(run.at(10))} is missing" in passed_over(run)
        path.write_bytes(whole)
    assert run.newest(pytest.fail) == run.at(10)


def test_what_was_added_is_found_unless_nobody_reads_it(run: Checkpoints) -> None:
    (run.at(10) / "model/.nfs0001").write_text("left by a file system")
    (run.at(10) / ".cache").mkdir()
    (run.at(10) / ".cache/index").write_text("left by a program")
    assert run.newest(pytest.fail) == run.at(10)
    (run.at(10) / "model/adapter_config.json").write_text("{}")
    assert "model/adapter_config.json does not belong to it" in passed_over(run)


def test_where_all_are_damaged_nothing_begins_afresh(run: Checkpoints) -> None:
    for step in (9, 10):
        (run.at(step) / "state.json").write_text("{}")
    said: list[str] = []
    with pytest.raises(CheckpointError, match="none of the 2 checkpoints"):
        run.newest(said.append)
    assert len(said) == 2


def test_a_manifest_of_another_format_says_so(run: Checkpoints) -> None:
    path = run.at(10) / MANIFEST
    values = json.loads(path.read_bytes())
    path.write_text(json.dumps({**values, "format": 1}))
    assert "its format is not 2" in passed_over(run)
    for text in ("[]", "3", "", '{"files": 1}'):
        path.write_text(text)
        assert "manifest.json cannot be read" in passed_over(run)


class Forgetful(Storage):
    """A disk that keeps something else than it was given."""

    def sync(self, path: Path) -> None:
        super().sync(path)
        if path.name == "weights":
            content = bytearray(path.read_bytes())
            content[50] ^= 4
            path.write_bytes(content)


def test_what_reads_back_otherwise_is_not_published_and_deletes_nothing(run: Checkpoints) -> None:
    bad = Checkpoints(run.folder.parent, "mine", Forgetful())
    with pytest.raises(CheckpointError, match="content of model/deep/weights has changed"):
        bad.save(11, parts(11), keep=1)
    assert [step for step, _ in run.all()] == [9, 10]
    assert not list(run.folder.glob(".*"))


def test_checkpoints_of_another_run_are_neither_taken_nor_deleted(run: Checkpoints) -> None:
    other = Checkpoints(run.folder.parent, "theirs")
    other.write(1000, parts(1000))
    said: list[str] = []
    assert run.newest(said.append) == run.at(10)
    assert said == ["the checkpoint step-001000 is of another run and passed over"]
    run.save(11, parts(11), keep=1)
    assert [step for step, _ in run.all()] == [11, 1000]
    assert Checkpoints(run.folder.parent).newest(pytest.fail) == run.at(1000)
