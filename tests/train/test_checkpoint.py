"""Checkpoints: only what verifies is one; nothing half-written is ever found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from lightwork.errors import CheckpointError
from lightwork.manifest import problem_of
from lightwork.train.checkpoint import Checkpoints, Part, read_state, read_tensors


def save_model(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "deep").mkdir()
    (folder / "deep" / "weights").write_bytes(b"\x00\x01" * 100)


def parts(step: int) -> Sequence[Part]:
    return (
        Part("model", save_model),
        Part(
            "optimizer",
            {"a.weight/exp_avg": torch.arange(6.0).view(2, 3), "a/step": torch.ones(())},
        ),
        Part("state", {"step": step, "note": "é"}),
    )


@pytest.fixture
def run(tmp_path: Path) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path)
    for step in (5, 10, 200):
        checkpoints.write(step, parts(step))
    return checkpoints


def test_what_is_written_comes_back(run: Checkpoints) -> None:
    newest = run.newest(pytest.fail)
    assert newest == run.at(200)
    assert newest is not None
    assert newest.name == "step-000200"
    assert problem_of(newest) is None
    assert read_state(newest) == {"step": 200, "note": "é"}
    tensors = read_tensors(newest, "optimizer")
    assert torch.equal(tensors["a.weight/exp_avg"], torch.arange(6.0).view(2, 3))
    assert tensors["a/step"].shape == ()
    assert read_tensors(newest, "absent") == {}
    manifest = json.loads((newest / "manifest.json").read_text())
    assert set(manifest["files"]) == {
        "model/config.json",
        "model/deep/weights",
        "optimizer.safetensors",
        "state.json",
    }


@pytest.mark.parametrize(
    "name",
    [
        "model/config.json",
        "model/deep/weights",
        "optimizer.safetensors",
        "state.json",
        "manifest.json",
    ],
)
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "grow"])
def test_every_damage_is_found_and_the_one_before_is_taken(
    run: Checkpoints, name: str, damage: str
) -> None:
    path = run.at(200) / name
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    elif damage == "cut":
        path.write_bytes(content[:-1] if name != "manifest.json" else content[:-3])
    elif damage == "grow" and name != "manifest.json":
        path.write_bytes(content + b" ")
    else:
        path.unlink()
    said: list[str] = []
    assert run.newest(said.append) == run.at(10)
    assert len(said) == 1
    assert "step-000200" in said[0]


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_afresh(run: Checkpoints) -> None:
    for _, path in run.all():
        (path / "state.json").unlink()
    with pytest.raises(CheckpointError, match="none of the 3 checkpoints"):
        run.newest(lambda text: None)


def test_no_checkpoint_is_not_an_error(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).newest(pytest.fail) is None


def test_an_interrupted_write_leaves_nothing_behind_its_name(run: Checkpoints) -> None:
    def die(folder: Path) -> None:
        (folder / "half").write_text("…")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.write(300, [Part("model", die)])
    assert [step for step, _ in run.all()] == [5, 10, 200]
    run.write(300, parts(300))
    assert problem_of(run.at(300)) is None


def test_rotation_keeps_the_newest_and_the_best(run: Checkpoints) -> None:
    run.point_best(5)
    run.rotate(200, keep=1)
    assert [step for step, _ in run.all()] == [5, 200]
    assert run.best() == run.at(5).resolve()
    run.point_best(200)
    run.rotate(200, keep=1)
    assert [step for step, _ in run.all()] == [200]


def test_a_damaged_later_step_never_displaces_a_fresh_one(run: Checkpoints) -> None:
    (run.at(200) / "state.json").unlink()
    assert run.newest(lambda text: None) == run.at(10)
    run.write(15, parts(15))
    run.rotate(15, keep=1)
    assert [step for step, _ in run.all()] == [15]


def test_one_that_somebody_deleted_meanwhile_is_no_matter(
    run: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = run.all()
    shutil.rmtree(run.at(5))
    monkeypatch.setattr(run, "all", lambda: every)
    run.rotate(200, keep=1)
    monkeypatch.undo()
    assert [step for step, _ in run.all()] == [200]


def test_no_room_is_a_message_and_older_ones_stay(run: Checkpoints) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    def full_inside_a_library(folder: Path) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    for broken in (full, full_inside_a_library):
        with pytest.raises(CheckpointError, match="No space left"):
            run.write(300, [Part("model", broken)])
        assert not list(run.folder.glob(".*")), "what was half-written takes no room"
    assert run.newest(pytest.fail) == run.at(200)
