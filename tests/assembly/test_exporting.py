"""An exported folder says what is true of the run, and nothing of the machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from lightwork.assembly.exporting import run_export
from lightwork.assembly.learned import best_of
from lightwork.cli.export import EXPORTS
from lightwork.errors import CheckpointError
from lightwork.settings import load_settings, read_run
from lightwork.tasks.extractive.model import save_model
from lightwork.train.checkpoint import Checkpoints, Part
from tests.assembly.exported import export, files, learned, made_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_run(tmp_path)


def test_the_best_model_is_copied_as_it_was_verified(run: Path, tmp_path: Path) -> None:
    done = run_export(run, tmp_path / "out", load_settings(run / "settings.yaml"))
    assert (done.folder, done.step) == (tmp_path / "out", 4)
    written = files(done.folder)
    assert set(written) - {"README.md", "lightwork.json"} == set(
        files(run / "checkpoints/step-000004/model")
    )
    for name, content in files(run / "checkpoints/step-000004/model").items():
        assert written[name] == content


def test_how_it_is_to_be_asked(run: Path, tmp_path: Path) -> None:
    asked = json.loads((export(run, tmp_path / "out") / "lightwork.json").read_text())
    assert asked == {
        "format": 1,
        "run_id": read_run(run).run_id,
        "step": 4,
        "impossible": False,
        "no_answer_threshold": 0.0,
        "max_length": 32,
        "stride": 8,
        "max_question_length": 12,
        "max_answer_tokens": 6,
        "n_best": 20,
        "lightwork": "0.1.0",
    }


def test_the_threshold_is_that_of_the_best_step(tmp_path: Path) -> None:
    run = made_run(tmp_path, threshold=-1.25, impossible=True)
    best = best_of(run)
    assert (best.checkpoint.name, best.impossible) == ("step-000004", True)
    assert best.no_answer_threshold == -1.25
    out = export(run, tmp_path / "out")
    asked = json.loads((out / "lightwork.json").read_text())
    assert (asked["impossible"], asked["no_answer_threshold"]) == (True, -1.25)
    assert "**-1.25**" in (out / "README.md").read_text()


def test_the_card_tells_of_the_run(run: Path, tmp_path: Path) -> None:
    text = (export(run, tmp_path / "tides") / "README.md").read_text()
    data: Any = ModelCard(text).data
    assert data.model_name == "tides"
    assert data.base_model is None
    assert data.eval_results is not None
    assert {result.metric_value for result in data.eval_results} == {81.39, 76.01}
    for row in (
        "| started from | random weights (BERT with 1 layer of width 32) |",
        "| training data | squad train.json, more.json |",
        "| steps (updates) | the best of 8 was step 4 |",
        "| precision | bf16 |",
        "| seed | 7 |",
    ):
        assert row in text.splitlines()


def test_nothing_of_this_machine_is_told(run: Path, tmp_path: Path) -> None:
    """Neither by us nor by a configuration in which a library noted where it came from."""

    def save(folder: Path) -> None:
        save_model(*learned(), folder)
        config = json.loads((folder / "config.json").read_text())
        config |= {"_name_or_path": str(tmp_path / "base"), "name_or_path": "a/name"}
        (folder / "config.json").write_text(json.dumps(config))

    state = json.loads((run / "checkpoints/step-000004/state.json").read_text())
    Checkpoints(run).write(4, (Part("model", save), Part("state", state)))
    out = export(run, tmp_path / "out")
    config = json.loads((out / "config.json").read_text())
    assert config["name_or_path"] == "a/name"
    assert config["architectures"] == ["BertForQuestionAnswering"]
    for name, content in files(out).items():
        for place in (str(tmp_path), str(Path.home()) + "/", os.uname().nodename):
            assert place.encode() not in content, name


@pytest.mark.parametrize(
    ("source", "base", "on_hub"),
    [
        ("bert-base-uncased", "bert-base-uncased", "bert-base-uncased"),
        ("a/b-c", "a/b-c", "a/b-c"),
        ("package:some_model/model", "some\\_model/model, from an installed package", None),
    ],
)
def test_what_it_started_from(tmp_path: Path, source: str, base: str, on_hub: str | None) -> None:
    out = export(made_run(tmp_path, source), tmp_path / "out")
    text = (out / "README.md").read_text()
    assert f"| started from | {base} |" in text
    data: Any = ModelCard(text).data
    assert data.base_model == on_hub


def test_a_base_in_a_folder_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "secret" / "mini").mkdir(parents=True)
    out = export(made_run(tmp_path, str(tmp_path / "secret/mini")), tmp_path / "out")
    text = (out / "README.md").read_text()
    assert "| started from | a model in a folder called mini |" in text
    assert "secret" not in text


def test_a_run_without_scores_gives_its_newest(run: Path, tmp_path: Path) -> None:
    (run / "best").unlink()
    (run / "evaluations.jsonl").unlink()
    out = export(run, tmp_path / "out")
    assert json.loads((out / "lightwork.json").read_text())["step"] == 8
    assert "was not scored" in (out / "README.md").read_text()


def test_a_damaged_best_is_not_exported(run: Path, tmp_path: Path) -> None:
    (run / "checkpoints/step-000004/model/config.json").write_text("{}")
    out = export(run, tmp_path / "out")
    assert json.loads((out / "lightwork.json").read_text())["step"] == 8
    (run / "checkpoints/step-000008/model/config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="verifies"):
        export(run, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_older_state_is_named(run: Path, tmp_path: Path) -> None:
    Checkpoints(run).write(4, (Part("state", {"step": 4}),))
    with pytest.raises(CheckpointError, match="does not say impossible, lightwork, torch"):
        export(run, tmp_path / "out")


def test_every_name_in_an_export_is_known_to_the_command(run: Path, tmp_path: Path) -> None:
    """So that it may be replaced."""
    for path in export(run, tmp_path / "out").iterdir():
        assert any(path.match(known) for known in EXPORTS), path.name
