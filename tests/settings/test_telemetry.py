"""Steps to profile, and who is shown the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.settings import load_settings, steps_of, to_yaml
from tests.settings.given import in_file, load, mistakes


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("20-25", range(20, 26)), ("20", range(20, 21)), (" 1 - 50 ", range(1, 51)),
        ("7-7", range(7, 8)), ("null", range(0)),
    ],
)  # fmt: skip
def test_steps_to_profile(folder: Path, text: str, steps: range) -> None:
    settings = load(f"telemetry.profile_steps={text}")
    assert steps_of(settings.telemetry.profile_steps) == steps
    Path("again.yaml").write_text(to_yaml(settings), encoding="utf-8")
    assert load_settings(Path("again.yaml")) == settings
    assert steps_of(in_file(f"telemetry: {{profile_steps: {text}}}").telemetry.profile_steps) == (
        steps
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0-3", "; the first step is 1"),
        ("25-20", "; 20 comes before 25"),
        ("1-51", "; these are 51 steps; at most 50 are written"),
        ("20-", ""),
        ("all", ""),
        ("-3", ""),
        ("3.5", ""),
        ("9999999999", ""),
    ],
)
def test_steps_that_cannot_be_meant(folder: Path, text: str, reason: str) -> None:
    assert mistakes(f"telemetry.profile_steps={text}") == (
        f"telemetry.profile_steps is {text} (command line); allowed: steps such as 20-25 or null"
        f"{reason}"
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("wandb", ("wandb",)), ("[]", ()), ("[mlflow, tensorboard]", ("mlflow", "tensorboard")),
    ],
)  # fmt: skip
def test_sinks(folder: Path, text: str, names: tuple[str, ...]) -> None:
    assert load().telemetry.sinks == ("tensorboard",)
    settings = load(f"telemetry.sinks={text}")
    assert settings.telemetry.sinks == names
    Path("again.yaml").write_text(to_yaml(settings), encoding="utf-8")
    assert load_settings(Path("again.yaml")) == settings


@pytest.mark.parametrize(
    ("text", "reason"),
    [("[wandb, comet]", ""), ("[wandb, wandb]", "; one is named twice"), ("null", "")],
)
def test_sinks_that_there_are_not(folder: Path, text: str, reason: str) -> None:
    found = mistakes(f"telemetry.sinks={text}")
    assert "; allowed: tensorboard, wandb or mlflow or a list of them" + reason in found
    assert len(found.splitlines()) == 1
