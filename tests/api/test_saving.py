"""Rank 0 alone writes, all ranks hear how it went, and what is at the path is always whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from lightwork.api.saving import Content, check_target, save
from lightwork.comm.group import Group
from lightwork.errors import RunError
from tests.ranks import run_as_threads


def folder_of(*names: str) -> Content:
    def write(path: Path) -> None:
        path.mkdir()
        for name in names:
            (path / name).write_text(name)

    return write


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_replaced_whole_by_rank_0_alone(tmp_path: Path) -> None:
    calls: list[int] = []

    def train(group: Group) -> list[str]:
        def write(path: Path) -> None:
            calls.append(group.rank)
            folder_of("new")(path)  # type: ignore[operator]

        save(group, tmp_path / "deep/out", folder_of("new"))
        save(group, tmp_path / "deep/out", write)
        return names_in(tmp_path / "deep/out")

    assert run_as_threads(3, train) == [["new"]] * 3
    assert calls == [0]
    assert names_in(tmp_path / "deep") == ["out"]


@pytest.mark.parametrize("before", ["folder", "file", "nothing"])
def test_a_failure_is_everybodys_and_leaves_what_was_there(tmp_path: Path, before: str) -> None:
    target = tmp_path / "out.json"
    if before == "folder":
        folder_of("old")(target)  # type: ignore[operator]
    elif before == "file":
        target.write_text("old")

    def half(path: Path) -> None:
        path.write_text("half")
        raise OSError("disk full")

    def train(group: Group) -> str:
        with pytest.raises(RunError) as caught:
            save(group, target, half)
        return str(caught.value)

    first, second = run_as_threads(2, train)
    assert first == second
    assert "(OSError: disk full); what was there is untouched" in first
    assert names_in(tmp_path) == ([] if before == "nothing" else ["out.json"])
    if before == "folder":
        assert names_in(target) == ["old"]
    elif before == "file":
        assert target.read_text() == "old"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (folder_of("a", "thesis"), folder_of("a", "b"), "the folder holds thesis, which this save"),
        (folder_of("a"), Path.touch, "there is a folder, and a file would replace it"),
        (Path.touch, folder_of("a"), "there is a file, and a folder would replace it"),
    ],
)
def test_what_a_save_does_not_write_is_never_lost(
    tmp_path: Path, before: Any, after: Any, words: str
) -> None:
    target = tmp_path / "out"
    before(target)
    kept = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(RunError, match=words):
        save(Group.alone(), target, after)
    assert sorted(path.name for path in tmp_path.rglob("*")) == kept


def test_a_save_may_replace_an_earlier_one_and_paths_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    save(Group.alone(), "out", folder_of("a"))
    save(Group.alone(), "../here/out", folder_of("a", "b"))
    assert names_in(Path("out")) == ["a", "b"]
    with pytest.raises(RunError, match=r"cannot save \. \(the folder holds out"):
        save(Group.alone(), ".", folder_of("a"))


def test_tensors_become_a_safetensors_file_also_where_they_share_memory(tmp_path: Path) -> None:
    weight = torch.arange(6.0, requires_grad=True)
    tensors: dict[str, Tensor] = {
        "a": weight,
        "b": weight,
        "c": weight[2:],
        "d": weight.view(2, 3).T,
    }
    save(Group.alone(), tmp_path / "w.safetensors", tensors)
    found = load_file(tmp_path / "w.safetensors")
    assert set(found) == set(tensors)
    for name, tensor in found.items():
        assert torch.equal(tensor, tensors[name])
    with pytest.raises(ValueError, match=r"\.safetensors file, so the path cannot be"):
        check_target(tmp_path / "w.pt", tensors)


def test_a_function_that_writes_nothing_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="wrote nothing at the path"):
        save(Group.alone(), tmp_path / "out", lambda path: None)
