"""One voice over all ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.comm.told import Told, read_told, tell


@pytest.mark.parametrize(
    ("rank", "joint", "heard"),
    [("0", True, True), ("1", True, False), ("0", False, True), ("1", False, True)],
)
def test_without_our_supervisor_a_joint_error_is_told_by_rank_0_only(
    rank: str, joint: bool, heard: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tell("no such file\n", {"RANK": rank}, joint)
    assert capsys.readouterr().err == ("no such file\n" if heard else "")


def test_a_single_process_tells(capsys: pytest.CaptureFixture[str]) -> None:
    tell("no such file", {})
    assert capsys.readouterr().err == "no such file\n"


@pytest.mark.parametrize(
    ("rank", "joint", "printed", "shown"),
    [("0", True, True, True), ("0", False, False, False), ("1", True, True, False)],
)
def test_under_our_supervisor_the_words_are_left_for_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rank: str,
    joint: bool,
    printed: bool,
    shown: bool,
) -> None:
    """What rank 1 prints goes to its log, so no person has seen it."""
    path = tmp_path / "rank.told"
    assert read_told(path) is None
    tell("größer", {"RANK": rank, "LIGHTWORK_TOLD": str(path)}, joint, repeats=not joint)
    assert bool(capsys.readouterr().err) == printed
    assert read_told(path) == Told("größer", joint, shown, repeats=not joint)
    assert list(tmp_path.iterdir()) == [path]


def test_a_rank_that_does_not_know_its_number_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    tell("RANK is abc", {"RANK": "abc"})
    assert capsys.readouterr().err == "RANK is abc\n"
