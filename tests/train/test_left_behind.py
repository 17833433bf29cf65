"""What a killed job leaves in the folder of checkpoints, and from where the run goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lightwork.assembly.learned import best_of
from lightwork.train.checkpoint import Checkpoints, Part
from tests.train.test_checkpoint import parts


def left_behind(run: Path) -> Checkpoints:
    """9 and 10 are whole, 20 has no manifest, 30 is empty, 100 was begun; ``best`` leads to 20."""
    checkpoints = Checkpoints(run, "r")
    for step in (9, 10, 20):
        checkpoints.write(step, parts(step))
    checkpoints.point_best(20)
    (checkpoints.at(20) / "manifest.json").unlink()
    checkpoints.at(30).mkdir()
    shutil.copytree(checkpoints.at(20), checkpoints.folder / ".step-000100.part")
    return checkpoints


def test_the_newest_whole_one_by_its_number(tmp_path: Path) -> None:
    said: list[str] = []
    checkpoints = left_behind(tmp_path)
    assert checkpoints.newest(said.append) == checkpoints.at(10)
    assert [line.split()[2] for line in said] == ["step-000030", "step-000020"]
    assert all("manifest.json is missing" in line for line in said)


def test_a_pointer_to_a_damaged_one_is_not_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left_behind(tmp_path)
    assert best_of(tmp_path).checkpoint.name == "step-000010"
    assert "step-000020, is damaged" in caplog.text


def test_the_next_save_clears_up_and_deletes_nothing_before(tmp_path: Path) -> None:
    checkpoints = left_behind(tmp_path)

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(Exception, match="No space left"):
        checkpoints.save(11, [Part("model", full)], keep=1)
    assert checkpoints.newest(lambda text: None) == checkpoints.at(10)
    checkpoints.save(11, parts(11), keep=1)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == [
        "step-000011", "step-000020",
    ]  # fmt: skip
    checkpoints.point_best(11)
    checkpoints.rotate(11, keep=1)
    assert [step for step, _ in checkpoints.all()] == [11]


@pytest.mark.shared
def test_the_shared_case_of_a_killed_job(shared: Path, tmp_path: Path) -> None:
    """Their marks of completeness are our manifests."""
    case = shared / "cases/35-checkpoint-folder-after-a-kill"
    expected = json.loads((case / "expect.json").read_bytes())
    checkpoints = Checkpoints(tmp_path, "r")
    for theirs in sorted(case.glob("run/step-*")):
        number, _, temporary = theirs.name.removeprefix("step-").partition(".")
        content = {path.name: path.read_bytes() for path in theirs.iterdir()}

        def put(folder: Path, content: dict[str, bytes] = content) -> None:
            for name, data in content.items():
                (folder / name).write_bytes(data)

        ours = checkpoints.write(int(number), [Part("model", put)])
        if temporary:
            ours.rename(ours.with_name(f".{ours.name}.part"))
        elif "COMPLETE" not in content:
            (ours / "manifest.json").unlink()
    for name, reason in expected["skipped"].items():
        if reason == "empty":
            checkpoints.at(int(name.removeprefix("step-"))).mkdir()
    said: list[str] = []
    found = checkpoints.newest(said.append)
    assert found is not None
    step = int(found.name.removeprefix("step-"))
    assert f"step-{step}" == expected["resume_from"]
    skipped = {f"step-{int(line.split()[2].removeprefix('step-'))}" for line in said}
    assert skipped == {name for name, why in expected["skipped"].items() if why != "temporary"}
    assert len(said) == len(skipped)
