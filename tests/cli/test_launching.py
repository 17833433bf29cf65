"""How many ranks there are, and how GPUs are counted without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.cli.launching import (
    choose_ranks,
    is_rank,
    opens_run,
    visible_gpus,
    with_devices,
)
from lightwork.errors import LaunchError


@pytest.fixture
def three_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose nvidia-smi lists three GPUs, one of them cut in two."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n[ \"$1\" = -L ] || exit 9\necho 'GPU 0: A (UUID: GPU-1)'\n"
        "echo '  MIG 1g: (UUID: MIG-1)'\necho 'GPU 1: A'\necho 'GPU 2: A'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.parametrize(
    ("listed", "count"),
    [(None, 3), ("0,1", 2), ("2", 1), ("", 0), ("-1", 0), ("0,-1,1", 1), ("0,1,2,3,4", 3),
     ("GPU-1,GPU-2", 2), (" 1 , 2 ", 2)],
)  # fmt: skip
def test_visible_gpus(three_gpus: None, listed: str | None, count: int) -> None:
    environ = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert visible_gpus(environ) == count


def test_a_driver_that_fails_or_is_absent_gives_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("lightwork.cli.launching._GPU_FOLDERS", tmp_path / "gpus")
    assert visible_gpus({}) == 0
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    assert visible_gpus({}) == 1
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    assert visible_gpus({}) == 0


@pytest.mark.parametrize(
    ("asked", "device", "gpus", "ranks"),
    [(None, "auto", 0, 1), (None, "auto", 4, 4), (3, "auto", 4, 3), (None, "cpu", 4, 1),
     (8, "cpu", 4, 8), (8, "auto", 0, 8), (None, "cuda", 2, 2)],
)  # fmt: skip
def test_ranks(asked: int | None, device: str, gpus: int, ranks: int) -> None:
    assert choose_ranks(asked, device, gpus) == ranks


def test_ranks_that_have_no_gpu() -> None:
    with pytest.raises(LaunchError, match="--ranks 5 was given, but only 4 GPUs are visible"):
        choose_ranks(5, "auto", 4)
    with pytest.raises(LaunchError, match="no GPU is visible"):
        choose_ranks(None, "cuda", 0)


def test_who_is_a_rank_and_who_opens_the_run() -> None:
    assert not is_rank({})
    assert is_rank({"WORLD_SIZE": "1"})
    assert opens_run({})
    assert opens_run({"RANK": "0"})
    assert not opens_run({"RANK": "1"})
    assert not opens_run({"RANK": "0", "LIGHTWORK_RUN_ID": "x"})


@pytest.mark.parametrize(
    ("devices", "listed", "chosen"),
    [
        ("2,0", None, "2,0"),
        (" 1 ", None, "1"),
        ("1,0", "4,5", "5,4"),
        ("0", "GPU-7, GPU-8", "GPU-7"),
    ],
)
def test_devices_are_some_of_the_visible_ones(
    three_gpus: None, devices: str, listed: str | None, chosen: str
) -> None:
    environ = {"A": "b"} if listed is None else {"A": "b", "CUDA_VISIBLE_DEVICES": listed}
    assert with_devices(devices, environ) == {"A": "b", "CUDA_VISIBLE_DEVICES": chosen}
    assert with_devices(None, environ) == environ


@pytest.mark.parametrize("devices", ["3", "0,0", "a", "", "0,", "-1", "1.0"])
def test_devices_that_are_not_there(three_gpus: None, devices: str) -> None:
    with pytest.raises(LaunchError, match="the visible GPUs are 0, 1, 2"):
        with_devices(devices, {})


def test_devices_where_there_are_none_or_another_launcher_chose(three_gpus: None) -> None:
    with pytest.raises(LaunchError, match="--devices 0 was given, but no GPU is visible"):
        with_devices("0", {"CUDA_VISIBLE_DEVICES": ""})
    with pytest.raises(LaunchError, match="set CUDA_VISIBLE_DEVICES for that launcher"):
        with_devices("0", {"RANK": "0"})
