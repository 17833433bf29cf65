"""What the settings of blocks and attention allow, and what of them goes together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lightwork.errors import SettingsError
from lightwork.settings import Settings, identity, load_settings

Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    (tmp_path / "train.json").write_text("{}")
    (tmp_path / "s.yaml").write_text(
        f"data: {{train: {tmp_path}/train.json}}\nmodel: {{source: scratch}}\n"
    )
    return lambda *overrides: load_settings(tmp_path / "s.yaml", overrides)


def test_they_are_off_by_default_and_never_another_run(load: Load) -> None:
    plain = load()
    assert not plain.train.activation_checkpointing
    assert not plain.train.compile
    assert plain.model.attention == "auto"
    other = load("train.activation_checkpointing=yes", "train.compile=on", "model.attention=eager")
    assert other.train.activation_checkpointing
    assert other.train.compile
    assert identity(other) == identity(plain)


def test_the_tree_is_not_for_compiled_blocks(load: Load) -> None:
    with pytest.raises(SettingsError) as caught:
        load("train.compile=true", "sync.strategy=tree")
    (line,) = [line for line in str(caught.value).splitlines() if "train.compile" in line]
    assert line.strip() == (
        "train.compile is true and sync.strategy is tree: compiled code adds up in orders of its "
        "own and draws other random numbers, so equal bits cannot be promised; set "
        "train.compile=false, or sync.strategy=all_reduce"
    )
    load("train.activation_checkpointing=true", "sync.strategy=tree")
    load("train.compile=true", "train.activation_checkpointing=true", "sync.strategy=ddp")


def test_an_unknown_attention_is_told_what_there_is(load: Load) -> None:
    with pytest.raises(SettingsError, match="auto, eager or sdpa"):
        load("model.attention=flash")
