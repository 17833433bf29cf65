"""Runs with ``model.attention``: going on, exporting and being asked under another one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lightwork.assembly.answering import open_answerer
from lightwork.assembly.exporting import run_export
from lightwork.settings import load_settings
from tests.runs.conftest import World
from tests.runs.test_tree import LAST, go_back, instead, ledger

pytestmark = pytest.mark.processes


def attention(run: Path, step: int = LAST) -> str:
    """As the fingerprint of a checkpoint has it."""
    state = json.loads((run / f"checkpoints/step-{step:06d}/state.json").read_text())
    return str(state["fingerprint"]["attention"])


def test_another_attention_on_the_way_is_no_other_run(world: World, tmp_path: Path) -> None:
    run = world.train(1, "eager", *instead("model.attention=eager"))
    assert attention(run) == "eager"
    checkpoint = run / f"checkpoints/step-{LAST:06d}"
    shutil.copytree(checkpoint / "model", tmp_path / "eager")
    go_back(run, LAST - 1)
    world.train(2, run.name, *instead("model.attention=sdpa"))
    assert attention(run) == "sdpa"
    assert attention(run, LAST - 1) == "eager"
    assert ledger(run) == [{"step": LAST, "changed": "attention", "from": "eager", "to": "sdpa"}]

    settings = load_settings(world.settings, instead("model.attention=eager"))
    run_export(run, tmp_path / "exported", settings)
    configs = [
        (folder / "config.json").read_text()
        for folder in (tmp_path / "eager", checkpoint / "model", tmp_path / "exported")
    ]
    assert configs[0] == configs[1] == configs[2]
    assert "attn" not in configs[0]
    module = open_answerer(tmp_path / "exported", "cpu")._model.module
    assert module.config._attn_implementation == "sdpa", "the choice of transformers"  # type: ignore[union-attr]
